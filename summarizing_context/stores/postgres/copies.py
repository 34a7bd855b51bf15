"""Copy sessions out of an SQLite file, and compare what has arrived. For the thread of the new store.

Functions on two connections, within the transaction of their caller.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from summarizing_context.errors import StoreError
from summarizing_context.stores.base import StoredSummary, SummaryKey
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.relational.checkpoints import read_state, unpack
from summarizing_context.stores.relational.fingerprints import SLICE, Fingerprint, Logs, Run, fingerprint
from summarizing_context.stores.relational.summaries import find_summaries

_REMEMBERED = 64  # states, unpacked


class Copy:
    """Sessions of a file that may share parts of their logs, on their way into the new store."""

    def __init__(self, file: Run, connection: PostgresConnection, sessions: Mapping[str, Fingerprint]) -> None:
        self._file, self._connection, self._sessions = file, connection, sessions
        self._branches: dict[int, int] = {}  # their new numbers
        self._states: dict[int, int] = {}
        self.vectors = 0

    def make(self, name: str) -> None:
        """Copy all. Raises `StoreError` where what has arrived is not the same. `name` is the file's."""
        heads = {one: self._file("its_head", {"session_id": one}).fetchone() for one in self._sessions}
        checkpoints = {one: self._file("its_checkpoints", {"session_id": one}).fetchall() for one in self._sessions}
        kept = [row for rows in checkpoints.values() for row in rows]
        logs = Logs(self._file, [*(row[:2] for row in heads.values()), *(row[2:4] for row in kept)], name)
        for branch in sorted(logs.stops):
            self._copy_branch(branch, *logs.parents[branch], max(logs.stops[branch]))
        self._connection.run("guard_states")
        self._copy_states({number for row in kept for _, number, _ in json.loads(row[4])})
        for session_id, head in heads.items():
            self._copy_session(session_id, head)
            self._copy_checkpoints(session_id, checkpoints[session_id])
        for session_id, ours in self._sessions.items():
            theirs = fingerprint(self._connection.run, session_id, name)
            if theirs is None or (parts := ours.differing(theirs)):
                raise differs(f"session {session_id!r}: {', '.join(parts) if theirs else 'all'}")

    def _copy_branch(self, branch: int, parent: int | None, start: int, stop: int) -> None:
        (owner,) = self._file("branch_owner", {"branch": branch}).fetchone()
        values = {"session_id": owner if owner in self._sessions else None, "parent_stop": start}
        values["parent"] = None if parent is None else self._branches[parent]
        number = self._branches[branch] = self._connection.insert("begin_branch", values)
        for at in range(start, stop, SLICE):
            end = min(at + SLICE, stop)
            rows = self._file("entries", (branch, at, end)).fetchall()
            self._connection.copy_entries((number, position, *row) for position, row in enumerate(rows, at))
            self.vectors += copy_vectors(
                self._connection, "row", self._file_vectors(branch, at, end), lambda row: (number << 32) + row
            )

    def _file_vectors(self, branch: int, start: int, stop: int) -> list[tuple[int, str, bytes]]:
        first = branch << 32
        values = {"owner": "row", "start": first + start, "stop": first + stop}
        return [(row - first, recipe, vector) for row, recipe, vector in self._file("vectors_between", values)]

    def _copy_states(self, numbers: set[int]) -> None:
        """States of checkpoints with those that they are packed against."""
        found: dict[int, Any] = {}
        while numbers:
            number = numbers.pop()
            found[number] = self._file("state", {"id": number}).fetchone()
            base = found[number][2]
            if base is not None and base not in found:
                numbers.add(base)
        unpacked: dict[int, bytes] = {}
        for number, (digest, state, base, depth) in sorted(found.items(), key=lambda item: (item[1][3], item[0])):
            values = {"digest": digest, "state": state, "depth": depth}
            values["base"] = None if base is None else self._states[base]
            moved = self._states[number] = self._connection.insert("migrate_state", values)
            unpacked[moved] = self._unpacked(moved, unpacked)
            if hashlib.sha256(unpacked[moved]).digest()[: len(digest)] != digest:
                raise differs("a state of a checkpoint")
            while len(unpacked) > _REMEMBERED:
                del unpacked[next(iter(unpacked))]

    def _unpacked(self, number: int, known: Mapping[int, bytes]) -> bytes:
        state, base = self._connection.run("checkpoint_state", {"id": number}).fetchone() or (b"", None)
        if base is None:
            return zlib.decompress(state)
        return unpack(state, known[base] if base in known else read_state(self._connection, base))

    def _copy_session(self, session_id: str, head: Sequence[Any]) -> None:
        known = {"session_id": session_id}
        names = ("branch", "stop", "project", "created_at", "updated_at", "log_version", "pins", "budget")
        values = {**dict(zip(names, map(without_nul, head), strict=True)), "branch": self._branches[head[0]]}
        self._connection.run("migrate_session", {**known, **values, "origin": self._sessions[session_id].digest})
        parts = {
            "migrate_activation": "its_activations",
            "migrate_history": "its_history",
            "migrate_use": "its_uses",
            "add_rules": "its_rules",
        }
        for name, query in parts.items():
            rows = ((session_id, *map(without_nul, row)) for row in self._file(query, known))
            self._connection.run_many(name, rows)
        summaries = self._file("summaries_of_session", known)
        while some := summaries.fetchmany(SLICE):
            copy_summaries(self._connection, some)

    def _copy_checkpoints(self, session_id: str, rows: Sequence[Any]) -> None:
        ids = [row[0] for row in rows]
        taken = {id for (id,) in self._connection.run("checkpoint_ids", {"ids": ids})} if ids else set()
        for id, name, branch, stop, showings, pins, created_at in rows:
            shown = [[key, self._states[state], marks] for key, state, marks in json.loads(showings)]
            values = {
                "id": id,
                "session_id": session_id,
                "name": without_nul(name),
                "branch": self._branches[branch],
                "stop": stop,
                "showings": json.dumps(shown),
                "pins": without_nul(pins),
                "created_at": created_at,
            }
            if id in taken:
                self._connection.run("add_checkpoint", {**values, "now": created_at})
            else:
                self._connection.run("migrate_checkpoint", values)
        self._connection.run("keep_checkpoint_ids")


def copy_summaries(connection: PostgresConnection, rows: Sequence[Any]) -> int:
    """Keep summaries, unless their keys have some; how many of these rows are there now."""
    asked = {SummaryKey(*row[:2]): StoredSummary(row[2].decode("utf-8", "surrogatepass"), *row[3:]) for row in rows}
    before = find_summaries(connection, list(asked))
    connection.run_many("save_summary", [row for row in rows if SummaryKey(*row[:2]) not in before])
    after = find_summaries(connection, list(asked))
    if after != {**asked, **before}:
        raise differs("summaries")
    return len(after)


def copy_vectors(
    connection: PostgresConnection, owner: str, rows: Sequence[tuple[int, str, bytes]], moved: Callable[[int], int]
) -> int:
    """Keep vectors of a run of numbers, which `moved` gives their new ones; how many there are."""
    if not rows:
        return 0
    sent = {(moved(row), recipe): vector for row, recipe, vector in rows}
    values = [{"owner": owner, "number": one, "recipe": recipe, "vector": sent[one, recipe]} for one, recipe in sent]
    connection.run_many("add_vector", values)
    numbers = [number for number, _ in sent]
    between = {"owner": owner, "start": min(numbers), "stop": max(numbers) + 1}
    kept = {(number, recipe): vector for number, recipe, vector in connection.run("vectors_between", between)}
    if any(kept.get(place) != vector for place, vector in sent.items()):
        raise differs("vectors")
    return len(sent)


def without_nul(value: Any) -> Any:
    """A text as PostgreSQL can keep it."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def differs(what: str) -> StoreError:
    """What has arrived is not what was sent."""
    return StoreError(f"{what} would not be the same in the new store, and nothing of it was kept; migrate again")
