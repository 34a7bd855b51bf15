"""Planning: which summaries are still to be made, oldest and lowest first.

Pure but for pointers that only move forward, so that planning costs what is missing, not what the log holds.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple, Protocol

from summarizing_context.core.tree import FAN_OUT, Node


class Want(NamedTuple):
    """A summary that is missing."""

    node: Node
    hash: str


class Readiness(Protocol):
    """What planning asks of the summaries."""

    def is_ready(self, node: Node) -> bool: ...

    def hash_of(self, node: Node) -> str | None: ...


class Planner:
    """Finds missing summaries. `reset` it when the log is replaced."""

    def __init__(self, readiness: Readiness, *, rollups: bool = True) -> None:
        self._readiness = readiness
        self._rollups = rollups
        self._done: list[int] = []  # of each rank, nodes before it are ready

    def reset(self) -> None:
        self._done = []

    def plan(self, segments: int, busy: Container[str], limit: int) -> list[Want]:
        """At most `limit` wants whose hash is not in `busy`, each hash once."""
        wants: dict[str, Want] = {}
        for want in self._missing(segments):
            if len(wants) >= limit:
                break
            if want.hash not in busy:
                wants.setdefault(want.hash, want)
        return list(wants.values())

    def pending(self, segments: int) -> int:
        """How many summaries could be made now or are being made."""
        return sum(1 for _ in self._missing(segments))

    def _missing(self, segments: int) -> Iterator[Want]:
        rank, width = 0, 1
        while width <= segments:
            yield from self._missing_of_rank(rank, segments // width)
            if not self._rollups:
                return
            rank, width = rank + 1, width * FAN_OUT

    def _missing_of_rank(self, rank: int, count: int) -> Iterator[Want]:
        if rank == len(self._done):
            self._done.append(0)
        while self._done[rank] < count and self._readiness.is_ready(Node(rank, self._done[rank])):
            self._done[rank] += 1
        for index in range(self._done[rank], count):
            node = Node(rank, index)
            hash = self._readiness.hash_of(node)
            if hash is not None and not self._readiness.is_ready(node):
                yield Want(node, hash)
