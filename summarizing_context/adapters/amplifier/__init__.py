"""The adapter for Microsoft Amplifier: `mount`, and the context manager that it mounts."""
