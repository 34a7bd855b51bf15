"""The store in one SQLite file, or in memory.

`store` holds the class, `engine` its thread and connection, `sql/` the queries and the numbered migrations.
"""
