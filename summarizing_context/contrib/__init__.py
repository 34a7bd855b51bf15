"""Doors that need an extra: PostgreSQL, Chroma, the proxy and the inspector. The engine imports nothing from here."""
