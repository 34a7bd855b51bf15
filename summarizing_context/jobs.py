"""What a summarizer is asked: the recipe of a session's summaries, and the job for each that is wanted.

When jobs are made, and what becomes of the replies, is in `worker`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from summarizing_context.core.estimate import estimate_text
from summarizing_context.core.header import Maker
from summarizing_context.core.planning import Want
from summarizing_context.core.rendering import render_children
from summarizing_context.ports import SummaryJob, SummaryKey
from summarizing_context.summaries import SummaryBook
from summarizing_context.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Recipe:
    """How this session's summaries are made."""

    maker: Maker  # "model" or "extractive"
    segment: str  # recipe hash
    rollup: str
    shared: bool  # whether the store may keep and offer them under these hashes
    max_tokens: int
    instructions: Callable[[Literal["segment", "rollup"], int], str]  # by kind and rank
    redact: Callable[[str], str] | None = None


class Jobs:
    """Makes the jobs of one session."""

    def __init__(self, timeline: Timeline, book: SummaryBook, recipe: Recipe) -> None:
        self._timeline = timeline
        self._book = book
        self._recipe = recipe

    def job(self, want: Want) -> SummaryJob:
        node, first = want.node, self._book.entries(want.node)
        if node.rank == 0:
            content = self._timeline.content(node.number)
        else:
            content = render_children([self._book.text_of(child).text for child in node.children])
        if self._recipe.redact is not None:
            content = self._recipe.redact(content)  # before anything is cut, or half of a secret could be left
        if node.rank == 0 and self._recipe.maker == "model":
            content = self._book.cut_for_model(want.hash, content)
        kind: Literal["segment", "rollup"] = "segment" if node.rank == 0 else "rollup"
        return SummaryJob(
            kind=kind,
            instructions=self._recipe.instructions(kind, node.rank),
            content=content,
            max_tokens=self._recipe.max_tokens,
            rank=node.rank,
            start=first.start,
            stop=first.stop,
            source_tokens=estimate_text(content),
            range_hash=want.hash,
        )

    def key(self, want: Want) -> SummaryKey:
        return SummaryKey(want.hash, self._recipe.segment if want.node.rank == 0 else self._recipe.rollup)
