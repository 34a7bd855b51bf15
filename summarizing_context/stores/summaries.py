"""Summaries in SQLite, and which session uses which.

Functions on a connection, within the transaction of their caller.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from summarizing_context.ports import Places, StoredSummary, SummaryKey
from summarizing_context.stores.queries import SQL


def find(connection: sqlite3.Connection, keys: Sequence[SummaryKey]) -> dict[SummaryKey, StoredSummary]:
    """Those of `keys` that are there."""
    found = connection.execute(SQL["find_summaries"], {"keys": json.dumps(keys)})
    return {
        SummaryKey(range_hash, recipe_hash): StoredSummary(text.decode("utf-8", "surrogatepass"), *numbers)
        for range_hash, recipe_hash, text, *numbers in found
    }


def save(connection: sqlite3.Connection, key: SummaryKey, summary: StoredSummary) -> StoredSummary:
    """Keep `summary` unless there is one, and return the one that is kept."""
    text = summary.text.encode("utf-8", "surrogatepass")
    row = (*key, text, summary.rank, summary.input_tokens, summary.output_tokens)
    connection.execute(SQL["save_summary"], row)
    return find(connection, [key])[key]


def note_uses(connection: sqlite3.Connection, session_id: str, keys: Sequence[SummaryKey], places: Places) -> None:
    """Note that a session uses those of `keys` that are there; nothing is noted for an unknown session."""
    listed = [(*key, *places.get(key, (None, None))) for key in keys]
    connection.execute(SQL["note_uses"], {"session_id": session_id, "keys": json.dumps(listed)})
