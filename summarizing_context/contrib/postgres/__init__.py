"""The store for many hosts: sessions in PostgreSQL, and the pool of workers that make their summaries."""
