"""Jobs and recipes: what a summarizer is asked, by whom, and the hash under which its summaries are shared."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from summarizing_context.concurrency import YieldNow, never_yield, single_flight
from summarizing_context.errors import SummarizerError
from summarizing_context.log.entries import Entry, output_hash, recipe_hash
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.segments import Sources
from summarizing_context.log.tree import NOTE, Maker, Node, Want, merge_share
from summarizing_context.messages.redaction import Redact, Redaction
from summarizing_context.messages.rendering import RENDERER_VERSION, render_children
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.messages.truncation import CUTTING_VERSION
from summarizing_context.settings.values import FIRST_CAP, Settings, SummarySizes, every_size
from summarizing_context.stores.base import Store, SummaryKey
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.prompts import in_use
from summarizing_context.summarizers.verification.grounding import GROUNDING_VERSION
from summarizing_context.worker.summary_cache import SummaryCache

RULES_TOKENS = 600  # of a reply on standing rules

_CLAIM = 300.0  # seconds; other hosts wait no longer for one that lives

_ASKED = 1_200  # characters of a request that stand as context

_SHARE = 0.4  # of its source that a summary may take

_FOR_A_MODEL = (RENDERER_VERSION, CUTTING_VERSION)

Prompted = Literal["segment", "rollup", "focus", "memory", "rules"]

_INSTRUCTED = ("segment", "rollup", "focus")  # to which a user's own instructions are added


@dataclass(frozen=True, slots=True)
class Recipe:
    """How this session's summaries are made."""

    maker: Maker  # "model" or "extractive"
    segment: str  # recipe hash
    rollup: str
    shared: bool  # whether the store may keep and offer them under these hashes
    max_tokens: int  # of a segment's summary, or of a note
    merge_tokens: int  # of a merge
    instructions: Callable[[Prompted, int, int], str]  # by what is asked for, rank, and the tokens it may take
    redact: Redact | None = None
    focus: str = ""  # of notes about a topic
    memory: str = ""  # of memories
    memory_tokens: int = FIRST_CAP
    rules: str = ""  # of replies on standing rules
    other_rooms: tuple[Recipe, ...] = ()  # how they are made for rooms of other sizes
    asks_pool: bool = False  # a pool's workers claim what they pay for; this process claims nothing

    @property
    def claims(self) -> bool:
        """Whether this process holds the claim of a key while its summary is made."""
        return self.maker == "model" and not self.asks_pool


@asynccontextmanager
async def paid_once(store: Store, recipe: Recipe, key: SummaryKey, owner: object) -> AsyncIterator[None]:
    """Hold a key while it is looked up in the store, paid for, and kept.

    One task of an event loop holds it, and one of the hosts that share the store. An `owner` whose summaries are not
    shared pays for its own.
    """
    is_shared = recipe.shared and store.name != ":memory:"
    hosts = getattr(store, "claims", None) if is_shared and recipe.claims else None  # a store may have none
    async with single_flight((store.name if is_shared else id(owner), key)):
        if hosts is None:
            yield
            return
        async with hosts.held(key, _CLAIM):
            yield


class Jobs:
    """Makes the jobs of one session. The work on them calls `yield_now` all along."""

    def __init__(
        self, log: MessageLog, summaries: SummaryCache, recipe: Recipe, yield_now: YieldNow = never_yield
    ) -> None:
        self._log = log
        self._summaries = summaries
        self._recipe = recipe
        self._sources = Sources(recipe.redact, thinking=log.thinking, yield_now=yield_now)  # redacts before it is cut

    def prepare(self, want: Want) -> Callable[[], SummaryJob]:
        """Make a job in two steps: take now what it is made from; the returned function does the work.

        The work takes from milliseconds to seconds for a large message. It may run in any thread, and the log may
        change meanwhile.
        """
        log, summaries, node = self._log, self._summaries, want.node
        prompted: Literal["segment", "rollup", "focus"]
        if node == NOTE:  # a note about a topic: a segment with instructions of its own
            focus = summaries.notes.focus_of(want.hash)
            if focus is None:
                raise SummarizerError("the note is not wanted any more")
            topic, covered = focus.text, log.entries[focus.start : focus.stop]
            prompted, entries = "focus", range(focus.start, focus.stop)

            def content() -> str:
                return summaries.notes.for_model(self._redacted(topic), self._sources.render(covered))

        else:
            prompted, entries = "rollup" if node.width > 1 else "segment", summaries.entries(node)
            source = self._source(node)

            def content() -> str:
                if node.width > 1:
                    return self._redacted(source())
                by_model = self._recipe.maker == "model"
                return summaries.cut_for_model(source()) if by_model else source()

        # what the human wanted then
        asked = [] if node == NOTE else [log.entries[at] for at in self._asked_before(node)]
        hash = self._range_hash(want)
        return lambda: replace(
            self._job(prompted, want, content(), entries), context=self._context(asked), range_hash=hash
        )

    def extract(self, node: Node) -> Callable[[], str]:
        """What reads the text that stands for a node in merges where no summary can be had: made of the same redacted
        text that a model would be given, and the same in every process."""
        source = self._source(node)
        return lambda: self._summaries.extract(source(), "rollup" if node.width > 1 else "segment")

    def _source(self, node: Node) -> Callable[[], str]:
        """What gives the content of a segment, or the children of a merge, in any thread."""
        if node.width == 1:
            return self._log.source(node.start, self._sources)
        children = list(map(self._child, node.children))
        return lambda: render_children([text() for text in children])

    def _asked_before(self, node: Node) -> list[int]:
        """The entries that stand as context in the request for a segment."""
        if node.width != 1 or self._recipe.maker != "model":
            return []
        return self._log.asked_before(self._log.segments[node.start].start)

    def _context(self, asked: Sequence[Entry]) -> str:
        """What a human wanted before a segment: the opening request, and the newest words."""
        if not asked:
            return ""
        texts = []
        for entry in asked:
            typed = self._redacted("\n".join(entry.read(0).reading.typed)).strip()
            texts.append(typed if len(typed) <= _ASKED else f"{typed[:_ASKED]} …")
        opening, newest = "\n\n".join(texts[:-1] or texts), texts[-1] if len(texts) > 1 else ""
        said = f"The session began with this request:\n{opening[: 2 * _ASKED]}"
        return f"{said}\n\nThe user's newest words before the record:\n{newest}" if newest else said

    def _range_hash(self, want: Want) -> str:
        """The name of what a summary is made from: of a segment, with what stands in its request as context."""
        if want.node == NOTE or not (asked := self._asked_before(want.node)):
            return want.hash
        return output_hash(want.hash + "".join(self._log.entries[at].facts.content.hex() for at in asked))

    @property
    def _sized(self) -> Recipe:
        """The recipe for the room that views have now."""
        recipes, sizes = (self._recipe, *self._recipe.other_rooms), self._summaries.sizes
        sized = (one for one in recipes if (one.max_tokens, one.merge_tokens) == (sizes.leaf, sizes.merge))
        return next(sized, self._recipe)

    def key(self, want: Want) -> SummaryKey:
        recipe = self._sized
        if want.node == NOTE:
            return SummaryKey(want.hash, recipe.focus)
        return SummaryKey(self._range_hash(want), recipe.rollup if want.node.width > 1 else recipe.segment)

    def other_keys(self, want: Want) -> list[SummaryKey]:
        """Where else a summary may be that serves: what was made for a room of another size, the largest first."""
        if want.node.width > 1:
            return []
        recipes, used = (self._recipe, *self._recipe.other_rooms), self._sized
        others = sorted(recipes, key=lambda recipe: -recipe.max_tokens)
        hash = self._range_hash(want)
        keys = {recipe.segment: SummaryKey(hash, recipe.segment) for recipe in others}
        return [key for recipe, key in keys.items() if recipe != used.segment]

    def _child(self, child: Node) -> Callable[[], str]:
        """What gives the text of a node to be rolled up; of a segment that is its own summary, the segment anew."""
        text = self._summaries.merged_text(child) or self._summaries.text_of(child)
        if text.made_by == "verbatim":
            return self._log.source(child.start, self._sources)
        return partial(self._redacted, text.text)

    def _redacted(self, text: str) -> str:
        return text if self._recipe.redact is None else self._recipe.redact(text)

    def _job(
        self, prompted: Literal["segment", "rollup", "focus"], want: Want, content: str, entries: range
    ) -> SummaryJob:
        source, recipe = estimate_text(content), self._sized
        is_merge = prompted == "rollup"
        rank = want.node.rank if is_merge else 0
        cap = recipe.merge_tokens if is_merge else recipe.max_tokens
        share = merge_share(rank) if is_merge else _SHARE
        # tokens that the summary may take: the cap, or less of a short source, for a reply of more than half of it is
        # refused; in steps, so that requests begin alike and the provider's cache serves them
        most = cap
        if recipe.maker == "model":
            most = next((part * cap // 8 for part in range(8, 2, -1) if part * cap // 8 <= share * source), cap // 4)
        return SummaryJob(
            kind="rollup" if is_merge else "segment",
            instructions=recipe.instructions(prompted, rank, most),
            content=content,
            max_tokens=most,
            rank=rank,
            start=entries.start,
            stop=entries.stop,
            source_tokens=source,
            range_hash=want.hash,
            recipe_hash={"segment": recipe.segment, "rollup": recipe.rollup, "focus": recipe.focus}[prompted],
        )


def make_recipe(settings: Settings, name: str | None, *, own: bool, redact: Redaction | None) -> Recipe:
    """The recipe of a session whose summarizer is called `name`; `own` for the extractive one, which reads no prompt.

    A summarizer without a name makes summaries for this session only: nobody could tell them from another's. A
    `redact` function may say in an attribute `version` what it takes out.
    """
    prompts = {purpose: in_use(purpose, settings.prompts) for purpose in get_args(Prompted)}
    memory_tokens = settings.summary_max_tokens or FIRST_CAP
    common = {
        "summarizer": name or f"private/{uuid.uuid4().hex}",
        "renderer": RENDERER_VERSION if own else ", ".join(_FOR_A_MODEL),
        **({} if own else {"grounding": GROUNDING_VERSION}),
        "redacted": redact is not None and not own and str(redact.version),
        **({"thinking": True} if settings.summarize_thinking else {}),
    }

    more = None if own else settings.summary_instructions

    def hash_of(kind: str, max_tokens: int) -> str:
        asked = {"instructions": more} if more and kind in _INSTRUCTED else {}
        fixed = {"max_tokens": max_tokens, "kind": kind, "prompt": None if own else prompts[kind].hash}
        return recipe_hash({**common, **asked, **fixed})

    def instructions(kind: Prompted, rank: int, max_tokens: int) -> str:
        text = prompts[kind].render_for_rank(rank, max_tokens=max_tokens)
        return f"{text}\n\n{more}" if more and kind in _INSTRUCTED else text

    def for_room(sizes: SummarySizes) -> Recipe:
        return Recipe(
            maker="extractive" if own else "model",
            segment=hash_of("segment", sizes.leaf),
            rollup=hash_of("rollup", sizes.merge),
            shared=name is not None,
            max_tokens=sizes.leaf,
            merge_tokens=sizes.merge,
            instructions=instructions,
            focus=hash_of("focus", sizes.leaf),
            memory=hash_of("memory", memory_tokens),
            memory_tokens=memory_tokens,
            rules=hash_of("rules", RULES_TOKENS),
            redact=None if own else redact,
        )

    first, *others = map(for_room, every_size(settings))
    return replace(first, other_rooms=tuple(others))
