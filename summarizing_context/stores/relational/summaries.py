"""Summaries of a relational store: found, kept and noted as used.

Functions on a connection, within the transaction of their caller.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from summarizing_context.stores.base import Places, StoredSummary, SummaryKey
from summarizing_context.stores.relational.database import Connection


def find_summaries(connection: Connection, keys: Sequence[SummaryKey]) -> dict[SummaryKey, StoredSummary]:
    """Those of `keys` that are there."""
    found = connection.run("find_summaries", {"keys": json.dumps(keys)})
    return {
        SummaryKey(range_hash, recipe_hash): StoredSummary(text.decode("utf-8", "surrogatepass"), *numbers)
        for range_hash, recipe_hash, text, *numbers in found
    }


def save_summary(connection: Connection, key: SummaryKey, summary: StoredSummary) -> StoredSummary:
    """Keep `summary` unless there is one, and return the one that is kept."""
    text = summary.text.encode("utf-8", "surrogatepass")
    row = (*key, text, summary.rank, summary.input_tokens, summary.output_tokens)
    connection.run("save_summary", row)
    return find_summaries(connection, [key])[key]


def note_uses(connection: Connection, session_id: str, keys: Sequence[SummaryKey], places: Places) -> None:
    """Note that a session uses those of `keys` that are there; nothing is noted for an unknown session."""
    listed = [(*key, *places.get(key, (None, None))) for key in keys]
    connection.run("note_uses", {"session_id": session_id, "keys": json.dumps(listed)})
