"""Settings of a session. Nothing is imported here, so that commands start quickly."""
