"""What a summarizer reads of a segment, as work that may be done in any thread, whatever becomes of the log meanwhile.

Pure but for one large group's pieces, which are kept: all parts of it are redacted, written down and cut once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from summarizing_context.core.cutting import cut_evenly
from summarizing_context.core.entries import Entry
from summarizing_context.core.redaction import Redact, redact_reading
from summarizing_context.core.rendering import render_messages
from summarizing_context.core.segments import Segment


class Sources:
    """The sources of one session's segments, for readers in the process, or, with `redact`, for those outside of it."""

    def __init__(self, redact: Redact | None = None, *, numbered: bool = False) -> None:
        self._redact = redact
        self._numbered = numbered
        self._pieces: tuple[str, list[str]] = ("", [])  # of the large group that was read last, with its name

    def source(self, segment: Segment, group: str, entries: Sequence[Entry]) -> Callable[[], str]:
        """What gives the text of a segment; `group` names the contents of its entries, and in how many parts."""
        if segment.parts == 1:
            return lambda: render_entries(entries, self._redact, numbered=self._numbered)
        return lambda: self._pieces_of(group, entries, segment.parts)[segment.part]

    def _pieces_of(self, group: str, entries: Sequence[Entry], parts: int) -> list[str]:
        known, pieces = self._pieces
        if known != group:
            pieces = cut_evenly(render_entries(entries, self._redact, numbered=self._numbered), parts)
            self._pieces = group, pieces
        return pieces


def render_entries(
    entries: Sequence[Entry], redact: Redact | None = None, *, apart: bool = True, numbered: bool = False
) -> str:
    """Entries, written down for a summarizer. What `redact` takes out is gone before: of each message as a whole, and
    of all of them as they are written."""
    reads = [entry.read(0) for entry in entries]
    if redact is None:
        return render_messages([read.reading for read in reads], apart=apart, numbered=numbered)
    clean = [redact_reading(read.message, read.reading, redact) for read in reads]
    return redact(render_messages(clean, apart=apart, numbered=numbered))
