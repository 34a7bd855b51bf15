"""Taking over the file of a host's simple context: a JSON list of messages, as its documents show it.

The list is read once, into a store beside it; the file itself stays as it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from summarizing_context.assembly import open_store
from summarizing_context.errors import StoreCorruptError, StoreReadOnlyError

SUFFIX = ".db"  # of the store beside a list
_SQLITE = b"SQLite format 3\x00"


def store_beside(path: Path) -> Path:
    """The store that goes with a list; `path` itself where that holds none."""
    return path.with_name(path.name + SUFFIX) if _holds_list(path) else path


def read_list(path: Path) -> list[Any]:
    """The messages in the file. Raises `StoreCorruptError` where it only begins like a list."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError, OSError) as error:
        raise StoreCorruptError(
            f"{path} begins like a JSON list but cannot be read ({type(error).__name__}); repair it, or name another "
            "storage_path"
        ) from None
    return list(found)


async def is_taken_over(store: Path) -> bool:
    """Whether a session of the store has messages: then the list was read before. A store that may not be written
    has none to take over."""
    if not _is_begun(store):
        return False
    try:
        opened = await open_store(store)  # to write: one of an earlier version is brought up to date
    except StoreReadOnlyError:
        return True
    try:
        return any(session.messages for session in await opened.sessions())
    finally:
        await opened.close()


def _is_begun(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _holds_list(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            beginning = file.read(4_096)
    except OSError:
        return False
    return not beginning.startswith(_SQLITE) and beginning.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
