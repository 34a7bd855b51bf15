"""The store in one SQLite file, or in memory: `SqliteStore` in `store`; its own queries and the schema in `sql/`."""
