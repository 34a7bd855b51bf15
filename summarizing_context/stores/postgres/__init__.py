"""The store for many hosts: sessions in PostgreSQL. `store` holds the class; the extra `postgres` brings the driver."""
