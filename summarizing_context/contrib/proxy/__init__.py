"""A local proxy between an unmodified client and its provider: requests go on with a view in place of their history.

Whatever fails here, the client's own request goes on unchanged. Needs the extra `proxy`.
"""
