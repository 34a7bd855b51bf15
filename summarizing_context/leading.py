"""The rows that lead every view: the log's own system and developer rows, or a system prompt brought by the request.

A prompt that the host makes anew for each request is no part of the log. It stands in the place of the log's plain
leading system rows; developer rows and rows of hooks stay behind it.
"""

from __future__ import annotations

from summarizing_context.core.door import Message, check_message
from summarizing_context.core.entries import Entry, Role
from summarizing_context.core.keys import output_hash
from summarizing_context.core.shrinking import Price
from summarizing_context.errors import SettingsError
from summarizing_context.timeline import Timeline


class LeadingRows:
    """The leading rows of the next view, and what they cost."""

    def __init__(self, timeline: Timeline, price: Price) -> None:
        self._timeline = timeline
        self._price = price
        self._prompt: str | None = None
        self._row: Message | None = None
        self._row_tokens = 0
        self.name = ""  # of the prompt; empty where the log's own rows lead

    def bring(self, prompt: str | None) -> None:
        """The prompt of the request to come; None for none. An empty one leads with no row of its own."""
        if prompt == self._prompt:
            return
        if prompt is not None and not isinstance(prompt, str):
            raise SettingsError(f"system is {type(prompt).__name__}; it is the text of the system prompt, or None")
        self._row = check_message({"role": "system", "content": prompt}) if prompt else None
        self._row_tokens = self._price.message(self._row) if self._row else 0
        self._prompt, self.name = prompt, "" if prompt is None else output_hash(prompt)

    @property
    def tokens(self) -> int:
        """Cost of all leading rows."""
        timeline = self._timeline
        if self._prompt is None:
            return timeline.tokens[timeline.leading]
        return self._row_tokens + sum(cost for _, _, cost in self._kept())

    def messages(self) -> list[Message]:
        """The rows, as fresh values."""
        return [*([self._row] if self._row else []), *(entry.message() for _, entry, _ in self._kept())]

    def costs(self) -> list[tuple[int, int]]:
        """Index in the view and tokens of each row."""
        rows = [*([self._row_tokens] if self._row else []), *(cost for _, _, cost in self._kept())]
        return list(enumerate(rows))

    def _kept(self) -> list[tuple[int, Entry, int]]:
        """The log's leading rows that are shown: place, entry, tokens."""
        tokens, entries = self._timeline.tokens, self._timeline.entries
        rows = [(at, entries[at], tokens[at + 1] - tokens[at]) for at in range(self._timeline.leading)]
        if self._prompt is None:
            return rows
        return [row for row in rows if row[1].facts.role != Role.SYSTEM or row[1].facts.hook]
