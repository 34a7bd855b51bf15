"""What a summarizer is asked: the recipe of a session's summaries, and the job for each that is wanted.

When jobs are made, and what becomes of the replies, is in `worker`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from summarizing_context.core.estimate import estimate_text
from summarizing_context.core.header import Maker
from summarizing_context.core.planning import Want
from summarizing_context.core.rendering import render_children
from summarizing_context.core.tree import NOTE
from summarizing_context.errors import SummarizerError
from summarizing_context.ports import SummaryJob, SummaryKey
from summarizing_context.summaries import SummaryBook
from summarizing_context.timeline import Timeline

_SHARE = 0.4  # of its source that a summary may take
Prompted = Literal["segment", "rollup", "focus"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How this session's summaries are made."""

    maker: Maker  # "model" or "extractive"
    segment: str  # recipe hash
    rollup: str
    shared: bool  # whether the store may keep and offer them under these hashes
    max_tokens: int
    instructions: Callable[[Prompted, int, int], str]  # by what is asked for, rank, and the tokens it may take
    redact: Callable[[str], str] | None = None
    focus: str = ""  # of notes about a topic


class Jobs:
    """Makes the jobs of one session."""

    def __init__(self, timeline: Timeline, book: SummaryBook, recipe: Recipe) -> None:
        self._timeline = timeline
        self._book = book
        self._recipe = recipe

    def job(self, want: Want) -> SummaryJob:
        if want.node == NOTE:
            return self._note(want)
        node, first = want.node, self._book.entries(want.node)
        if node.rank == 0:
            content = self._timeline.content(node.number)
        else:
            content = render_children([self._book.text_of(child).text for child in node.children])
        content = self._redacted(content)  # before anything is cut, or half of a secret could be left
        if node.rank == 0 and self._recipe.maker == "model":
            content = self._book.cut_for_model(want.hash, content)
        kind: Literal["segment", "rollup"] = "segment" if node.rank == 0 else "rollup"
        return replace(self._blank(kind, node.rank, content, want.hash, first), kind=kind, rank=node.rank)

    def key(self, want: Want) -> SummaryKey:
        recipe = self._recipe
        if want.node == NOTE:
            return SummaryKey(want.hash, recipe.focus)
        return SummaryKey(want.hash, recipe.segment if want.node.rank == 0 else recipe.rollup)

    def _note(self, want: Want) -> SummaryJob:
        """A note about a topic; for a summarizer it is a segment with instructions of its own."""
        found = self._book.notes.content_of(want.hash)
        if found is None:
            raise SummarizerError("the note is not wanted any longer")
        focus, record = found
        content = self._book.notes.for_model(self._redacted(focus.text), self._redacted(record))
        return self._blank("focus", 0, content, want.hash, range(focus.start, focus.stop))

    def _redacted(self, text: str) -> str:
        return text if self._recipe.redact is None else self._recipe.redact(text)

    def _blank(self, asked: Prompted, rank: int, content: str, hash: str, entries: range) -> SummaryJob:
        source = estimate_text(content)
        most = self._most(source)
        return SummaryJob(
            kind="segment",
            instructions=self._recipe.instructions(asked, rank, most),
            content=content,
            max_tokens=most,
            rank=0,
            start=entries.start,
            stop=entries.stop,
            source_tokens=source,
            range_hash=hash,
        )

    def _most(self, source: int) -> int:
        """Tokens that a summary may take: the cap, or less of a short source, for a reply of more than half of it is
        refused. In few steps, so that requests begin alike and the provider's cache serves them."""
        cap = self._recipe.max_tokens
        if self._recipe.maker != "model":
            return cap
        return next((most for most in (cap, 3 * cap // 4, cap // 2) if most <= _SHARE * source), cap // 4)
