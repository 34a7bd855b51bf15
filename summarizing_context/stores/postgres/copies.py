"""Copy sessions out of an SQLite file, and compare what has arrived by digests. For the thread of the new store.

Functions on connections, within the transaction of their caller. No number of a store occurs in a fingerprint:
equal ones mean the same session.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from summarizing_context.errors import StoreError
from summarizing_context.stores.base import StoredSummary, SummaryKey
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.relational.checkpoints import read_state, unpack
from summarizing_context.stores.relational.database import Rows, Values, damaged
from summarizing_context.stores.relational.log import find_summaries

_REMEMBERED = 64  # states, unpacked

SLICE = 500  # rows that are held in memory

_START = bytes(32)

Run = Callable[[str, Values], Rows]  # of a connection


class Fingerprint(NamedTuple):
    """A session, part by part."""

    log: bytes
    parts: Mapping[str, bytes]
    counts: Mapping[str, int]

    @property
    def digest(self) -> bytes:
        """Of all parts but the budget of the last request."""
        return digest_of(sorted(part for part in self.parts.items() if part[0] != "budget"))

    def differing(self, other: Fingerprint) -> list[str]:
        """The names of the parts that are not the same."""
        return [name for name, part in self.parts.items() if other.parts[name] != part]


def fingerprint(run: Run, session_id: str, name: str) -> Fingerprint | None:
    """What a session of the store `name` holds; None where it is not there."""
    known = {"session_id": session_id}
    head = run("its_head", known).fetchone()
    if head is None:
        return None
    branch, stop, *told, budget = head
    checkpoints = run("its_checkpoints", known).fetchall()
    logs = Logs(run, [(branch, stop), *((row[2], row[3]) for row in checkpoints)], name)
    kept = [(logs.digest(row[2], row[3]), row[1], row[3], _shown(run, row[4], name), *row[5:]) for row in checkpoints]
    log = logs.digest(branch, stop)
    rows: dict[str, list[Any]] = {
        "log": [(stop, log)],
        "head and pins": [told],
        "budget": [budget],
        "checkpoints": kept,
        "activation states": [row[:2] for row in run("its_activations", known)],
        "activations": [tuple(row) for row in run("its_history", known)],
        "uses of summaries": sorted((*row[:2], int(row[2]), *row[3:]) for row in run("its_uses", known)),
        "rules": sorted(tuple(row) for row in run("its_rules", known)),
    }
    single = ("log", "head and pins", "budget")
    counts = {part: len(listed) for part, listed in rows.items() if part not in single}
    return Fingerprint(log, {part: digest_of(listed) for part, listed in rows.items()}, {"messages": stop, **counts})


def continues(run: Run, session_id: str, later: Fingerprint, earlier: Fingerprint, name: str) -> bool:
    """Whether a session of the store `name` has gone on from an earlier state: its log, or that of one of its
    checkpoints, begins with the earlier log, and no activation has gone."""
    if later.counts["activations"] < earlier.counts["activations"]:
        return False
    known, length = {"session_id": session_id}, earlier.counts["messages"]
    heads = [run("its_head", known).fetchone()[:2], *(row[2:4] for row in run("its_checkpoints", known))]
    places = [(branch, length) for branch, stop in heads if stop >= length]
    logs = Logs(run, places, name)
    return any(logs.digest(*place) == earlier.log for place in places)


class Logs:
    """The logs of some heads. Each branch is read once, however many heads it has."""

    def __init__(self, run: Run, heads: Iterable[tuple[int, int]], name: str) -> None:
        self._run, self._name = run, name
        self.parents: dict[int, tuple[int | None, int]] = {}  # of each branch that is needed: what it left, and where
        self.stops: dict[int, set[int]] = {}  # of each such branch: where heads and other branches leave it
        self._digests: dict[tuple[int, int], bytes] = {}
        for branch, stop in heads:
            self._follow(branch, stop)

    def _follow(self, branch: int | None, stop: int) -> None:
        while branch is not None and stop not in self.stops.setdefault(branch, set()):
            self.stops[branch].add(stop)
            if branch not in self.parents:
                parent = self._run("parent", {"branch": branch}).fetchone()
                if parent is None:
                    raise damaged(self._name)
                self.parents[branch] = parent
            branch, left_at = self.parents[branch]
            stop = min(stop, left_at)

    def digest(self, branch: int, stop: int) -> bytes:
        """Of the log that a head lists, which is one of those given."""
        chain = [(branch, stop)]
        while chain[-1] not in self._digests:
            parent, left_at = self.parents[chain[-1][0]]
            if parent is None:
                break
            chain.append((parent, min(chain[-1][1], left_at)))
        for one, its_stop in reversed(chain):
            if (one, its_stop) not in self._digests:
                self._read(one)
        return self._digests[branch, stop]

    def _read(self, branch: int) -> None:
        """Read a branch whose parent is read."""
        parent, start = self.parents[branch]
        for stop in (stop for stop in self.stops[branch] if stop <= start):
            self._digests[branch, stop] = _START if parent is None else self._digests[parent, stop]
        stops = sorted(stop for stop in self.stops[branch] if stop > start)
        if not stops:
            return
        digest = _START if parent is None else self._digests[parent, start]
        position = start
        for position, (message, facts) in enumerate(self._entries(branch, start, stops[-1]), start + 1):
            digest = digest_of([digest, message, facts])
            if position in self.stops[branch]:
                self._digests[branch, position] = digest
        if position != stops[-1]:
            raise damaged(self._name)

    def _entries(self, branch: int, start: int, stop: int) -> Iterable[Any]:
        for at in range(start, stop, SLICE):
            yield from self._run("entries", (branch, at, min(at + SLICE, stop)))


def _shown(run: Run, showings: str, name: str) -> list[Any]:
    """What was shown at a checkpoint, with the digests of states in the place of their numbers."""
    found = []
    for key, number, marks in json.loads(showings):
        state = run("state_depth", {"id": number}).fetchone()
        if state is None:
            raise damaged(name)
        found.append((key, state[2], marks))
    return found


def digest_of(value: Any) -> bytes:
    """Of nested lists of texts, bytes, numbers and None."""
    found = hashlib.sha256()
    _add(found, value)
    return found.digest()


def _add(found: Any, value: Any) -> None:
    if isinstance(value, list | tuple):
        found.update(b"(%d" % len(value))
        for one in value:
            _add(found, one)
        return
    if isinstance(value, bytes):
        kind = b"b"
    else:
        text = str(value).replace("\0", "\ufffd")  # which PostgreSQL takes in no text
        kind, value = type(value).__name__.encode(), text.encode("utf-8", "surrogatepass")
    found.update(b"%s%d:" % (kind, len(value)))
    found.update(value)


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
