"""The pool: workers apart from the hosts make the summaries that hosts on one PostgreSQL store ask for.

`asking` is the side of a host, `worker` that of a worker; `making` puts both together. The queue is the store's.
"""
