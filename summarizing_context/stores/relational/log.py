"""Sessions of a relational store: heads, branches and entries, rules, pins, summaries, and the history of activations.

Functions on a connection run within the transaction of their caller.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import starmap
from typing import NamedTuple

from summarizing_context.errors import SessionExistsError, StoreError
from summarizing_context.messages.search_terms import searchable
from summarizing_context.stores.base import (
    KeptSummary,
    NewActivation,
    Places,
    SessionInfo,
    StoredEntry,
    StoredFailure,
    StoredRules,
    StoredSession,
    StoredSummary,
    SummaryKey,
)
from summarizing_context.stores.relational.database import Connection, damaged

KEPT_ACTIVATIONS = 4  # provider keys of a session

KEPT_STATES = 64  # of a session's activations

_QUICKLY = 1  # level of compression: a view waits for it


class Head(NamedTuple):
    """Where a log ends. `taken`: the next place is not for this branch to fill."""

    branch: int
    stop: int
    taken: bool


def open_session(connection: Connection, session_id: str, project: str | None, pid: int) -> None:
    """Create the session if there is none, and note its writer."""
    if not has_session(connection, session_id):
        branch = _begin_branch(connection, session_id, parent=None, stop=0)
        values = {"session_id": session_id, "project": project, "branch": branch, "now": now()}
        connection.run("create_session", values)
    connection.run("note_writer", {"session_id": session_id, "project": project, "pid": pid})


def has_session(connection: Connection, session_id: str) -> bool:
    """Whether there is such a session."""
    return connection.run("session", {"session_id": session_id}).fetchone() is not None


def append(connection: Connection, session_id: str, entries: Sequence[StoredEntry]) -> None:
    """Add entries at the end of the log."""
    head = head_of(connection, session_id)
    if head.taken:
        head = _beside(connection, session_id, head)
    _write(connection, session_id, head, entries)


def own_head(connection: Connection, session_id: str) -> Head:
    """Where the session's log ends, moved to a branch of its own where the next place is taken."""
    head = head_of(connection, session_id)
    if head.taken:
        head = _beside(connection, session_id, head)
        _write(connection, session_id, head, [])
    return head


def _beside(connection: Connection, session_id: str, head: Head) -> Head:
    return Head(_begin_branch(connection, session_id, parent=head.branch, stop=head.stop), head.stop, False)


def replace(connection: Connection, session_id: str, keep: int, entries: Sequence[StoredEntry]) -> None:
    """Let the log go on from its first `keep` entries; the old branch stays until `purge`."""
    head = head_of(connection, session_id)
    if not 0 <= keep <= head.stop:
        raise StoreError(
            f"session {session_id!r} has {head.stop} entries, so {keep} of them cannot be kept; "
            f"give a number from 0 to {head.stop}"
        )
    branch = _begin_branch(connection, session_id, parent=head.branch, stop=keep)
    connection.run("forget_rules", {"session_id": session_id, "keep": keep})
    _write(connection, session_id, Head(branch, keep, False), entries)
    _forget_what_was_shown(connection, session_id)


def move(connection: Connection, session_id: str, branch: int, stop: int) -> None:
    """Let the log be the one that another head lists; what stood behind it stays until `purge`."""
    head = Head(branch, stop, False)
    shared = _shared(connection, head_of(connection, session_id), head)
    connection.run("forget_rules", {"session_id": session_id, "keep": shared})
    _write(connection, session_id, head, [])
    _forget_what_was_shown(connection, session_id)


def fork(connection: Connection, session_id: str, new_id: str, head: Head) -> None:
    """A new session of the same project, whose log begins with the one that `head` lists."""
    if has_session(connection, new_id):
        raise SessionExistsError(new_id)
    project, budget = connection.run("project", {"session_id": session_id}).fetchone()
    shared = _shared(connection, head_of(connection, session_id), head)
    branch = _begin_branch(connection, new_id, parent=head.branch, stop=head.stop)
    values = {"session_id": new_id, "project": project, "branch": branch, "now": now()}
    connection.run("create_session", values)
    save_budget(connection, new_id, budget)
    _write(connection, new_id, Head(branch, head.stop, False), [])
    connection.run("copy_uses", {"session_id": session_id, "fork": new_id})
    connection.run("copy_rules", {"session_id": session_id, "fork": new_id, "stop": shared})


def _forget_what_was_shown(connection: Connection, session_id: str) -> None:
    known = {"session_id": session_id}
    connection.run("note_replacement", known)
    connection.run("forget_activations", {**known, "keep": 0})
    connection.run("age_uses", known)


def save_activation(connection: Connection, session_id: str, provider_key: str, state: bytes) -> None:
    """Keep a state as the newest of its session, and drop the oldest beyond four."""
    head_of(connection, session_id)
    values = {"session_id": session_id, "provider_key": provider_key, "state": state}
    connection.run("save_activation", values)
    connection.run("forget_activations", {"session_id": session_id, "keep": KEPT_ACTIVATIONS})


def save_budget(connection: Connection, session_id: str, budget: int | None) -> None:
    """Keep the budget of the session's last request."""
    connection.run("save_budget", {"session_id": session_id, "budget": budget})


def save_failure(connection: Connection, session_id: str, failure: StoredFailure) -> None:
    """Keep what went wrong last, and add to the number of summaries that were given up."""
    connection.run("save_failure", {"session_id": session_id, **failure._asdict()})


def load(connection: Connection, session_id: str, path: str) -> StoredSession | None:
    """The session as it stands, or None."""
    known = {"session_id": session_id}
    session = connection.run("session", known).fetchone()
    if session is None:
        return None
    entries = read_entries(connection, head_of(connection, session_id), path)
    activations = connection.run("activations", known).fetchall()
    project, _, log_version, pins, updated_at, *failure = session
    rules = tuple(starmap(StoredRules, connection.run("rules", known)))
    failed = StoredFailure(*failure)
    return StoredSession(session_id, project, entries, activations, log_version, pins, rules, updated_at, failed)


def read_entries(connection: Connection, head: Head, path: str) -> list[StoredEntry]:
    """The log that a head lists."""
    entries: list[StoredEntry] = []
    for branch_range in connection.run("ranges", {"branch": head.branch, "stop": head.stop}).fetchall():
        entries.extend(starmap(StoredEntry, connection.run("entries", branch_range)))
    if len(entries) != head.stop:
        raise damaged(path)
    return entries


def list_sessions(connection: Connection) -> list[SessionInfo]:
    """All sessions, the newest change first; the writer is the process that noted itself last."""
    return list(starmap(SessionInfo, connection.run("sessions")))


def noted_writer(connection: Connection, session_id: str) -> int | None:
    """The process that noted itself last as the session's writer."""
    row = connection.run("session", {"session_id": session_id}).fetchone()
    return None if row is None else row[1]


def owner(connection: Connection, head: Head) -> int:
    """The branch on which the last entry of a head's log lies; the oldest one for an empty log."""
    branch = head.branch
    while True:
        parent, left_at = connection.run("parent", {"branch": branch}).fetchone()
        if parent is None or head.stop > left_at:
            return branch
        branch = parent


def head_of(connection: Connection, session_id: str) -> Head:
    """Where the session's log ends."""
    row = connection.run("head", {"session_id": session_id}).fetchone()
    if row is None:
        raise StoreError(f"there is no session {session_id!r}; claim it to create it")
    return Head(*row)


def _shared(connection: Connection, one: Head, other: Head) -> int:
    """How many entries two logs of one origin begin with alike."""
    ranges = (connection.run("ranges", {"branch": head.branch, "stop": head.stop}).fetchall() for head in (one, other))
    shared = 0
    for (branch, _, stop), (its_branch, _, its_stop) in zip(*ranges, strict=False):
        if branch != its_branch:
            break
        shared = min(stop, its_stop)
        if stop != its_stop:
            break
    return shared


def _begin_branch(connection: Connection, session_id: str, *, parent: int | None, stop: int) -> int:
    """A new branch on `parent` at `stop`, or rather on that ancestor from which the last kept entry comes."""
    while parent is not None:
        grandparent, left_at = connection.run("parent", {"branch": parent}).fetchone()
        if stop > left_at:
            break
        parent = grandparent
    values = {"session_id": session_id, "parent": parent, "parent_stop": stop}
    return connection.insert("begin_branch", values)


def _write(connection: Connection, session_id: str, head: Head, entries: Sequence[StoredEntry]) -> None:
    rows = [(head.branch, head.stop + i, entry.message, entry.facts) for i, entry in enumerate(entries)]
    connection.run_many("add_entry", rows)
    index_entries(connection, head, entries)
    add_rules(connection, session_id, ((head.stop + i, row) for i, entry in enumerate(entries) for row in entry.rules))
    values = {"session_id": session_id, "branch": head.branch, "stop": head.stop + len(rows), "now": now()}
    connection.run("move_head", values)


def index_entries(connection: Connection, head: Head, entries: Sequence[StoredEntry]) -> None:
    """Index entries that begin where a head ends."""
    first = (head.branch << 32) + head.stop
    connection.index_texts((first + at, searchable(entry.message)) for at, entry in enumerate(entries))


def now() -> str:
    """The time as it is noted: ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def add_rules(connection: Connection, session_id: str, rows: Iterable[tuple[int, StoredRules]]) -> None:
    """Keep the rules of messages, each with its place in the log."""
    values = [(session_id, row.digest, row.version, position, row.rules) for position, row in rows]
    if values:
        connection.run_many("add_rules", values)


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
    new = connection.run("save_summary", row).fetchone()
    if new is not None:
        connection.index_texts([(-new[0], readable(text))])
    return find_summaries(connection, [key])[key]


def note_uses(connection: Connection, session_id: str, keys: Sequence[SummaryKey], places: Places) -> None:
    """Note that a session uses those of `keys` that are there; nothing is noted for an unknown session."""
    listed = [(*key, *places.get(key, (None, None))) for key in keys]
    connection.run("note_uses", {"session_id": session_id, "keys": json.dumps(listed)})


def readable(text: bytes) -> str:
    """A text as it is kept, in which halves of characters are let through, without these: no index takes them."""
    return text.decode("utf-8", "replace")


def summaries_of(connection: Connection, session_id: str) -> dict[SummaryKey, KeptSummary]:
    """The summaries that a session uses, each with the entries for which it stands there."""
    return {
        SummaryKey(range_hash, recipe_hash): KeptSummary(
            StoredSummary(text.decode("utf-8", "surrogatepass"), *numbers), None if start is None else (start, stop)
        )
        for range_hash, recipe_hash, start, stop, text, *numbers in connection.run(
            "summaries_of", {"session_id": session_id}
        )
    }


def add_to_history(connection: Connection, session_id: str, provider_key: str, made: NewActivation) -> None:
    """Keep what an activation was, and drop the state before the oldest beyond 64."""
    before = None if made.before is None else zlib.compress(made.before, _QUICKLY)
    known = {"session_id": session_id, "number": made.number}
    values = {**known, "provider_key": provider_key, "figures": made.figures, "before": before}
    connection.run("add_to_history", values)
    if made.number > KEPT_STATES:
        connection.run("thin_history", {**known, "keep": KEPT_STATES})
    if made.undoes is not None:
        connection.run("note_undone", {**known, "number": made.undoes})
