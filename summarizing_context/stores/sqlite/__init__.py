"""The store in one SQLite file, or in memory.

`store` holds `SqliteStore`, `file` opens, checks and reads a file, `sql/` has its own queries and the schema.
"""
