"""Doors that need an extra: PostgreSQL, Chroma, the proxy and the inspector.

The engine imports nothing from here: a door is opened by the command line, by a program, or by the address of a store.
"""
