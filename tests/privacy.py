"""Who may read what a test has written."""

from pathlib import Path


def open_to_others(folder: Path) -> list[str]:
    """Files and folders inside that others than their owner may read, write or enter."""
    return sorted(path.name for path in folder.rglob("*") if path.stat().st_mode & 0o077)
