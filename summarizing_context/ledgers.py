"""The ledger of a session, kept up with its log: each closed group is read once, when it is needed or before.

Reading is a function of the log alone, so what an activation shows does not depend on how far the worker had come.
What a group says is `core.reading_calls`' business, how facts add up is that of `core.facts`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from summarizing_context.core.facts import Fact, Ledger, Supersede, Touch
from summarizing_context.core.messages import Reading
from summarizing_context.core.reading_calls import CallReader
from summarizing_context.timeline import Timeline

_AT_ONCE = 8_000  # estimated tokens that are read in one go ahead of need

Read = Callable[[Sequence[tuple[int, Reading]]], list[Touch]]


class LedgerBook:
    """What has been read of one session. Plain functions: nothing here waits."""

    def __init__(self, timeline: Timeline, reader: CallReader, supersede: Supersede) -> None:
        self._timeline = timeline
        self._reader = reader
        self._supersede = supersede
        self._ledger = Ledger()
        self._read: list[Touch] = []  # of all groups before `_stop`, in order
        self._stop = 0  # entries read

    @property
    def lags(self) -> bool:
        """Whether there are closed segments that have not been read."""
        return self._stop < self._timeline.covered_by_segments

    def current(self) -> Ledger:
        """The ledger of all closed groups."""
        self._read_to(self._timeline.closed_groups_stop)
        return self._ledger

    def read_on(self) -> None:
        """Read some of the closed segments, ahead of need."""
        timeline = self._timeline
        place = bisect_left(timeline.segments, self._stop + 1, key=lambda segment: segment.stop)
        size, stop = 0, self._stop
        while place < len(timeline.segments) and size < _AT_ONCE:
            size += timeline.segments[place].size
            stop = timeline.segments[place].stop
            place += 1
        self._read_to(stop)

    def keep(self, stop: int) -> None:
        """The log was replaced from entry `stop` on."""
        if stop < self._stop:
            self._read = [touch for touch in self._read if touch.stop <= stop]
            self._ledger, self._stop = Ledger(self._read), stop

    def facts(self) -> list[Fact]:
        """Everything that is known of the whole log, its open end included."""
        ledger = self.current()
        start, stop = self._timeline.closed_groups_stop, len(self._timeline)
        if start < stop:
            ledger += Ledger(self._touches(start, stop))
        return ledger.facts(self._supersede)

    def _read_to(self, stop: int) -> None:
        starts = self._timeline.group_starts
        place = bisect_left(starts, self._stop)
        while place < len(starts) and starts[place] < stop:
            end = starts[place + 1] if place + 1 < len(starts) else self._timeline.closed_groups_stop
            for touch in self._touches(starts[place], end):
                self._read.append(touch)
                self._ledger.add(touch)
            self._stop = end
            place += 1

    def _touches(self, start: int, stop: int) -> list[Touch]:
        """What a group says; most messages that call nothing and that no human wrote are not even looked at."""
        entries = self._timeline.entries
        if not any(entry.facts.human or entry.facts.calls for entry in entries[start:stop]):
            return []
        return self._reader.touches([(at, entries[at].read(at).reading) for at in range(start, stop)])
