"""The store in one SQLite file, or in memory.

`store` holds `SqliteStore`, `engine` its thread and connection, `sql/` its own queries and the schema.
"""
