"""The ledger: facts that tool calls, their results and a human's words tell, read without a model.

A ledger is a set of touches: for each thing and each operation the latest one. Each closed group of a session is read
once, ahead of need or when a view or a caller needs it; of huge arguments and results both ends. `views.header`
renders it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, get_args

from summarizing_context.extraction.facts import LOOKS, Kind, Touch, touches_of, urls_in
from summarizing_context.log.entries import Entry
from summarizing_context.log.groups import OpenCalls
from summarizing_context.messages.reading import Part

if TYPE_CHECKING:
    from summarizing_context.log.message_log import MessageLog

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


class Ledger:
    """Touches added up. Adding costs the same however many there are."""

    def __init__(self, touches: Iterable[Touch] = ()) -> None:
        self.touches: list[Touch] = []
        self.is_red = False  # the newest run of tests failed
        self.end, self.ends = -1, 0  # the newest message whose call has made a commit, or tests pass; so many have
        self._all: dict[tuple[Kind, str, str], Touch] = {}
        self._holding: dict[Kind, dict[str, Touch]] = {kind: {} for kind in get_args(Kind)}  # by value
        self._done: dict[str, Touch] = {}  # by what was tried, its last success
        for touch in touches:
            self.add(touch)

    def add(self, touch: Touch) -> None:
        """Note a touch that is later than all before."""
        kind, value, operation = key = touch[:3]
        times = touch.times + (self._all[key].times if key in self._all else 0)
        self._all[key] = latest = touch._replace(order=len(self.touches), times=times)
        self.touches.append(touch)

        # of two touches of one thing a change holds rather than a look, and then the later one
        held = self._holding[kind].get(value)
        if held is None or held.operation in (operation, *LOOKS) or operation not in LOOKS:
            self._holding[kind][value] = latest
        if touch.went_well:
            self._done[touch.about] = latest
            if touch.work == "commit" or (touch.work == "tests" and self.is_red):
                self.end, self.ends = touch.start, self.ends + 1
        if touch.work == "tests":
            self.is_red = not touch.went_well

    def facts(self) -> list[Fact]:
        """Return everything that is known, in the order in which it was done or said."""
        facts: list[Fact] = []
        for touch in sorted(self._all.values(), key=attrgetter("order")):
            kind, value, operation, start, stop = touch[:5]
            superseded = kind != "error" and self._holding[kind][value] is not touch
            if kind == "error":
                fixed = self._fixed_at(touch)
                operation, stop = ("open", stop) if fixed is None else ("fixed", fixed)
            facts.append(Fact(kind, value, operation, start, stop, superseded))
        return facts

    def newest(self, stop: int, most: int) -> dict[Kind, list[Touch]]:
        """Return what holds of each thing, by kind, the latest first: of the `most` latest of a kind those from before
        entry `stop`, and of errors those that are not fixed. What was touched again from `stop` on is left out."""
        found: dict[Kind, list[Touch]] = {}
        for kind, holding in self._holding.items():
            latest = sorted(holding.values(), key=attrgetter("order"), reverse=True)[:most]
            found[kind] = [touch for touch in latest if touch.start < stop]
        found["error"] = [error for error in found["error"] if self._fixed_at(error) is None]
        return found

    def _fixed_at(self, error: Touch) -> int | None:
        """Return where what an error is about had gone well again, by itself or as part of more; None if it has not."""
        words = error.about.split(" ")[:12]
        wider = [" ".join(words[:count]) for count in range(len(words) - 1, 1, -1)]  # `go test ./pkg` of `... TestA`
        done = (self._done.get(about) for about in (error.about, *wider))
        return next((one.stop for one in done if one is not None and one.order > error.order), None)


# The version of the log, the entries from and up to which it is read, and the groups, each with the place of its first
Unread = tuple[int, int, int, Sequence[tuple[int, Sequence[Entry]]]]


@dataclass(eq=False)
class SessionLedger(Ledger):
    """The ledger of one session. Groups are read by the log's table of rules. `quotes`, the decisions in a text of a
    human, are shared with the extractive summarizer."""

    log: MessageLog
    quotes: Callable[[str], Sequence[str]]

    def __post_init__(self) -> None:
        super().__init__()
        self._stop = 0  # all entries before it have been read

    @property
    def lag(self) -> int:
        """Tokens that have not been read yet. Until it is 0, a ledger tells only part of the closed groups."""
        return self.log.tokens[self.log.closed_groups_stop] - self.log.tokens[self._stop]

    def unread(self, most: float = inf) -> Unread:
        """Return what has not been read yet, the oldest groups of about `most` tokens."""
        log, ends = self.log, self.log.group_ends
        last = bisect_left(ends, bisect_left(log.tokens, log.tokens[self._stop] + most)) + 1
        ends = ends[bisect_left(ends, self._stop) : last + 1]
        groups = [(start, log.entries[start:stop]) for start, stop in pairwise(ends)]
        return log.version, self._stop, ends[-1], groups

    def read(self, unread: Unread) -> list[Touch]:
        """Return what these groups say, in any thread."""
        return [touch for first, group in unread[-1] for touch in self._touches_of(first, group)]

    def take(self, unread: Unread, touches: Sequence[Touch]) -> None:
        """Note what was read, unless it was read meanwhile or the log was replaced."""
        version, start, stop, _ = unread
        if (version, start) == (self.log.version, self._stop):
            self._stop = stop
            for touch in touches:
                self.add(touch)

    def keep(self, stop: int) -> None:
        """Forget what was read off entry `stop` and those after it, for the log was replaced."""
        self._stop = min(self._stop, stop)
        super().__init__([touch for touch in self.touches if touch.stop <= stop])

    def current(self, most: float = inf) -> Ledger:
        """Return the ledger of the closed groups; of more than `most` unread tokens as far as it was read ahead."""
        if self.lag <= most:
            unread = self.unread()
            self.take(unread, self.read(unread))
        return self

    def facts(self) -> list[Fact]:
        """Return everything that is known of the whole log, its open end included."""
        self.current()
        start = self.log.closed_groups_stop
        return Ledger([*self.touches, *self._touches_of(start, self.log.entries[start:])]).facts()

    def _touches_of(self, start: int, group: Sequence[Entry]) -> list[Touch]:
        """Return what a group, whose first message stands at `start`, did and said, in order."""
        if not any(entry.facts.human or entry.facts.calls for entry in group):
            return []
        found, open_calls = list[Touch](), OpenCalls()
        calls, results = list[tuple[int, Part]](), dict[int, tuple[int, Part]]()  # of each call the last
        for at, reading in ((at, entry.read(at).reading) for at, entry in enumerate(group, start)):
            for text in reading.typed:
                found += (Touch("decision", quote, SAID, at, at + 1) for quote in self.quotes(text[:20_000]))
                found += (Touch("url", url, "seen", at, at + 1) for url in urls_in(text))

            # the calls, each with its result
            if made := [part for part in reading.parts if part.kind == "call"]:
                open_calls.make([part.id for part in made])
                calls += ((at, part) for part in made)
            for part in reading.parts:
                if part.kind == "result" and (answered := open_calls.answer(part.id)) is not None:
                    results[answered[1]] = at, part
        for number, (at, call) in enumerate(calls):
            last, result = results.get(number, (at, None))
            touches = touches_of(call, result, self.log.tools)
            found += (touch._replace(start=at, stop=last + 1) for touch in touches)
        return sorted(found, key=attrgetter("start"))
