"""The worker: makes missing summaries in the background, a few at a time, and pays for each once.

The cache of summaries says what is missing, a recipe how it is made and under which hash it is shared, the caller
calls. One owner task holds the task group, from the first work until `stop`. A failing summarizer never ends it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any, Literal, TypeVar, get_args
from weakref import WeakValueDictionary

import anyio

from summarizing_context.concurrency import Clock, WorkerThread
from summarizing_context.errors import StoreError, SummarizerError, SummarizerNotReady, SummarizerRefused
from summarizing_context.log.entries import Entry, Sources, output_hash, recipe_hash
from summarizing_context.log.message_log import Ledger
from summarizing_context.messages.redaction import Redact, Redaction
from summarizing_context.messages.rendering import (
    CUTTING_VERSION,
    RENDERER_VERSION,
    THOUGHT_ONLY,
    cut_results,
    render_children,
)
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings import Settings
from summarizing_context.stores.base import Place, SessionStore, StoredFailure, StoredSummary, SummaryKey
from summarizing_context.summarizers.base import Caller, SummaryJob, SummaryReply
from summarizing_context.summarizers.extractive import key_lines, summarize_extractively
from summarizing_context.summarizers.prompts import in_use
from summarizing_context.summarizers.resilience import LONGEST_DELAY, RetrySchedule
from summarizing_context.summarizers.verification import GROUNDING_VERSION
from summarizing_context.worker.summary_cache import Maker, Node, SummaryCache, Want, merge_share, merges_below, rank_of

_CLAIM = 300.0  # seconds; other hosts wait no longer for one that lives
_ASKED = 1_200  # characters of a request that stand as context
_SHARE = 0.4  # of its source that a summary may take
_ASKED_AT_ONCE = 32  # of a pool of workers, by one session
_LAG, _PIECE = 1_000, 8_000  # tokens unread in the ledger from which on it is read ahead, and read in one go

logger = logging.getLogger(__name__)

Found = TypeVar("Found")
SideWork = tuple[Callable[[], bool], Callable[[], Awaitable[None]]]  # whether there is some, and a piece of it

Prompted = Literal["segment", "rollup", "memory", "rules"]


class Recipe:
    """How a session's summaries are made, by a summarizer called `name`; `own` is the extractive one, which reads no
    prompt.

    Unnamed summarizers are not shared between sessions. A `redact` function may say in an attribute `version` what it
    takes out.
    """

    def __init__(self, settings: Settings, name: str | None, *, own: bool, redact: Redaction | None) -> None:
        self.maker: Maker = "extractive" if own else "model"
        self.shared = name is not None  # whether the store may keep and offer them
        self.claims = not own and settings.workers == "own"  # what is paid for; a pool's workers claim it themselves
        self.memory_tokens = settings.summary_max_tokens or 400  # of a note on what later sessions need
        self.redact: Redact | None = None if own else redact
        self._prompts = {purpose: in_use(purpose, settings.prompts) for purpose in get_args(Prompted)}
        for prompt in self._prompts.values():
            prompt.render(max_tokens=1)  # what nothing fills is refused now
        self._more = {} if own else dict.fromkeys(("segment", "rollup"), settings.summary_instructions)
        self._fixed = {
            "summarizer": name or f"private/{uuid.uuid4().hex}",
            "versions": (RENDERER_VERSION, CUTTING_VERSION, GROUNDING_VERSION),
            "redacted": redact is not None and not own and str(redact.version),
            "thinking": settings.summarize_thinking,
        }

    def hash_of(self, kind: Prompted, max_tokens: int) -> str:
        """Return what the store keeps them under: by what is asked for, and the tokens it may take."""
        prompt = None if self.maker == "extractive" else (self._prompts[kind].hash, self._more.get(kind))
        return recipe_hash({**self._fixed, "max_tokens": max_tokens, "kind": kind, "prompt": prompt})

    def job(self, kind: Prompted, key: SummaryKey, *, content: str, max_tokens: int, entries: range) -> SummaryJob:
        """Return what is asked of a summarizer about these entries, in any thread."""
        asked = self._prompts[kind].render(max_tokens=max_tokens), self._more.get(kind)
        return SummaryJob(
            kind=kind,
            instructions="\n\n".join(filter(None, asked)),
            content=content,
            max_tokens=max_tokens,
            rank=0,
            start=entries.start,
            stop=entries.stop,
            source_tokens=estimate_text(content),
            range_hash=key.range_hash,
            recipe_hash=key.recipe_hash,
        )

    def redacted(self, text: str) -> str:
        return text if self.redact is None else self.redact(text)


# by event loop and key
_held_keys: WeakValueDictionary[tuple[int, Hashable, SummaryKey], asyncio.Lock] = WeakValueDictionary()


async def guarded(work: Awaitable[Found]) -> Found | None:
    """A store that fails costs what it would keep beside the log, and nothing else."""
    try:
        return await work
    except StoreError as error:
        logger.warning("summaries, rules and errors are not kept for now", extra={"cause": repr(error)})
        return None


@dataclass(eq=False, kw_only=True)
class Worker:
    """Background summaries of one session, and by name the work `beside` them, for which they do not wait. `origin` is
    what makes the summaries, as events tell it: made_by, provider, model."""

    summaries: SummaryCache
    ledger: Ledger
    store: SessionStore
    caller: Caller
    recipe: Recipe
    origin: Mapping[str, str | None]
    clock: Clock
    background: WorkerThread  # where texts are worked on
    notify: Callable[[str, dict[str, Any]], None]
    read_only: bool
    before_call: Callable[[], Awaitable[None]] = field(init=False)  # awaited before a model is asked
    start_tokens: Callable[[], float] = field(init=False)  # of the log, beyond which it works

    def __post_init__(self) -> None:
        self.log, self.settings = self.ledger.log, self.ledger.log.settings
        self._retries = defaultdict[str, RetrySchedule](partial(RetrySchedule, self.settings.breaker_cooldown))
        thinking, yield_now = self.settings.summarize_thinking, self.background.yield_now
        self._sources = Sources(self.recipe.redact, thinking=thinking, yield_now=yield_now)  # redacts before it is cut
        self._concurrency = max(self.settings.concurrency, _ASKED_AT_ONCE * (self.settings.workers != "own"))
        # messages of the log from which on it works in any case
        part = inf if self.settings.max_messages is None else int(self.settings.start_at * self.settings.max_messages)
        self._start_messages = self.settings.summarize_threshold or part
        self._owner: asyncio.Task[None] | None = None
        self._awake, self._changed = anyio.Event(), anyio.Event()
        self._stopped = False
        self._running = set[str]()  # range hashes, and names of work beside the summaries
        self._trouble: str | None = None  # why no model is asked, until one has answered
        self.failure = StoredFailure()
        self._unsaved: int | None = None  # summaries that failed since the store was told of a failure
        self.beside: dict[str, SideWork] = {"failure": (lambda: self._unsaved is not None, self._save_failure)}
        if self.settings.ledger_share:
            self.beside["ledger"] = (lambda: self.ledger.lag > _LAG, self._read_ahead)

    @property
    def pending(self) -> int:
        """Summaries that are missing and could be made, those being made included."""
        return len(set(self.summaries.missing())) if self._past_start() else 0

    def wake(self) -> None:
        """Have the owner look for work; it is started when there may be some."""
        if not self._stopped and self._past_start():
            if self._owner is None or self._owner.done():
                self._owner = asyncio.create_task(self._own(), name="summarizing worker")
            self._awake.set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or could run."""
        has_work = self._past_start() and (any(self._startable()) or any(map(self._is_due, self.beside)))
        return self._stopped or not (self._running or has_work)

    async def wait_idle(self) -> bool:
        """Wait until nothing runs or could run; False when that was stopped."""
        while not self.is_idle:
            self.wake()
            await self._changed.wait()
        return not self._stopped

    async def stop(self) -> None:
        """End every task, within two seconds, and keep what failed last."""
        self._stopped = True
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.cancel()
            await asyncio.wait({owner}, timeout=1.5)  # seconds
            if not owner.done():
                logger.warning("the worker did not end in time and was abandoned")
        await self._save_failure()
        self._changed.set()

    async def recall(self) -> None:
        """Take from the store every summary that it has for this session's segments, and the merges that views need;
        those that are known already too, so that the store notes their use."""
        await self._find(Node.leaves(0, len(self.log.segments)))
        # who only looks, or asks no model, need not know how they were made
        if self.read_only or (self.recipe.maker != "model" and self.summaries.without_summary()):
            used = await guarded(self.store.summaries_of(self.settings.session_id)) or {}
            known = {key.range_hash: one for key, (one, _) in used.items()}
            for at, name in enumerate(self.log.hashes):
                want = Want(Node(at, at + 1), name)
                keys = (self._key(want, by_model=each).range_hash for each in (True, False))
                for one in (known[key] for key in keys if key in known):  # the first stays
                    self.summaries.add(want.node, name, one.text, "model" if one.input_tokens else "extractive")
        for merges in merges_below(self.summaries.needed_merges()):
            await self._find(merges)

    async def _own(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                self._awake = anyio.Event()
                if self._past_start():
                    for want in self._startable():
                        if len(self._running - self.beside.keys()) >= self._concurrency:
                            break
                        self._running.add(want.hash)
                        tasks.start_soon(self._make, want, self._key(want))
                    for name in filter(self._is_due, list(self.beside)):
                        self._running.add(name)
                        tasks.start_soon(self._run_beside, name)
                if not self._running:
                    self._changed.set()
                    self._changed = anyio.Event()

                # until something could be started that cannot be now
                now, delays = self.clock.now(), [self.caller.ready_in() or LONGEST_DELAY]
                delays += (delay for retries in self._retries.values() for delay in retries.delays(now))
                with anyio.move_on_after(max(0.01, min(delays))):
                    await self._awake.wait()

    def _past_start(self) -> bool:
        """Whether the log is large enough to be worked on."""
        works = not self.read_only and self.settings.strategy != "truncate"
        is_large = self.log.tokens[-1] > self.start_tokens() or len(self.log) >= self._start_messages
        return works and (is_large or self.summaries.is_requested)

    def _startable(self) -> Iterator[Want]:
        """Yield the summaries that may be begun now."""
        now = self.clock.now()
        for want in self.summaries.missing() if self.caller.ready_in() == 0.0 else ():
            if want.hash not in self._running and not self._retries["summaries"].rests(want.hash, now):
                yield want

    # beside the summaries

    def _is_due(self, name: str) -> bool:
        is_due, _ = self.beside[name]
        return name not in self._running and not self._retries[name].rests(name, self.clock.now()) and is_due()

    async def _run_beside(self, name: str) -> None:
        began, (_, work) = self.clock.now(), self.beside[name]
        try:
            await work()
            self._retries[name].recover(name, began)
        except Exception as error:  # it must not end the worker; views do without
            cause, is_known = type(error).__name__, isinstance(error, SummarizerError)
            self._retries[name].note(name, error if is_known else SummarizerRefused(cause), self.clock.now())
            level = logging.INFO if is_known else logging.ERROR
            logger.log(level, "background work other than summaries has failed", extra={"work": name, "cause": cause})
            self.failure = self.failure if is_known else self.failure._replace(error=cause)
        finally:
            self._running.discard(name)
            self._awake.set()

    async def _read_ahead(self) -> None:
        """Read a piece of the log for the ledger."""
        unread = self.ledger.unread(_PIECE)
        touches = await self.background.run(partial(self.ledger.read, unread))
        await self.log.foreground.thawed()
        self.ledger.take(unread, touches)

    def note_trouble(self, text: str) -> None:
        """No model is asked for now, and `text` says why: other processes see it in the store."""
        self._trouble = text
        self.note_error(text)

    def note_error(self, text: str, failed: int = 0) -> None:
        """Keep what has failed for statistics, and for other processes in the store."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self.failure = StoredFailure(self.failure.failed + failed, text, at)
        self._unsaved = (self._unsaved or 0) + failed
        self._awake.set()

    async def _save_failure(self) -> None:
        failed, self._unsaved = self._unsaved, None
        if failed is not None:
            await guarded(self.store.save_failure(self.settings.session_id, self.failure._replace(failed=failed)))

    # what the store shares

    async def find(self, keys: Mapping[SummaryKey, Place | None]) -> Mapping[SummaryKey, StoredSummary]:
        """Return what the store has under these keys, and have it note their use at these places."""
        if not self.recipe.shared:
            return {}
        return await guarded(self.store.find_summaries(self.settings.session_id, keys)) or {}

    async def keep(self, key: SummaryKey, reply: SummaryReply, rank: int = 0, place: Place | None = None) -> str:
        """Keep a reply in the store, and return the text that is kept: the first under a key stays."""
        if not self.recipe.shared:
            return reply.text
        made = StoredSummary(reply.text, rank, reply.input_tokens or 0, reply.output_tokens or 0)
        kept = await guarded(self.store.save_summary(self.settings.session_id, key, made, place))
        return reply.text if kept is None else kept.text

    @asynccontextmanager
    async def held(self, key: SummaryKey) -> AsyncIterator[None]:
        """Hold a key while it is looked up in the store, paid for, and kept: by one task of an event loop, and one of
        the hosts that share the store. A session whose summaries are not shared pays for its own."""
        is_shared = self.recipe.shared and self.store.name != ":memory:"
        hold = getattr(self.store, "hold_key", None) if is_shared and self.recipe.claims else None  # some have none
        wanted = (id(asyncio.get_running_loop()), self.store.name if is_shared else id(self), key)
        async with _held_keys.setdefault(wanted, asyncio.Lock()), hold(key, _CLAIM) if hold else nullcontext():
            yield

    async def answered_once(self, key: SummaryKey, ask: Callable[[], Awaitable[SummaryReply]]) -> str:
        """Return the reply that the store has under a key, else what `ask` returns, kept there."""
        async with self.held(key):
            if found := await self.find({key: None}):
                return found[key].text
            return await self.keep(key, await ask())

    # one summary

    async def _make(self, want: Want, key: SummaryKey) -> None:
        """Take a summary from the store, or have it made, and kept there."""
        job, about = None, {"range_hash": want.hash, "rank": rank_of(want.node)}
        began, summaries, node = self.clock.now(), self.summaries, want.node
        try:
            async with self.held(key):
                await self.log.foreground.thawed()
                await self._find([node])
                if summaries.hash_of(node) != want.hash or summaries.summary(node) or self._key(want) != key:
                    return  # the log was replaced meanwhile, or the store has it
                job = await self.background.run(self._prepare(node, key))
                self.notify("summary_started", {**about, "tokens": job.source_tokens})
                summaries.seen.add(want.hash)
                asked = self.clock.now()
                if job.content == THOUGHT_ONLY:  # there is nothing to ask a model about
                    reply = SummaryReply("- The agent thought.")
                else:
                    await self.before_call()
                    reply = await self.caller.summarize(job)
                self._trouble, duration = None, self.clock.now() - asked
                place = (job.start, job.stop) if summaries.hash_of(node) == want.hash else None
                text = await self.keep(key, reply, job.rank, place)
                await self.log.foreground.thawed()
                summaries.add(node, want.hash, text)
                usage = {name: getattr(reply, name) for name in ("input_tokens", "output_tokens", "cached_tokens")}
                self.notify("summary_ready", {**about, "duration": duration, **self.origin, **usage})
            self._retries["summaries"].recover(want.hash, began)
        except SummarizerNotReady:
            pass  # nothing was tried: it is planned again when calls are let through
        except Exception as error:  # a fault of this package or of a foreign object must not end the worker, either
            name, said = type(error).__name__, str(error)
            if not isinstance(error, SummarizerError):
                logger.error("a summary could not be made", extra={"range": want.hash[:8], "cause": name})
                said = name
            self._retries["summaries"].note(want.hash, error, self.clock.now())
            self.note_error(self._trouble or said, failed=1)
            failure = {"duration": self.clock.now() - began, **self.origin, "error": name, "cause": said}
            self.notify("summary_failed", {**about, **failure})
            if job is not None and self._retries["summaries"].is_given_up(want.hash):
                await self._give_up(want, job)
        finally:
            self._running.discard(want.hash)
            self._awake.set()

    async def _give_up(self, want: Want, job: SummaryJob) -> None:
        """Let merges take an extract in the place of a summary for which no usable reply came: of what the model was
        given, so the same in every process. A fault in reading it must not end the worker: then the merges wait."""
        try:
            kind, most = self._purpose(want.node)
            text = await self.background.run(partial(summarize_extractively, job.content, kind=kind, max_tokens=most))
            await self.log.foreground.thawed()
            self.summaries.give_up(want.hash, text)
        except Exception as error:
            logger.error("a stand-in could not be read", extra={"range": want.hash[:8], "cause": type(error).__name__})

    async def _find(self, nodes: Iterable[Node]) -> None:
        """Take what the store has already for these nodes."""
        # keys and places are taken now, for the log may change meanwhile; the entries place a summary for a search
        wants = [Want(node, hash) for node in nodes if (hash := self.summaries.hash_of(node)) is not None]
        keys, entries = {self._key(want): want for want in wants}, self.summaries.entries
        places = {key: (entries(want.node).start, entries(want.node).stop) for key, want in keys.items()}
        found = await self.find(places)
        await self.log.foreground.thawed()
        for key, summary in found.items():
            self.summaries.add(keys[key].node, keys[key].hash, summary.text)

    def _prepare(self, node: Node, key: SummaryKey) -> Callable[[], SummaryJob]:
        """Take now what a job is made from, and return what makes it, in any thread, while the log may change."""
        recipe, is_merge, (purpose, cap) = self.recipe, node.width > 1, self._purpose(node)
        entries, asked = self.summaries.entries(node), self._asked_before(node, recipe.maker == "model")
        sources = [] if is_merge else [self.log.source(node.start, self._sources)]
        for child in node.children:
            text = self.summaries.merged_text(child)
            assert text is not None  # or the merge had no hash
            is_own = text.made_by == "verbatim"  # a segment that is its own summary is written down redacted
            redacted = partial(recipe.redacted, text.text)
            sources.append(self.log.source(child.start, self._sources) if is_own else redacted)

        def job() -> SummaryJob:
            texts, most = [source() for source in sources], cap
            content = recipe.redacted(render_children(texts)) if is_merge else texts[0]
            if recipe.maker == "model":
                if not is_merge:  # without the middles of long results; their key lines, found by reading all, instead
                    content = cut_results(content, lambda middle: key_lines(middle, 200))
                # tokens that the summary may take: the cap, or less of a short source, for a reply that is too large a
                # part of it is refused; in steps, so that requests begin alike and the provider's cache serves them
                share = (merge_share(node) if is_merge else _SHARE) * estimate_text(content)
                most = next((part * cap // 8 for part in range(8, 2, -1) if part * cap // 8 <= share), cap // 4)

            # what the human wanted then: the opening request, and the newest words
            context, said = "", [recipe.redacted("\n".join(one.read(0).reading.typed)).strip() for one in asked]
            said = [text if len(text) <= _ASKED else f"{text[:_ASKED]} …" for text in said]
            if said:
                opening = "\n\n".join(said[:-1] or said)
                context = f"The session began with this request:\n{opening[: 2 * _ASKED]}"
            if len(said) > 1 and said[-1]:
                context += f"\n\nThe user's newest words before the record:\n{said[-1]}"
            made = recipe.job(purpose, key, content=content, max_tokens=most, entries=entries)
            return replace(made, rank=rank_of(node), context=context)

        return job

    def _asked_before(self, node: Node, by_model: bool) -> list[Entry]:
        """Return what stands as context in the request for a segment: the opening request, and the newest words of a
        human before it."""
        if node.width != 1 or not by_model:
            return []
        start, humans = self.log.segments[node.start].start, self.log.humans
        newest = bisect_left(humans, start)
        places = dict.fromkeys([*self.log.opening(start), *humans[max(0, newest - 1) : newest]])
        return [self.log.entries[at] for at in places]

    def _purpose(self, node: Node) -> tuple[Literal["segment", "rollup"], int]:
        """Return what a node is asked for as, and the tokens that it may take in the room that views have now."""
        return ("rollup", self.summaries.merge_tokens) if node.width > 1 else ("segment", self.summaries.leaf_tokens)

    def _key(self, want: Want, *, by_model: bool | None = None) -> SummaryKey:
        """Return the key under which a summary is kept. A segment's names the context of its request, too, and the
        tokens that it may take only where the user set them: a room of another size shows what there is."""
        asked = self._asked_before(want.node, self.recipe.maker == "model" if by_model is None else by_model)
        kind, most = self._purpose(want.node)
        context = "".join(entry.facts.content.hex() for entry in asked)
        most = most if kind == "rollup" else self.settings.summary_max_tokens or 0
        return SummaryKey(output_hash(want.hash + context) if asked else want.hash, self.recipe.hash_of(kind, most))
