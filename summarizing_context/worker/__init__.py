"""The background worker: which summaries are missing, the jobs for them, and the cache of summaries.

It yields to calls of the host, and never blocks a view.
"""
