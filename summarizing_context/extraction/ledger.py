"""Facts about a session, and the ledger that adds them up.

Pure. A ledger is a set of touches: for each thing and each operation the latest one. Adding two ledgers is a set
union in which the later touch of a pair wins, so the ledger of a range is the sum of those of its parts, however it is
parted. `log.ledger` reads touches off messages, `views.ledger_section` renders them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

Kind = Literal["path", "command", "error", "url", "identifier", "decision", "constraint"]
KINDS: tuple[Kind, ...] = ("path", "command", "error", "url", "identifier", "decision", "constraint")
LOOKS = frozenset({"read", "searched", "listed", "used", "seen", "fetched"})  # operations that change nothing
_WORDS = 12  # of what was tried
OPEN, FIXED, SAID = "open", "fixed", "said"


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

    @property
    def weight(self) -> tuple[bool, int, int]:
        """Of two touches of one thing that one holds which weighs more: changes more than looks, then the later."""
        return self.operation not in LOOKS, self.start, self.order


class Ledger:
    """Touches added up. Adding costs the same however many there are."""

    def __init__(self, touches: Iterable[Touch] = ()) -> None:
        self._all: dict[tuple[Kind, str, str], Touch] = {}
        self._holding: dict[Kind, dict[str, Touch]] = {kind: {} for kind in KINDS}  # by value, the latest last
        self._newest = -1  # message
        self._in_order = True
        self._done: dict[str, tuple[int, int, int]] = {}  # by what was tried: (start, order, stop) of its last success
        for touch in touches:
            self.add(touch)

    def __add__(self, other: Ledger) -> Ledger:
        total = Ledger((*self.touches(), *other.touches()))
        for about, done in (*self._done.items(), *other._done.items()):
            total._note_success(about, done)
        return total

    def add(self, touch: Touch) -> None:
        """Take in one touch."""
        key = touch[:3]
        self._in_order &= touch.start >= self._newest
        self._newest = max(self._newest, touch.start)
        if (known := self._all.get(key)) is not None:
            times = known.times + touch.times
            touch = (touch if touch.place >= known.place else known)._replace(times=times)
        self._all[key] = touch
        holding = self._holding[touch.kind]
        held = holding.get(touch.value)
        if held is None or held.operation == touch.operation or touch.weight >= held.weight:
            holding.pop(touch.value, None)
            holding[touch.value] = touch
        if touch.went_well:
            self._note_success(touch.about, (*touch.place, touch.stop))

    def touches(self) -> Iterator[Touch]:
        """Yield the set as it stands."""
        yield from self._all.values()

    def facts(self) -> list[Fact]:
        """Return everything that is known, in the order in which it was done or said."""
        listed = sorted(self._all.values(), key=lambda touch: (*touch.place, touch.kind, touch.value, touch.operation))
        facts: list[Fact] = []
        for touch in listed:
            kind, value, operation, start, stop = touch[:5]
            superseded = kind != "error" and self._holding[kind][value] is not touch
            if kind == "error":
                fixed = self.fixed_at(touch)
                operation, stop = (OPEN, stop) if fixed is None else (FIXED, fixed)
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
        words = error.about.split(" ")[:_WORDS]
        wider = [" ".join(words[:count]) for count in range(len(words) - 1, 1, -1)]  # `go test ./pkg` of `... TestA`
        for about in (error.about, *wider):
            done = self._done.get(about)
            if done is not None and done[:2] > error.place:
                return done[2]
        return None

    def _note_success(self, about: str, done: tuple[int, int, int]) -> None:
        self._done[about] = max(done, self._done.get(about, done))
