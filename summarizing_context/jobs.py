"""What a summarizer is asked: the recipe of a session's summaries, and the job for each that is wanted.

When jobs are made, and what becomes of the replies, is in `worker`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from summarizing_context.core.estimate import estimate_text
from summarizing_context.core.header import Maker
from summarizing_context.core.planning import Want
from summarizing_context.core.redaction import Redact
from summarizing_context.core.rendering import render_children
from summarizing_context.core.sources import Sources, render_entries
from summarizing_context.core.tree import NOTE, OPEN, Node
from summarizing_context.errors import SummarizerError
from summarizing_context.ports import SummaryJob, SummaryKey
from summarizing_context.summaries import SummaryBook
from summarizing_context.timeline import Timeline

_SHARE = 0.4  # of its source that a summary may take
Prompted = Literal["segment", "rollup", "focus", "memory"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How this session's summaries are made."""

    maker: Maker  # "model" or "extractive"
    segment: str  # recipe hash
    rollup: str
    shared: bool  # whether the store may keep and offer them under these hashes
    max_tokens: int
    instructions: Callable[[Prompted, int, int], str]  # by what is asked for, rank, and the tokens it may take
    redact: Redact | None = None
    focus: str = ""  # of notes about a topic
    memory: str = ""  # of memories


class Jobs:
    """Makes the jobs of one session."""

    def __init__(self, timeline: Timeline, book: SummaryBook, recipe: Recipe) -> None:
        self._timeline = timeline
        self._book = book
        self._recipe = recipe
        self._sources = Sources(recipe.redact)  # what is redacted before it is cut

    def prepare(self, want: Want) -> Callable[[], SummaryJob]:
        """Make a job in two steps: take now what it is made from; the returned function does the work.

        The work takes from milliseconds to seconds for a large message. It may run in any thread, and the log may
        change meanwhile.
        """
        if want.node == NOTE:
            return self._note(want)
        if want.node == OPEN:
            return self._open(want)
        node, entries = want.node, self._book.entries(want.node)
        if node.rank == 0:
            return partial(self._segment, want.hash, self._source(node.number), entries)
        return partial(self._rollup, want, list(map(self._child, node.children)), entries)

    def key(self, want: Want) -> SummaryKey:
        recipe = self._recipe
        if want.node == NOTE:
            return SummaryKey(want.hash, recipe.focus)
        return SummaryKey(want.hash, recipe.rollup if want.node.rank > 0 else recipe.segment)

    def _segment(self, hash: str, source: Callable[[], str], entries: range) -> SummaryJob:
        content = source()
        if self._recipe.maker == "model":
            content = self._book.cut_for_model(hash, content)
        return self._blank("segment", 0, content, hash, entries)

    def _rollup(self, want: Want, children: Sequence[Callable[[], str]], entries: range) -> SummaryJob:
        content = self._redacted(render_children([text() for text in children]))
        job = self._blank("rollup", want.node.rank, content, want.hash, entries)
        return replace(job, kind="rollup", rank=want.node.rank)

    def _note(self, want: Want) -> Callable[[], SummaryJob]:
        """A note about a topic; for a summarizer it is a segment with instructions of its own."""
        focus = self._book.notes.focus_of(want.hash)
        if focus is None:
            raise SummarizerError("the note is not wanted any longer")
        covered = self._timeline.entries[focus.start : focus.stop]

        def make() -> SummaryJob:
            record = render_entries(covered, self._recipe.redact)
            content = self._book.notes.for_model(self._redacted(focus.text), record)
            return self._blank("focus", 0, content, want.hash, range(focus.start, focus.stop))

        return make

    def _open(self, want: Want) -> Callable[[], SummaryJob]:
        """A piece of the open segment, as a segment."""
        piece = self._book.open.piece_of(want.hash)
        if piece is None:
            raise SummarizerError("the piece is not wanted any longer")
        entries = self._timeline.entries[piece.start : piece.stop]
        return partial(self._segment, want.hash, partial(render_entries, entries, self._recipe.redact), piece)

    def _source(self, leaf: int) -> Callable[[], str]:
        return self._timeline.source(leaf, self._sources)

    def _child(self, child: Node) -> Callable[[], str]:
        """What gives the text of a node to be rolled up; of a segment that is its own summary, the segment anew."""
        text = self._book.text_of(child)
        return self._source(child.number) if text.made_by == "verbatim" else partial(self._redacted, text.text)

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
