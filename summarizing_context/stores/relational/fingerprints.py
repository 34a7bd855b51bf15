"""What a session holds, told by digests in which no number of a store occurs: equal ones mean the same session.

Functions on a connection, within the transaction of their caller.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from summarizing_context.stores.relational.database import Rows, Values, damaged

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
