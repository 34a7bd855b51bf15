"""Planning: which summaries are still to be made, oldest and lowest first.

Pure but for pointers that only move forward, so that planning costs what is missing, not what the log holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from typing import NamedTuple, Protocol

from summarizing_context.log.tree import FAN_OUT, Node


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
        self._ranks: list[_Rank] = []

    def reset(self) -> None:
        self._ranks = []

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
        if rank == len(self._ranks):
            self._ranks.append(_Rank())
        for number in self._ranks[rank].numbers(count, lambda number: self._readiness.is_ready(Node(rank, number))):
            node = Node(rank, number)
            if (hash := self._readiness.hash_of(node)) is not None:
                yield Want(node, hash)


class _Rank:
    """Nodes of one rank that may be missing. One that can never be made does not keep those behind it from being
    forgotten once they are ready."""

    def __init__(self) -> None:
        self._left: OrderedDict[int, None] = OrderedDict()  # found missing, oldest first
        self._looked = 0  # nodes from this one on were not looked at yet

    def numbers(self, count: int, is_ready: Callable[[int], bool]) -> Iterator[int]:
        """The missing ones of the first `count` nodes, oldest first."""
        made = []
        try:
            for number in self._left:
                if is_ready(number):
                    made.append(number)
                else:
                    yield number
        finally:
            for number in made:
                del self._left[number]
        while self._looked < count:
            number = self._looked
            self._looked += 1
            if not is_ready(number):
                self._left[number] = None
                yield number
