"""The ledger of a session, kept up with its log: each closed group is read once, by the worker or when it is needed.

Of a long log that nobody has read, a view reads only the newest part, and the worker the gap before it: what is missing
is shown by the next activation. What a group says is `core.reading_calls`' business; how facts add up, `core.facts`'.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

from summarizing_context.core.entries import Entry
from summarizing_context.core.facts import Fact, Ledger, Touch
from summarizing_context.core.reading_calls import CallReader
from summarizing_context.timeline import Timeline

_EAGER = 1_000  # unread tokens from which on they are read ahead of need
_PIECE = 8_000  # tokens that are read in one go ahead of need
_BACKLOG = 40_000  # tokens that a view may have to read


class Ahead(NamedTuple):
    """Groups that are to be read ahead of need, which any thread may do."""

    start: int
    stop: int
    groups: Sequence[tuple[int, Sequence[Entry]]]  # each with the place of its first entry
    reader: CallReader
    version: int  # of the log

    def read(self, give_way: Callable[[], None]) -> list[Touch]:
        """What they say. `give_way` is called between groups."""
        touches: list[Touch] = []
        for first, group in self.groups:
            give_way()
            touches += _touches(self.reader, first, group)
        return touches


class LedgerBook:
    """What has been read of one session. Plain functions: nothing here waits."""

    def __init__(self, timeline: Timeline, reader: CallReader) -> None:
        self._timeline = timeline
        self._reader = reader
        self._ledger = Ledger()
        self._read: list[Touch] = []
        self._next = 0  # first entry that has not been read, behind the gap
        self._gap = (0, 0)  # entries that were passed over
        self._version = 0  # of the log: how often it was replaced

    @property
    def lags(self) -> bool:
        """Whether there is enough unread to be read ahead of need."""
        tokens, stop = self._timeline.tokens, self._timeline.closed_groups_stop
        return self._gap[0] < self._gap[1] or tokens[stop] - tokens[self._next] >= _EAGER

    def current(self) -> Ledger:
        """The ledger of the closed groups; of a long backlog only of its newest part."""
        tokens, stop = self._timeline.tokens, self._timeline.closed_groups_stop
        if self._gap[0] == self._gap[1] and tokens[stop] - tokens[self._next] > _BACKLOG:
            first = bisect_left(tokens, tokens[stop] - _BACKLOG, hi=stop)
            at = bisect_left(self._timeline.group_starts, first)
            if at < len(self._timeline.group_starts):
                start = self._timeline.group_starts[at]
                self._gap, self._next = (self._next, start), start
        self._next = self._read_from(self._next, stop)
        return self._ledger

    def ahead(self) -> Ahead:
        """Some of what has not been read, to be read ahead of need."""
        start, end = self._unread
        groups = self._groups(start, min(end, self._after(start)))
        entries = [(first, self._timeline.entries[first:stop]) for first, stop in groups]
        stop = groups[-1][1] if groups else min(end, self._after(start))
        return Ahead(start, stop, entries, self._reader, self._version)

    def take(self, ahead: Ahead, touches: Sequence[Touch]) -> None:
        """Note what was read ahead; nothing where it was read meanwhile, or the log replaced."""
        if (ahead.version, ahead.start) != (self._version, self._unread[0]):
            return
        self._note(touches)
        if self._gap[0] < self._gap[1]:
            self._gap = ahead.stop, self._gap[1]
        else:
            self._next = ahead.stop

    def keep(self, stop: int) -> None:
        """The log was replaced from entry `stop` on."""
        self._version += 1
        if stop >= self._next:
            return
        if self._gap[0] < self._gap[1]:
            stop = min(stop, self._gap[0])
        self._read = [touch for touch in self._read if touch.stop <= stop]
        self._ledger, self._next, self._gap = Ledger(self._read), stop, (0, 0)

    def facts(self) -> list[Fact]:
        """Everything that is known of the whole log, its open end included."""
        self._gap = self._read_from(*self._gap), self._gap[1]
        self._next = self._read_from(self._next, self._timeline.closed_groups_stop)
        return self.newest_facts()

    def newest_facts(self) -> list[Fact]:
        """The same, but of a long backlog only of its newest part."""
        ledger = self.current()
        start, stop = self._timeline.closed_groups_stop, len(self._timeline)
        if start < stop:
            ledger += Ledger(self._touches(start, stop))
        return ledger.facts()

    @property
    def _unread(self) -> tuple[int, int]:
        """The entries that are to be read next."""
        return self._gap if self._gap[0] < self._gap[1] else (self._next, self._timeline.closed_groups_stop)

    def _after(self, start: int) -> int:
        """An entry about a piece behind `start`."""
        tokens = self._timeline.tokens
        return bisect_left(tokens, tokens[start] + _PIECE)

    def _groups(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The groups that begin between two entries."""
        starts = self._timeline.group_starts
        first, last = bisect_left(starts, start), bisect_left(starts, stop)
        ends = [*starts[first + 1 : last + 1], self._timeline.closed_groups_stop]
        return list(zip(starts[first:last], ends, strict=False))

    def _read_from(self, start: int, stop: int) -> int:
        """Read the groups that begin between two entries; where the last of them ends."""
        for first, end in self._groups(start, stop):
            self._note(self._touches(first, end))
            start = end
        return max(start, stop)

    def _note(self, touches: Sequence[Touch]) -> None:
        self._read += touches
        for touch in touches:
            self._ledger.add(touch)

    def _touches(self, start: int, stop: int) -> list[Touch]:
        return _touches(self._reader, start, self._timeline.entries[start:stop])


def _touches(reader: CallReader, start: int, group: Sequence[Entry]) -> list[Touch]:
    """What a group says; most messages that call nothing and that no human wrote are not even looked at."""
    if not any(entry.facts.human or entry.facts.calls for entry in group):
        return []
    return reader.touches([(at, entry.read(at).reading) for at, entry in enumerate(group, start)])
