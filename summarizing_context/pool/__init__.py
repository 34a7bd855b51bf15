"""The pool: workers apart from the hosts make the summaries that hosts on one PostgreSQL store ask for.

`client` is the side of a host, `worker` that of a worker, `metrics` what a worker tells of itself. The queue is the
store's.
"""
