"""A local proxy between an unmodified client and its provider, which sends a view in place of a history."""
