"""Logs of sessions in a relational store: heads, branches and entries; rules; and the summaries that a session uses.

Functions on a connection run within the transaction of their caller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import starmap
from typing import NamedTuple

from summarizing_context.errors import StoreCorruptError, StoreError
from summarizing_context.messages.search_terms import searchable
from summarizing_context.stores.base import Places, StoredEntry, StoredRules, StoredSummary, SummaryKey
from summarizing_context.stores.relational.engine import Connection


class Head(NamedTuple):
    """Where a log ends. `taken`: the next place is not for this branch to fill."""

    branch: int
    stop: int
    taken: bool = False


def now() -> str:
    """Return the time as it is noted: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def readable(text: bytes) -> str:
    """Return a text as it is kept without the halves of characters that are let through: no index takes them."""
    return text.decode("utf-8", "replace")


def create_session(connection: Connection, session_id: str, project: str | None, begins_as: Head | None = None) -> None:
    """Create a session whose log is empty, or the one that a head lists."""
    head = _branch_off(connection, session_id, begins_as or Head(0, 0))
    place = {"branch": head.branch, "stop": head.stop}
    connection.run("create_session", session_id=session_id, project=project, now=now(), **place)


def append(connection: Connection, session_id: str, entries: Sequence[StoredEntry]) -> None:
    """Add entries at the end of the log, on a branch of its own where the next place is taken."""
    head = head_of(connection, session_id)
    _write(connection, session_id, _branch_off(connection, session_id, head) if head.taken else head, entries)


def replace(connection: Connection, session_id: str, keep: int, entries: Sequence[StoredEntry]) -> None:
    """Let the log go on from its first `keep` entries; the old branch stays until `purge`."""
    head = head_of(connection, session_id)
    if not 0 <= keep <= head.stop:
        raise StoreError(
            f"session {session_id!r} has {head.stop} entries, so {keep} of them cannot be kept; "
            f"give a number from 0 to {head.stop}"
        )
    put_in_place(connection, session_id, _branch_off(connection, session_id, Head(head.branch, keep)), keep, entries)


def put_in_place(
    connection: Connection, session_id: str, head: Head, shared: int, entries: Sequence[StoredEntry] = ()
) -> None:
    """Let the log be that of a head with entries behind it; it has `shared` entries in common with the one before. What
    stood behind these stays until `purge`."""
    connection.run("forget_rules", session_id=session_id, keep=shared)
    _write(connection, session_id, head, entries)
    connection.run("note_replacement", session_id=session_id)
    connection.run("forget_activations", session_id=session_id, keep=0)
    connection.run("age_uses", session_id=session_id)


def _write(connection: Connection, session_id: str, head: Head, entries: Sequence[StoredEntry]) -> None:
    """Add entries where a head ends, with their words and rules, and let the log end behind them."""
    if not all(isinstance(part, bytes) for entry in entries for part in (entry.message, entry.facts)):
        raise StoreError("the store was given something that it cannot keep; it takes bytes")
    places = list(enumerate(entries, head.stop))
    connection.run_many("add_entry", [(head.branch, place, entry.message, entry.facts) for place, entry in places])
    connection.index_texts(((head.branch << 32) + place, searchable(entry.message)) for place, entry in places)
    add_rules(connection, session_id, [(place, row) for place, entry in places for row in entry.rules])
    stop = head.stop + len(places)
    connection.run("move_head", session_id=session_id, branch=head.branch, stop=stop, now=now())


def head_of(connection: Connection, session_id: str) -> Head:
    """Return where the session's log ends."""
    row = connection.run("head", session_id=session_id).fetchone()
    if row is None:
        raise StoreError(f"there is no session {session_id!r}; claim it to create it")
    return Head(*row)


def owner(connection: Connection, head: Head) -> int:
    """Return the branch on which the last entry of a head's log lies; the oldest one for an empty log."""
    return int(connection.run("owner", branch=head.branch, stop=head.stop).fetchone()[0])


def _branch_off(connection: Connection, session_id: str, head: Head) -> Head:
    """Begin a branch where a head ends; it leaves the branch on which the last entry lies."""
    parent = owner(connection, head) if head.stop else None
    begun = connection.run("begin_branch", session_id=session_id, parent=parent, parent_stop=head.stop)
    return Head(begun.fetchone()[0], head.stop)


def _ranges(connection: Connection, head: Head) -> list[tuple[int, int, int]]:
    """Return the branches that make up the log of a head, oldest first, each with its places from start to stop."""
    return list(connection.run("ranges", branch=head.branch, stop=head.stop).fetchall())


def shared_entries(connection: Connection, session_id: str, other: Head) -> int:
    """Return how many entries the log of a session and that of a head of the same origin begin with alike."""
    shared, own = 0, _ranges(connection, head_of(connection, session_id))
    for (branch, _, stop), (its_branch, _, its_stop) in zip(own, _ranges(connection, other), strict=False):
        if branch != its_branch:
            break
        shared = min(stop, its_stop)
        if stop != its_stop:
            break
    return shared


def read_entries(connection: Connection, head: Head, name: str) -> list[StoredEntry]:
    """Return the log that a head lists, of the store of this name."""
    entries: list[StoredEntry] = []
    for branch, start, stop in _ranges(connection, head):
        entries.extend(starmap(StoredEntry, connection.run("entries", branch=branch, start=start, stop=stop)))
    if len(entries) != head.stop:
        raise StoreCorruptError(
            f"{name}: the store is damaged; it was left as it is: restore it from a backup, or name another one"
        )
    return entries


def add_rules(connection: Connection, session_id: str, rows: Iterable[tuple[int, StoredRules]]) -> None:
    """Keep the rules of messages, each with its place in the log."""
    values = [(session_id, row.digest, row.version, position, row.rules) for position, row in rows]
    if values:
        connection.run_many("add_rules", values)


def save_activation(connection: Connection, session_id: str, provider_key: str, state: bytes) -> None:
    """Keep a state as the newest of its session, and drop the oldest beyond four."""
    connection.run("save_activation", session_id=session_id, provider_key=provider_key, state=state)
    connection.run("forget_activations", session_id=session_id, keep=4)


def find_summaries(connection: Connection, keys: Sequence[SummaryKey]) -> dict[SummaryKey, StoredSummary]:
    """Return those of `keys` that are there."""
    return {
        SummaryKey(range_hash, recipe_hash): read_summary(*parts)
        for range_hash, recipe_hash, *parts in connection.run("find_summaries", keys=json.dumps(keys))
    }


def read_summary(text: bytes, rank: int, input_tokens: int, output_tokens: int) -> StoredSummary:
    """Return a summary from its row."""
    return StoredSummary(text.decode("utf-8", "surrogatepass"), rank, input_tokens, output_tokens)


def save_summary(connection: Connection, key: SummaryKey, summary: StoredSummary) -> StoredSummary:
    """Keep `summary` unless there is one, and return the one that is kept."""
    text = summary.text.encode("utf-8", "surrogatepass")
    paid = {"input_tokens": summary.input_tokens, "output_tokens": summary.output_tokens}
    new = connection.run("save_summary", **key._asdict(), text=text, rank=summary.rank, **paid).fetchone()
    if new is not None:
        connection.index_texts([(-new[0], readable(text))])
    return find_summaries(connection, [key])[key]


def note_uses(connection: Connection, session_id: str, keys: Sequence[SummaryKey], places: Places) -> None:
    """Note that a session uses those of `keys` that are there; nothing is noted for an unknown session."""
    listed = [(*key, *places.get(key, (None, None))) for key in keys]
    connection.run("note_uses", session_id=session_id, keys=json.dumps(listed))
