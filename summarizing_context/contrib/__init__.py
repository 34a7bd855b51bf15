"""Doors that need an extra: stores and servers that the engine knows by their address alone.

The engine imports nothing from here; a door is opened by its name when a setting asks for it.
"""
