"""Segments: runs of whole closed groups that are summarized as one.

Pure, and decided by content alone, looking back only: the segments of a prefix of the log are a prefix of the segments
of the log, and after an edit the cuts fall back into step within a few segments (content-defined chunking). Sizes are
the built-in estimate, so that cuts are equal whatever counter a session uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.log.entries import Entry
from summarizing_context.messages.reading import Reading
from summarizing_context.messages.redaction import Redact, redact_reading
from summarizing_context.messages.rendering import render_messages
from summarizing_context.messages.truncation import cut_evenly

# A cut is taken where the group's digest is divisible by these; the rarer one follows any group, the other a turn.
_TURN, _GROUP, _LATE_GROUP = 8, 32, 4


class Limits(NamedTuple):
    """Sizes of a segment, in estimated tokens."""

    minimum: int = 2_000
    target: int = 4_000
    maximum: int = 8_000


class Group(NamedTuple):
    """A closed group, as far as cutting needs to know it."""

    start: int  # first log entry
    stop: int
    size: int  # estimated tokens
    digest: bytes
    opens_turn: bool  # begins with a human message


class Segment(NamedTuple):
    """A leaf of the tree: entries `start` up to `stop`, or one of several `parts` of a group too large for one."""

    start: int
    stop: int
    size: int  # estimated tokens, of the whole range
    part: int = 0
    parts: int = 1

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

    def add(self, group: Group) -> list[Segment]:
        """Take the next closed group; the segments that are thereby cut, oldest first."""
        cut = self._close() if self._cut_before(group) else []
        if group.size > self._limits.maximum:
            self.start = self._stop = group.stop
            return cut + self._leaves(group)
        self.size += group.size
        self._stop = group.stop
        return cut + self._close() if self._cut_after(group) else cut

    def _cut_before(self, group: Group) -> bool:
        if self.size == 0:
            return False
        if self.size + group.size > self._limits.maximum:
            return True
        if not group.opens_turn or self.size < self._limits.minimum:
            return False
        return self.size >= self._limits.target or _chosen(group, _TURN)

    def _cut_after(self, group: Group) -> bool:
        if self.size < self._limits.minimum:
            return False
        return _chosen(group, _GROUP if self.size < self._limits.target else _LATE_GROUP)

    def _close(self) -> list[Segment]:
        segment = Segment(self.start, self._stop, self.size)
        self.start, self.size = self._stop, 0
        return [segment]

    def _leaves(self, group: Group) -> list[Segment]:
        """The parts of a group that is too large; a quarter of each is left free for the labels of rendering."""
        parts = -(-group.size * 5 // (4 * self._limits.maximum))
        return [Segment(group.start, group.stop, group.size, part, parts) for part in range(parts)]


def _chosen(group: Group, one_in: int) -> bool:
    return group.digest[-1] % one_in == 0


class Sources:
    """The sources of one session's segments, for readers in the process, or, with `redact`, for those outside of it.
    A thread that writes them calls `yield_now` meanwhile."""

    def __init__(
        self, redact: Redact | None = None, *, numbered: bool = False, yield_now: YieldNow = never_yield
    ) -> None:
        self._redact = redact
        self._numbered = numbered
        self._yield_now = yield_now
        self._pieces: tuple[str, list[str]] = ("", [])  # of the large group that was read last, with its name

    def source(self, segment: Segment, group: str, entries: Sequence[Entry]) -> Callable[[], str]:
        """What gives the text of a segment; `group` names the contents of its entries, and in how many parts."""
        if segment.parts == 1:
            return lambda: self._rendered(entries)
        return lambda: self._pieces_of(group, entries, segment.parts)[segment.part]

    def _pieces_of(self, group: str, entries: Sequence[Entry], parts: int) -> list[str]:
        known, pieces = self._pieces
        if known != group:
            pieces = cut_evenly(self._rendered(entries), parts, self._yield_now)
            self._pieces = group, pieces
        return pieces

    def _rendered(self, entries: Sequence[Entry]) -> str:
        return render_entries(entries, self._redact, numbered=self._numbered, yield_now=self._yield_now)


def render_entries(
    entries: Sequence[Entry],
    redact: Redact | None = None,
    *,
    apart: bool = True,
    numbered: bool = False,
    yield_now: YieldNow = never_yield,
) -> str:
    """Entries, written down for a summarizer. What `redact` takes out is gone before: of each message as a whole, and
    of all of them as they are written. `yield_now` is called all along."""
    readings: list[Reading] = []
    for entry in entries:
        yield_now(len(entry.data))
        read = entry.read(0)
        readings.append(read.reading if redact is None else redact_reading(read.message, read.reading, redact))
    text = render_messages(readings, apart=apart, numbered=numbered, yield_now=yield_now)
    return text if redact is None else redact(text)
