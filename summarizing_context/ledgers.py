"""The ledger of a session, kept up with its log: each closed group is read once, by the worker or when it is needed.

Of a long log that nobody has read, a view reads only the newest part, and the worker the gap before it: what is missing
is shown by the next activation. What a group says is `core.reading_calls`' business; how facts add up, `core.facts`'.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from summarizing_context.core.facts import Fact, Ledger, Supersede, Touch
from summarizing_context.core.messages import Reading
from summarizing_context.core.reading_calls import CallReader
from summarizing_context.timeline import Timeline

_EAGER = 1_000  # unread tokens from which on they are read ahead of need
_PIECE = 8_000  # tokens that are read in one go ahead of need
_BACKLOG = 40_000  # tokens that a view may have to read

Read = Callable[[Sequence[tuple[int, Reading]]], list[Touch]]


class LedgerBook:
    """What has been read of one session. Plain functions: nothing here waits."""

    def __init__(self, timeline: Timeline, reader: CallReader, supersede: Supersede) -> None:
        self._timeline = timeline
        self._reader = reader
        self._supersede = supersede
        self._ledger = Ledger()
        self._read: list[Touch] = []
        self._next = 0  # first entry that has not been read, behind the gap
        self._gap = (0, 0)  # entries that were passed over

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

    def read_on(self) -> None:
        """Read some of what has not been read, ahead of need."""
        start, stop = self._gap
        if start < stop:
            self._gap = self._read_from(start, min(stop, self._after(start))), stop
        else:
            self._next = self._read_from(self._next, min(self._timeline.closed_groups_stop, self._after(self._next)))

    def keep(self, stop: int) -> None:
        """The log was replaced from entry `stop` on."""
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
        return ledger.facts(self._supersede)

    def _after(self, start: int) -> int:
        """An entry about a piece behind `start`."""
        tokens = self._timeline.tokens
        return bisect_left(tokens, tokens[start] + _PIECE)

    def _read_from(self, start: int, stop: int) -> int:
        """Read the groups that begin between two entries; where the last of them ends."""
        starts = self._timeline.group_starts
        place = bisect_left(starts, start)
        while place < len(starts) and starts[place] < stop:
            end = starts[place + 1] if place + 1 < len(starts) else self._timeline.closed_groups_stop
            for touch in self._touches(starts[place], end):
                self._read.append(touch)
                self._ledger.add(touch)
            start = end
            place += 1
        return max(start, stop)

    def _touches(self, start: int, stop: int) -> list[Touch]:
        """What a group says; most messages that call nothing and that no human wrote are not even looked at."""
        entries = self._timeline.entries
        if not any(entry.facts.human or entry.facts.calls for entry in entries[start:stop]):
            return []
        return self._reader.touches([(at, entries[at].read(at).reading) for at in range(start, stop)])
