"""Facts about a session, and the ledger that adds them up.

Pure. A ledger is a set of touches: for each thing and each operation the latest one. Adding two ledgers is a set
union in which the later touch of a pair wins, so the ledger of a range is the sum of those of its parts, however it is
parted. `log.ledger` reads touches off messages, `views.blocks` renders them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, get_args

Kind = Literal["path", "command", "error", "url", "identifier", "decision", "constraint"]
LOOKS = frozenset({"read", "searched", "listed", "used", "seen", "fetched"})  # operations that change nothing
SAID = "said"


class Fact(NamedTuple):
    """One thing that is known of a session, and the messages that it was read off: `start` up to `stop`.

    Of each path, command, URL and identifier one fact holds: the last change, or where there was none the last look.
    """

    kind: Kind
    value: str
    operation: str
    start: int
    stop: int
    superseded: bool


class Touch(NamedTuple):
    """What one group of messages did to, or said of, one thing."""

    kind: Kind
    value: str
    operation: str
    start: int
    stop: int
    order: int = 0  # among the touches of its group
    about: str = ""  # of commands and errors: what was tried; a later success of the same fixes an error
    went_well: bool = False
    times: int = 1

    @property
    def place(self) -> tuple[int, int]:
        return self.start, self.order


class Ledger:
    """Touches added up. Adding costs the same however many there are."""

    def __init__(self, touches: Iterable[Touch] = ()) -> None:
        self._all: dict[tuple[Kind, str, str], Touch] = {}
        self._holding: dict[Kind, dict[str, Touch]] = {kind: {} for kind in get_args(Kind)}  # by value, the latest last
        self._newest = -1  # message
        self._in_order = True
        self._done: dict[str, tuple[int, int, int]] = {}  # by what was tried: (start, order, stop) of its last success
        for touch in touches:
            self.add(touch)

    def __add__(self, other: Ledger) -> Ledger:
        total = Ledger((*self._all.values(), *other._all.values()))
        for about, done in (*self._done.items(), *other._done.items()):
            total._done[about] = max(done, total._done.get(about, done))
        return total

    def add(self, touch: Touch) -> None:
        """Take in one touch."""
        kind, value, operation = key = touch[:3]
        self._in_order &= touch.start >= self._newest
        self._newest = max(self._newest, touch.start)
        if (known := self._all.get(key)) is not None:
            times = known.times + touch.times
            touch = (touch if touch.place >= known.place else known)._replace(times=times)
        self._all[key] = touch

        # of two touches of one thing a change holds rather than a look, and then the later one
        holding = self._holding[kind]
        held = holding.get(value)
        weight = operation not in LOOKS, *touch.place
        if held is None or held.operation == operation or weight >= (held.operation not in LOOKS, *held.place):
            holding.pop(value, None)
            holding[value] = touch

        if touch.went_well:
            done = (*touch.place, touch.stop)
            self._done[touch.about] = max(done, self._done.get(touch.about, done))

    def facts(self) -> list[Fact]:
        """Return everything that is known, in the order in which it was done or said."""
        facts: list[Fact] = []
        for touch in sorted(self._all.values(), key=lambda touch: (*touch.place, *touch[:3])):
            kind, value, operation, start, stop = touch[:5]
            superseded = kind != "error" and self._holding[kind][value] is not touch
            if kind == "error":
                fixed = self.fixed_at(touch)
                operation, stop = ("open", stop) if fixed is None else ("fixed", fixed)
            facts.append(Fact(kind, value, operation, start, stop, superseded))
        return facts

    def newest(self, kind: Kind) -> Iterator[Touch]:
        """Return what holds of each thing of a kind, the latest first."""
        if not self._in_order:
            for each, holding in self._holding.items():
                self._holding[each] = dict(sorted(holding.items(), key=lambda held: held[1].place))
            self._in_order = True
        return reversed(self._holding[kind].values())

    def fixed_at(self, error: Touch) -> int | None:
        """Return where what an error is about had gone well again, by itself or as part of more; None if it has not."""
        words = error.about.split(" ")[:12]
        wider = [" ".join(words[:count]) for count in range(len(words) - 1, 1, -1)]  # `go test ./pkg` of `... TestA`
        for about in (error.about, *wider):
            done = self._done.get(about)
            if done is not None and done[:2] > error.place:
                return done[2]
        return None
