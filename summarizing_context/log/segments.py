"""Groups, which may not be parted, and segments: runs of whole closed groups that are summarized as one.

Pure. A group is one message, or a message with calls and everything up to its last result. Split parallel call lines,
call rows one after the other before any result, are one group of up to `MAX_HELD` rows. A result gives up the calls of
earlier lines, for it can be shown only behind them. Whatever is no result of an open call gives up all of them: a
message, a further call once a result has come, a result that nobody waits for, words of the user's beside a result.
A call that no host answers, as of a tool that runs at the provider, is held open until its result comes, or until the
assistant's turn ends: what comes meanwhile, up to `MAX_TURN` rows, belongs to its group.

Segments are decided by content alone, looking back only: the segments of a prefix of the log are a prefix of the
segments of the log, and after an edit the cuts fall back into step within a few segments (content-defined chunking).
Sizes are the built-in estimate, so that cuts are equal whatever counter a session uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.log.entries import Entry
from summarizing_context.messages.reading import Reading
from summarizing_context.messages.redaction import Redact, redact_reading
from summarizing_context.messages.rendering import THOUGHT_ONLY, cut_evenly, render_messages
from summarizing_context.messages.shapes import encodable

MAX_HELD = 24  # split call lines that wait together, beside the first
MAX_TURN = 96  # rows of a group while a call is held open

Place = tuple[int, int]  # of a call in its group: its message among those with calls, its ordinal
Step = tuple[tuple[tuple[int, int], ...], int, tuple[int, ...]]  # see `GroupCutter.add`


class OpenCalls:
    """The calls of one group: which are still unanswered, and which are given up.

    A result answers the nearest unanswered call of its id: of the latest message that made one, the first.
    """

    __slots__ = ("_held", "_left", "_made", "answered", "given_up", "open", "units")

    def __init__(self) -> None:
        self.units = 0  # messages with calls so far
        self.given_up: set[int] = set()  # ordinals of the calls that no result may answer any more
        self.answered = False  # whether a result has come since the first of the calls that are open
        self._made = 0  # calls so far
        self.open: dict[str, list[Place]] = {}  # the unanswered calls, by id, oldest first
        self._left: list[int] = []  # how many of each unit are unanswered
        self._held: set[str] = set()  # ids of calls that no host answers

    @property
    def holds(self) -> bool:
        """A call that no host answers waits for its result."""
        return bool(self._held) and self.waits_for(self._held)

    def take(
        self, calls: Sequence[str], answers: Sequence[str], held: Sequence[str] = ()
    ) -> tuple[int, list[Place | None]]:
        """Note a message: the ordinal of its first call, and the calls that its results answer."""
        self._held.update(held)
        found = [self.answer(id) for id in answers]
        last = max([place[0] for place in found if place is not None], default=-1)
        if last >= 0 and self.open:  # no result will be taken any more for calls of earlier messages
            before = self.units if calls else last
            for id, place in [(id, place) for id, waiting in self.open.items() for place in waiting]:
                if place[0] < before and id not in self._held:
                    self.given_up.add(place[1])
                    self._close(id, place)
        self.answered = (self.answered or last >= 0) and not calls
        return self.make(calls) if calls else -1, found

    def make(self, ids: Sequence[str]) -> int:
        """Note a message's calls; the ordinal of the first."""
        first = self._made
        for at, id in enumerate(ids, first):
            self.open.setdefault(id, []).append((self.units, at))
        self._left.append(len(ids))
        self._made += len(ids)
        self.units += 1
        return first

    def answer(self, id: str) -> Place | None:
        """The call that a result answers, or None if no open call has this id."""
        if (waiting := self.open.get(id)) is None:
            return None
        place = waiting[0] if len(waiting) == 1 else next(one for one in waiting if one[0] == waiting[-1][0])
        self._close(id, place)
        return place

    def _close(self, id: str, place: Place) -> None:
        self._left[place[0]] -= 1
        if len(waiting := self.open[id]) > 1:
            waiting.remove(place)
        else:
            del self.open[id]

    def waits_for(self, ids: Iterable[str]) -> bool:
        return not self.open.keys().isdisjoint(ids)

    def complete(self, unit: int) -> bool:
        return not self._left[unit]

    def unanswered(self) -> set[int]:
        """Ordinals of the calls that wait for a result of a host."""
        return {at for id, waiting in self.open.items() if id not in self._held for _, at in waiting}


class GroupCutter:
    """Cuts a growing log into groups, one message at a time; O(1) amortised."""

    def __init__(self, position: int = 0) -> None:
        self.position = position  # messages seen
        self.start = position  # of the open group
        self._open_calls: OpenCalls | None = None
        self._run = position  # where a second message with calls joined the open group

    def add(
        self, calls: Sequence[str], answers: Sequence[str], *, turn: bool = False, held: Sequence[str] = ()
    ) -> Step:
        """Take the next message, given the ids of the calls that it makes and answers, those of them that no host
        answers, and whether it begins a turn of the user's. Return the ranges of the groups that it closes, oldest
        first, the ordinal of its first call within its group, and those of the calls that it answers; -1 for none."""
        if self._open_calls is None and not calls:  # most messages are a group by themselves
            self.start, self.position = self.position, self.position + 1
            return ((self.start, self.position),), -1, (-1,) * len(answers)
        closed: tuple[tuple[int, int], ...] = ()
        open_calls = self._open_calls
        if open_calls is None or not self._joins(open_calls, calls, answers, turn):
            closed = () if open_calls is None else ((self.start, self.position),)
            self.start, open_calls = self.position, OpenCalls()
            self._open_calls = open_calls
        first_call, found = open_calls.take(calls, answers, held)
        if open_calls.units == 1 or (calls and open_calls.units == 2):
            self._run = self.position
        self.position += 1
        if not open_calls.open or (not calls and (turn or None in found)):
            closed = (*closed, (self.start, self.position))
            self._open_calls = None
        return closed, first_call, tuple([-1 if place is None else place[1] for place in found])

    def _joins(self, open_calls: OpenCalls, calls: Sequence[str], answers: Sequence[str], turn: bool) -> bool:
        """Whether a message belongs to the open group: it answers a call, is one more of the split call lines, or comes
        while a call is held open."""
        if open_calls.holds:
            return self.position - self.start < MAX_TURN and (not turn or open_calls.waits_for(answers))
        if calls and open_calls.units > 1 and self.position - self._run >= MAX_HELD:
            return False
        return open_calls.waits_for(answers) or (bool(calls) and not answers and not open_calls.answered)


# A cut is taken where the group's digest is divisible by these; the rarer one follows any group, the other a turn.
_TURN, _GROUP, _LATE_GROUP = 8, 32, 4


class Limits(NamedTuple):
    """Sizes of a segment, in estimated tokens."""

    minimum: int = 2_000
    target: int = 4_000
    maximum: int = 8_000


class Segment(NamedTuple):
    """A leaf of the tree: entries `start` up to `stop`, or one of several `parts` of a group too large for one."""

    start: int
    stop: int
    size: int  # estimated tokens, of the whole range
    part: int = 0
    parts: int = 1
    is_early: bool = False  # a view, or a number of messages, has ended it before it was full

    @property
    def last_part(self) -> bool:
        """The log may be covered up to `stop` only with all parts."""
        return self.part == self.parts - 1


class SegmentCutter:
    """Cuts a growing run of closed groups into segments, one group at a time; O(1)."""

    def __init__(self, limits: Limits, start: int = 0) -> None:
        self._limits = limits
        self.start = start  # first entry of the open segment
        self.size = 0
        self._stop = start

    def add(self, group: tuple[int, int], *, size: int, digest: bytes, opens_turn: bool) -> list[Segment]:
        """Take the next closed group, of these entries, and return the segments that are thereby cut, oldest first.
        `size` is in estimated tokens; a group `opens_turn` that begins with a human message."""
        (least, target, most), cut, (start, stop), chance = self._limits, list[Segment](), group, digest[-1]
        ends_before = opens_turn and self.size >= least and (self.size >= target or chance % _TURN == 0)
        if self.size and (ends_before or self.size + size > most):
            cut.append(self.close())
        if size > most:  # in parts; a quarter of each is left free for the labels of rendering
            self.start = self._stop = stop
            parts = -(-size * 5 // (4 * most))
            return cut + [Segment(start, stop, size, part, parts) for part in range(parts)]
        self.size += size
        self._stop = stop
        if self.size >= least and chance % (_GROUP if self.size < target else _LATE_GROUP) == 0:
            cut.append(self.close())
        return cut

    def close(self, *, is_early: bool = False) -> Segment:
        """End the open segment behind the last group."""
        segment = Segment(self.start, self._stop, self.size, is_early=is_early)
        self.start, self.size = self._stop, 0
        return segment


class Sources:
    """Writes a session's entries down for a summarizer, in the process, or, with `redact`, outside of it; with or
    without what the agent thought. A thread that writes them calls `yield_now` all along."""

    def __init__(
        self,
        redact: Redact | None = None,
        *,
        numbered: bool = False,
        thinking: bool = False,
        yield_now: YieldNow = never_yield,
    ) -> None:
        self._redact, self._yield_now = redact, yield_now
        self._numbered, self._thinking = numbered, thinking
        self._pieces: tuple[str, list[str]] = ("", [])  # of the large group that was read last, with its name

    def source(self, segment: Segment, group: str, entries: Sequence[Entry]) -> Callable[[], str]:
        """Return what gives the text of a segment, in any thread; `group` names the contents of its entries, and in how
        many parts."""

        def text() -> str:
            if segment.parts == 1:
                return self.render(entries)
            known, pieces = self._pieces
            if known != group:
                pieces = cut_evenly(self.render(entries), segment.parts, self._yield_now)
                self._pieces = group, pieces
            return pieces[segment.part] or THOUGHT_ONLY  # a large group may be thinking for the most part

        return text

    def render(self, entries: Sequence[Entry]) -> str:
        """Return entries, written down. What `redact` takes out is gone before: of each message as a whole, and of all
        of them as they are written."""
        redact, readings = self._redact, list[Reading]()
        for entry in entries:
            self._yield_now(len(entry.data))
            read = entry.read(0)
            readings.append(read.reading if redact is None else redact_reading(read.message, read.reading, redact))
        rendered = render_messages(
            readings, numbered=self._numbered, thinking=self._thinking, yield_now=self._yield_now
        )
        text: str = encodable(rendered)
        return text if redact is None else redact(text)
