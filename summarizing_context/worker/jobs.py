"""Jobs and recipes: what a summarizer is asked, by whom, and the hash under which its summaries are shared."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from summarizing_context.concurrency import YieldNow, never_yield, single_flight
from summarizing_context.errors import SummarizerError
from summarizing_context.log.entries import output_hash, recipe_hash
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.segments import Sources
from summarizing_context.log.tree import NOTE, Maker, Node, Want, merge_share
from summarizing_context.messages.redaction import Redact, Redaction
from summarizing_context.messages.rendering import CUTTING_VERSION, RENDERER_VERSION, cut_results, render_children
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings.values import FIRST_CAP, Settings, SummarySizes, every_size
from summarizing_context.stores.base import Store, SummaryKey
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.extractive.lines import key_lines
from summarizing_context.summarizers.extractive.summarizer import summarize_extractively
from summarizing_context.summarizers.prompts import in_use
from summarizing_context.summarizers.verification.grounding import GROUNDING_VERSION
from summarizing_context.worker.summary_cache import SummaryCache

RULES_TOKENS = 600  # of a reply on standing rules
_CLAIM = 300.0  # seconds; other hosts wait no longer for one that lives
_ASKED = 1_200  # characters of a request that stand as context
_SHARE = 0.4  # of its source that a summary may take

Prompted = Literal["segment", "rollup", "focus", "memory", "rules"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How this session's summaries are made."""

    maker: Maker  # "model" or "extractive"
    hashes: Mapping[Prompted, str]  # recipe hashes, by what is asked for
    shared: bool  # whether the store may keep and offer them under these hashes
    max_tokens: int  # of a segment's summary, or of a note
    merge_tokens: int  # of a merge
    instructions: Callable[[Prompted, int, int], str]  # by what is asked for, rank, and the tokens it may take
    redact: Redact | None = None
    memory_tokens: int = FIRST_CAP
    other_rooms: tuple[Recipe, ...] = ()  # how they are made for rooms of other sizes
    asks_pool: bool = False  # a pool's workers claim what they pay for; this process claims nothing


@asynccontextmanager
async def paid_once(store: Store, recipe: Recipe, key: SummaryKey, owner: object) -> AsyncIterator[None]:
    """Hold a key while it is looked up in the store, paid for, and kept.

    One task of an event loop holds it, and one of the hosts that share the store. An `owner` whose summaries are not
    shared pays for its own.
    """
    is_shared = recipe.shared and store.name != ":memory:"
    is_claimed = recipe.maker == "model" and not recipe.asks_pool
    hosts = getattr(store, "claims", None) if is_shared and is_claimed else None  # a store may have none
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
        self._log, self._summaries, self._recipe, self._yield_now = log, summaries, recipe, yield_now
        self._sources = Sources(recipe.redact, thinking=log.thinking, yield_now=yield_now)  # redacts before it is cut

    def prepare(self, want: Want) -> Callable[[], SummaryJob]:
        """Make a job in two steps: take now what it is made from; the returned function does the work.

        The work takes from milliseconds to seconds for a large message. It may run in any thread, and the log may
        change meanwhile.
        """
        log, summaries, node, recipe, key = self._log, self._summaries, want.node, self._sized, self.key(want)
        by_model, is_merge, purpose = recipe.maker == "model", node.width > 1, self._purpose(node)
        source: Callable[[], str]
        if node == NOTE:  # about a topic: a segment with instructions of its own
            if (focus := summaries.focus_of(want.hash)) is None:
                raise SummarizerError("the note is not wanted any more")
            entries, topic = range(focus.start, focus.stop), focus.text
            render = partial(self._sources.render, log.entries[focus.start : focus.stop])
            source = lambda: summaries.note_source(self._redacted(topic), render())  # noqa: E731
        else:
            entries, source = summaries.entries(node), self._source(node)
        asked = [log.entries[at] for at in self._asked_before(node)]

        def job() -> SummaryJob:
            content = source()
            if is_merge:
                content = self._redacted(content)
            elif by_model and node != NOTE:  # without the middles of long results; their key lines, found by reading
                content = cut_results(content, lambda middle: key_lines(middle, 200))  # all of them, instead

            # tokens that the summary may take: the cap, or less of a short source, for a reply of more than half of it
            # is refused; in steps, so that requests begin alike and the provider's cache serves them
            tokens, rank = estimate_text(content), node.rank if is_merge else 0
            most = cap = recipe.merge_tokens if is_merge else recipe.max_tokens
            if by_model:
                share = (merge_share(rank) if is_merge else _SHARE) * tokens
                most = next((part * cap // 8 for part in range(8, 2, -1) if part * cap // 8 <= share), cap // 4)

            # what the human wanted then: the opening request, and the newest words
            context, said = "", [self._redacted("\n".join(one.read(0).reading.typed)).strip() for one in asked]
            said = [text if len(text) <= _ASKED else f"{text[:_ASKED]} …" for text in said]
            if said:
                opening = "\n\n".join(said[:-1] or said)
                context = f"The session began with this request:\n{opening[: 2 * _ASKED]}"
            if len(said) > 1 and said[-1]:
                context += f"\n\nThe user's newest words before the record:\n{said[-1]}"
            return SummaryJob(
                kind="rollup" if is_merge else "segment",
                instructions=recipe.instructions(purpose, rank, most),
                content=content,
                max_tokens=most,
                rank=rank,
                start=entries.start,
                stop=entries.stop,
                source_tokens=tokens,
                range_hash=key.range_hash,
                recipe_hash=key.recipe_hash,
                context=context,
            )

        return job

    def extract(self, node: Node) -> Callable[[], str]:
        """Return what reads the text that stands for a node in merges where no summary can be had: made of the same
        redacted text that a model would be given, and the same in every process."""
        source, sizes, is_merge = self._source(node), self._summaries.sizes, node.width > 1
        kind: Literal["rollup", "segment"] = "rollup" if is_merge else "segment"
        most = sizes.merge if is_merge else sizes.leaf
        return lambda: summarize_extractively(source(), kind=kind, max_tokens=most)

    def stand_in(self, leaf: int) -> Callable[[], str]:
        """Return what reads the extract that stands for a segment in a view. It leaves the process as little as the
        messages do, so nothing is redacted."""
        sources = Sources(thinking=self._log.thinking, yield_now=self._yield_now)
        source, read = self._log.source(leaf, sources), partial(summarize_extractively, yield_now=self._yield_now)
        most = self._summaries.sizes.leaf
        return lambda: read(source(), kind="segment", max_tokens=most)

    def _source(self, node: Node) -> Callable[[], str]:
        """Return what gives the content of a segment, or the children of a merge, in any thread."""
        if node.width == 1:
            return self._log.source(node.start, self._sources)
        texts: list[Callable[[], str]] = []
        for child in node.children:
            text = self._summaries.merged_text(child) or self._summaries.text_of(child)
            is_own = text.made_by == "verbatim"  # a segment that is its own summary is written down redacted
            source = self._log.source(child.start, self._sources) if is_own else partial(self._redacted, text.text)
            texts.append(source)
        return lambda: render_children([text() for text in texts])

    def _asked_before(self, node: Node) -> list[int]:
        """Return the entries that stand as context in the request for a segment."""
        if node.width != 1 or self._recipe.maker != "model":
            return []
        return self._log.asked_before(self._log.segments[node.start].start)

    @property
    def _sized(self) -> Recipe:
        """The recipe for the room that views have now."""
        recipes, sizes = (self._recipe, *self._recipe.other_rooms), self._summaries.sizes
        sized = (one for one in recipes if (one.max_tokens, one.merge_tokens) == (sizes.leaf, sizes.merge))
        return next(sized, self._recipe)

    def _purpose(self, node: Node) -> Literal["segment", "rollup", "focus"]:
        return "focus" if node == NOTE else "rollup" if node.width > 1 else "segment"

    def key(self, want: Want) -> SummaryKey:
        """Return the key under which the summary is kept. That of a segment has what stands in its request as
        context."""
        hash = want.hash
        if asked := self._asked_before(want.node):
            hash = output_hash(hash + "".join(self._log.entries[at].facts.content.hex() for at in asked))
        return SummaryKey(hash, self._sized.hashes[self._purpose(want.node)])

    def other_keys(self, want: Want) -> list[SummaryKey]:
        """Return where else a summary may be that serves: what was made for a room of another size, the largest
        first."""
        if want.node.width > 1:
            return []
        recipes, key = (
            sorted((self._recipe, *self._recipe.other_rooms), key=lambda one: -one.max_tokens),
            self.key(want),
        )
        hashes = dict.fromkeys(recipe.hashes["segment"] for recipe in recipes)
        return [SummaryKey(key.range_hash, hash) for hash in hashes if hash != self._sized.hashes["segment"]]

    def _redacted(self, text: str) -> str:
        return text if self._recipe.redact is None else self._recipe.redact(text)


def make_recipe(settings: Settings, name: str | None, *, own: bool, redact: Redaction | None) -> Recipe:
    """Return the recipe of a session whose summarizer is called `name`; `own` for the extractive one, which reads no
    prompt.

    Unnamed summarizers are not shared between sessions. A `redact` function may say in an attribute `version` what it
    takes out.
    """
    prompts = {purpose: in_use(purpose, settings.prompts) for purpose in get_args(Prompted)}
    memory_tokens = settings.summary_max_tokens or FIRST_CAP
    more, instructed = None if own else settings.summary_instructions, ("segment", "rollup", "focus")
    common = {
        "summarizer": name or f"private/{uuid.uuid4().hex}",
        "renderer": RENDERER_VERSION if own else f"{RENDERER_VERSION}, {CUTTING_VERSION}",
        **({} if own else {"grounding": GROUNDING_VERSION}),
        "redacted": redact is not None and not own and str(redact.version),
        **({"thinking": True} if settings.summarize_thinking else {}),
    }

    def hash_of(kind: Prompted, max_tokens: int) -> str:
        asked = {"instructions": more} if more and kind in instructed else {}
        fixed = {"max_tokens": max_tokens, "kind": kind, "prompt": None if own else prompts[kind].hash}
        return recipe_hash({**common, **asked, **fixed})

    def instructions(kind: Prompted, rank: int, max_tokens: int) -> str:
        text = prompts[kind].render_for_rank(rank, max_tokens=max_tokens)
        return f"{text}\n\n{more}" if more and kind in instructed else text

    def for_room(sizes: SummarySizes) -> Recipe:
        caps = {"segment": sizes.leaf, "rollup": sizes.merge, "focus": sizes.leaf}
        caps |= {"memory": memory_tokens, "rules": RULES_TOKENS}
        return Recipe(
            maker="extractive" if own else "model",
            hashes={purpose: hash_of(purpose, caps[purpose]) for purpose in prompts},
            shared=name is not None,
            max_tokens=sizes.leaf,
            merge_tokens=sizes.merge,
            instructions=instructions,
            memory_tokens=memory_tokens,
            redact=None if own else redact,
        )

    first, *others = map(for_room, every_size(settings))
    return replace(first, other_rooms=tuple(others))
