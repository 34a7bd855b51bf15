"""The store in one SQLite file, or in memory.

`store` is the door, `writer` the one thread that writes, `sql/` holds the queries and the numbered migrations.
"""
