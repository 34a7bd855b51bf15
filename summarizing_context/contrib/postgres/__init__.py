"""The store for many hosts: sessions in PostgreSQL, and the pool of workers that make their summaries.

`store` holds the class (the extra `postgres`), `pool` the workers (the extra `pool` for their metrics).
"""
