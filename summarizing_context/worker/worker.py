"""The worker: makes missing summaries in the background, a few at a time, and pays for each once.

The cache of summaries says what is missing, a recipe how it is made and under which hash it is shared, the caller
calls. One owner task holds the task group, from the first work until `stop`. A failing summarizer never ends it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any, Literal, Protocol, TypeVar, get_args
from weakref import WeakValueDictionary

import anyio

from summarizing_context.concurrency import Clock, WorkerThread
from summarizing_context.errors import StoreError, SummarizerError, SummarizerNotReady
from summarizing_context.log.entries import output_hash, recipe_hash
from summarizing_context.log.ledger import SessionLedger
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import Maker, Node, Sources, Want, merge_share, merges_below, rank_of
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
from summarizing_context.stores.base import (
    NOWHERE,
    Places,
    SessionStore,
    Store,
    StoredFailure,
    StoredSummary,
    SummaryKey,
)
from summarizing_context.summarizers.base import Caller, SummaryJob, SummaryReply
from summarizing_context.summarizers.extractive.lines import key_lines
from summarizing_context.summarizers.extractive.summarizer import summarize_extractively
from summarizing_context.summarizers.prompts import in_use
from summarizing_context.summarizers.resilience import LONGEST_DELAY, RetrySchedule
from summarizing_context.summarizers.verification import GROUNDING_VERSION
from summarizing_context.worker.summary_cache import ROOMS, SummaryCache, summary_sizes

_CLAIM = 300.0  # seconds; other hosts wait no longer for one that lives
_ASKED = 1_200  # characters of a request that stand as context
_SHARE = 0.4  # of its source that a summary may take
_STOP_WITHIN = 1.5  # seconds
_ASKED_AT_ONCE = 32  # of a pool of workers, by one session
_LAG, _PIECE = 1_000, 8_000  # tokens unread in the ledger from which on it is read ahead, and read in one go

logger = logging.getLogger(__name__)

Found = TypeVar("Found")
Work = Callable[[], Awaitable[None]]

Prompted = Literal["segment", "rollup", "memory", "rules"]
_INSTRUCTED = ("segment", "rollup")  # which follow `summary_instructions`


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
        self._more = None if own else settings.summary_instructions
        self._fixed = {
            "summarizer": name or f"private/{uuid.uuid4().hex}",
            "renderer": RENDERER_VERSION if own else f"{RENDERER_VERSION}, {CUTTING_VERSION}",
            **({} if own else {"grounding": GROUNDING_VERSION}),
            "redacted": redact is not None and not own and str(redact.version),
            **({"thinking": True} if settings.summarize_thinking else {}),
        }

    def hash_of(self, kind: Prompted, max_tokens: int) -> str:
        """Return what the store keeps them under: by what is asked for, and the tokens it may take."""
        prompt = None if self.maker == "extractive" else self._prompts[kind].hash
        asked = {"instructions": self._more} if self._more and kind in _INSTRUCTED else {}
        return recipe_hash({**self._fixed, **asked, "max_tokens": max_tokens, "kind": kind, "prompt": prompt})

    def job(self, kind: Prompted, key: SummaryKey, *, content: str, max_tokens: int, entries: range) -> SummaryJob:
        """Return what is asked of a summarizer about these entries, in any thread."""
        text = self._prompts[kind].render(max_tokens=max_tokens)
        return SummaryJob(
            kind=kind,
            instructions=f"{text}\n\n{self._more}" if self._more and kind in _INSTRUCTED else text,
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


@dataclass(frozen=True, kw_only=True)
class SessionWork:
    """What the parts of one session share."""

    settings: Settings
    log: MessageLog
    summaries: SummaryCache
    ledger: SessionLedger
    store: SessionStore
    caller: Caller
    recipe: Recipe
    clock: Clock
    background: WorkerThread  # where texts are worked on
    notify: Callable[[str, dict[str, Any]], None]
    read_only: bool

    async def find(
        self, keys: Collection[SummaryKey], places: Places = NOWHERE
    ) -> Mapping[SummaryKey, StoredSummary] | None:
        """Return what the store has under these keys, and have it note their use; None where it fails."""
        if not self.recipe.shared:
            return {}
        return await guarded(self.store.find_summaries(self.settings.session_id, list(keys), places))

    async def keep(self, key: SummaryKey, reply: SummaryReply, rank: int = 0, places: Places = NOWHERE) -> SummaryReply:
        """Keep a reply in the store, and return it with the text that is kept: the first under a key stays."""
        if not self.recipe.shared:
            return reply
        made = StoredSummary(reply.text, rank, reply.input_tokens or 0, reply.output_tokens or 0)
        kept = await guarded(self.store.save_summary(self.settings.session_id, key, made, places))
        return reply if kept is None else replace(reply, text=kept.text)

    async def answered_once(
        self,
        key: SummaryKey,
        ask: Callable[[], Awaitable[SummaryReply]],
        serves: Callable[[SummaryReply], bool] = lambda cut: False,
    ) -> SummaryReply:
        """Return the reply that the store has under a key, else what `ask` returns, kept there unless it was cut off;
        then it is kept if it `serves`."""
        async with paid_once(self.store, self.recipe, key, self):
            if found := await self.find([key]):
                return SummaryReply(found[key].text)
            reply = await ask()
            return await self.keep(key, reply) if not reply.truncated or serves(reply) else reply


# by event loop and key
_held_keys: WeakValueDictionary[tuple[int, Hashable, SummaryKey], asyncio.Lock] = WeakValueDictionary()


@asynccontextmanager
async def paid_once(store: Store, recipe: Recipe, key: SummaryKey, owner: object) -> AsyncIterator[None]:
    """Hold a key while it is looked up in the store, paid for, and kept.

    One task of an event loop holds it, and one of the hosts that share the store. An `owner` whose summaries are not
    shared pays for its own.
    """
    is_shared = recipe.shared and store.name != ":memory:"
    hosts = getattr(store, "claims", None) if is_shared and recipe.claims else None  # a store may have none
    wanted = (id(asyncio.get_running_loop()), store.name if is_shared else id(owner), key)
    async with _held_keys.setdefault(wanted, asyncio.Lock()), hosts.held(key, _CLAIM) if hosts else nullcontext():
        yield


async def guarded(work: Awaitable[Found]) -> Found | None:
    """A store that fails costs what it would share with other sessions and processes, and nothing else."""
    try:
        return await work
    except StoreError as error:
        logger.warning("summaries and errors are not shared for now", extra={"cause": repr(error)})
        return None


class SideCall(Protocol):
    """What is asked of a provider beside the summaries, one request at a time."""

    name: str

    @property
    def is_due(self) -> bool: ...

    async def ask(self) -> None: ...

    def failed(self, error: Exception) -> Exception:
        """Tell of a failure, and return what counts for when it is asked again."""


class Worker:
    """Background summaries of one session, and beside them what `sides` ask for. `origin` is what makes the summaries,
    as events tell it: made_by, provider, model."""

    before_call: Callable[[], Awaitable[None]]  # awaited before a model is asked
    start_tokens: Callable[[], float]  # of the log, beyond which it works

    def __init__(self, work: SessionWork, origin: Mapping[str, str | None], sides: Sequence[SideCall] = ()) -> None:
        self._work, self.recipe, self._origin = work, work.recipe, origin
        self.log, self.summaries, self.caller, self.clock = work.log, work.summaries, work.caller, work.clock
        settings = work.settings
        self._retries, self._side_retries = (RetrySchedule(settings.breaker_cooldown) for _ in range(2))
        thinking, yield_now = settings.summarize_thinking, work.background.yield_now
        self._sources = Sources(self.recipe.redact, thinking=thinking, yield_now=yield_now)  # redacts before it is cut
        self._concurrency = max(settings.concurrency, _ASKED_AT_ONCE * (settings.workers != "own"))
        part = inf if settings.max_messages is None else int(settings.start_at * settings.max_messages)
        self._start_messages = settings.summarize_threshold or part  # in the log, from which on it works in any case
        self._owner: asyncio.Task[None] | None = None
        self._awake, self._changed = anyio.Event(), anyio.Event()
        self._stopped = False
        # work that summaries do not wait for: one piece of it, and whether there is some
        self._side_tasks: dict[Work, Callable[[], bool]] = {
            self._save_failure: lambda: self._unsaved is not None,
            **{partial(self._ask, side): partial(self._is_due, side) for side in sides},
        }
        if settings.ledger_share:
            self._side_tasks[self._read_ahead] = lambda: work.ledger.lag > _LAG and self._past_start()
        self._running = set[str | Work]()  # range hashes, and side tasks
        self._trouble: str | None = None  # why no model is asked, until one has answered
        self.failure = StoredFailure()
        self._unsaved: int | None = None  # summaries that failed since the store was told of a failure

    @property
    def pending(self) -> int:
        """Summaries that are missing and could be made, those being made included."""
        return len(set(self.summaries.missing())) if self._past_start() else 0

    def wake(self) -> None:
        """Have the owner look for work; it is started when there is some."""
        if self._stopped or not self._has_work():
            return
        if self._owner is None or self._owner.done():
            self._owner = asyncio.create_task(self._own(), name="summarizing worker")
        self._awake.set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or could run."""
        return self._stopped or not (self._running or self._has_work())

    async def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs or could run; False when that took longer than `timeout` seconds, or was stopped."""
        with anyio.move_on_after(timeout):
            while not self.is_idle:
                self.wake()
                await self._changed.wait()
            return not self._stopped
        return False

    async def stop(self) -> None:
        """End every task, within two seconds."""
        self._stopped = True
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.cancel()
            await asyncio.wait({owner}, timeout=_STOP_WITHIN)
            if not owner.done():
                logger.warning("the worker did not end in time and was abandoned")
        await self._save_failure()
        self._signal()

    async def recall(self) -> None:
        """Take from the store every summary that it has for this session's segments, and the merges that views need;
        those that are known already too, so that the store notes their use."""
        if not self.recipe.shared:
            return
        await self._find(Node.leaves(0, len(self.log.segments)))
        if self._work.read_only:  # who only looks need not know how they were made
            used = await guarded(self._work.store.summaries_of(self._work.settings.session_id)) or {}
            known = {place: one for one, place in used.values() if place is not None and one.rank == 0}
            for at, segment in enumerate(self.log.segments):
                if segment.parts == 1 and (one := known.get((segment.start, segment.stop))) is not None:
                    maker: Maker = "model" if one.input_tokens else "extractive"
                    self.summaries.add(Node(at, at + 1), self.log.hashes[at], one.text, maker)
        for merges in merges_below(self.summaries.needed_merges()):
            await self._find(merges)

    async def _own(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                self._awake = anyio.Event()
                for want in self._startable(self._concurrency - len(self._running - self._side_tasks.keys())):
                    self._running.add(want.hash)
                    tasks.start_soon(self._make, want, self._key(want))
                for work, is_due in self._side_tasks.items():
                    if work not in self._running and is_due():
                        self._running.add(work)
                        tasks.start_soon(self._run_side_task, work)
                if not self._running:
                    self._signal()

                # until something could be started that cannot be now
                now = self.clock.now()
                delays = [*self._retries.delays(now), *self._side_retries.delays(now)]
                delays.append(self.caller.ready_in() or LONGEST_DELAY)
                with anyio.move_on_after(max(0.01, min(delays))):
                    await self._awake.wait()

    def _signal(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _has_work(self) -> bool:
        return bool(self._startable(1)) or any(is_due() for is_due in self._side_tasks.values())

    def _past_start(self) -> bool:
        """Whether the log is large enough to be worked on."""
        if self._work.read_only or self._work.settings.strategy == "truncate":
            return False
        is_large = self.log.tokens[-1] > self.start_tokens() or len(self.log) >= self._start_messages
        return is_large or self.summaries.is_requested

    def _startable(self, limit: int) -> list[Want]:
        if limit <= 0 or not self._past_start() or self.caller.ready_in() != 0.0:
            return []
        now, found = self.clock.now(), dict[str, Want]()
        for want in self.summaries.missing():
            if len(found) >= limit:
                break
            if want.hash not in self._running and not self._retries.rests(want.hash, now):
                found.setdefault(want.hash, want)
        return list(found.values())

    # beside the summaries

    def _is_due(self, side: SideCall) -> bool:
        return self._past_start() and not self._side_retries.rests(side.name, self.clock.now()) and side.is_due

    async def _ask(self, side: SideCall) -> None:
        began = self.clock.now()
        try:
            await side.ask()
            self._side_retries.recover(side.name, began)
        except Exception as error:  # of the provider, its SDK, the store or a foreign object: the worker goes on
            self._side_retries.note(side.name, side.failed(error), self.clock.now())

    async def _run_side_task(self, work: Work) -> None:
        try:
            await work()
        except Exception as error:  # it must not end the worker
            del self._side_tasks[work]  # views do without
            self.failure = self.failure._replace(error=type(error).__name__)
            logger.error("background work other than summaries has failed", extra={"cause": self.failure.error})
        finally:
            self._running.discard(work)
            self._awake.set()

    async def _read_ahead(self) -> None:
        """Read a piece of the log for the ledger."""
        unread = self._work.ledger.unread(_PIECE)
        touches = await self._work.background.run(partial(self._work.ledger.read, unread))
        await self.log.foreground.thawed()
        self._work.ledger.take(unread, touches)

    def note_trouble(self, text: str) -> None:
        """No model is asked for now, and `text` says why: other processes see it in the store."""
        self._trouble = text
        self.note_error(text)

    def note_error(self, text: str, failed: int = 0) -> None:
        """Keep what has failed for statistics, and for other processes in the store."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.failure = StoredFailure(self.failure.failed + failed, text, now)
        self._unsaved = (self._unsaved or 0) + failed
        self._awake.set()

    async def _save_failure(self) -> None:
        failed, self._unsaved = self._unsaved, None
        if failed is not None:
            failure = self.failure._replace(failed=failed)
            await guarded(self._work.store.save_failure(self._work.settings.session_id, failure))

    # one summary

    async def _make(self, want: Want, key: SummaryKey) -> None:
        began = self.clock.now()
        try:
            async with paid_once(self._work.store, self.recipe, key, self):
                await self.log.foreground.thawed()
                if self._is_wanted(want):
                    await self._find([want.node])
                if self._is_wanted(want) and not self.summaries.is_ready(want.node) and self._key(want) == key:
                    await self._summarize(want, key)
            self._retries.recover(want.hash, began)
        except SummarizerNotReady:
            pass  # nothing was tried: it is planned again when calls are let through
        except Exception as error:  # a fault of this package or of a foreign object must not end the worker, either
            name, said = type(error).__name__, str(error)
            if not isinstance(error, SummarizerError):
                logger.error("a summary could not be made", extra={"range": want.hash[:8], "cause": name})
                said = name
            self._retries.note(want.hash, error, self.clock.now())
            self.note_error(self._trouble or said, failed=1)
            failure = {"duration": self.clock.now() - began, **self._origin, "error": name, "cause": said}
            self._work.notify("summary_failed", {"range_hash": want.hash, "rank": rank_of(want.node), **failure})
            if self._retries.is_given_up(want.hash):
                await self._give_up(want)
        finally:
            self._running.discard(want.hash)
            self._awake.set()

    def _is_wanted(self, want: Want) -> bool:
        """Whether the node still stands for what was planned: the log may have been replaced meanwhile."""
        return self.summaries.hash_of(want.node) == want.hash

    async def _find(self, nodes: Iterable[Node]) -> None:
        """Take what the store has already for these nodes, else what was made for a room of another size, the largest
        first. Merges are of one size."""
        # all of it is taken now, for the log may change meanwhile; the entries place a summary for a search
        wants = [Want(node, hash) for node in nodes if (hash := self.summaries.hash_of(node)) is not None]
        left = {self._key(want): (want, self.summaries.entries(want.node)) for want in wants}
        caps = sorted({summary_sizes(self._work.settings, room).leaf for room in ROOMS}, reverse=True)
        for recipe in ("", *(self.recipe.hash_of("segment", cap) for cap in caps)):
            fits = (key for key, (want, _) in left.items() if not recipe or want.node.width == 1)
            asked = {key._replace(recipe_hash=recipe or key.recipe_hash): key for key in fits}
            places = {one: (left[key][1].start, left[key][1].stop) for one, key in asked.items()}
            found = await self._work.find(asked, places) if asked else {}
            await self.log.foreground.thawed()
            if found is None:
                return
            for one, key in asked.items():
                if one in found:
                    want, _ = left.pop(key)
                    self.summaries.add(want.node, want.hash, found[one].text)

    async def _summarize(self, want: Want, key: SummaryKey) -> None:
        job = await self._work.background.run(self._prepare(want.node, key))
        about = {"range_hash": want.hash, "rank": job.rank}
        self._work.notify("summary_started", {**about, "tokens": job.source_tokens})
        self.summaries.seen.add(want.hash)
        began = self.clock.now()
        if job.content == THOUGHT_ONLY:  # there is nothing to ask a model about
            reply = SummaryReply("- The agent thought.")
        else:
            await self.before_call()
            reply = await self.caller.summarize(job)
        self._trouble = None
        duration = self.clock.now() - began
        places = {key: (job.start, job.stop)} if self._is_wanted(want) else NOWHERE
        reply = await self._work.keep(key, reply, job.rank, places)
        await self.log.foreground.thawed()
        self.summaries.add(want.node, want.hash, reply.text)
        usage = {name: getattr(reply, name) for name in ("input_tokens", "output_tokens", "cached_tokens")}
        self._work.notify("summary_ready", {**about, "duration": duration, **self._origin, **usage})

    async def _give_up(self, want: Want) -> None:
        """Let merges take an extract in the place of a summary for which no usable reply came. A fault in reading it
        must not end the worker: then the merges wait."""
        if not self._is_wanted(want):
            return
        kind, most = self._purpose(want.node)
        try:
            source = self._source(want.node)  # what a model would be given, redacted: the same in every process
            extract = partial(summarize_extractively, kind=kind, max_tokens=most)
            text = await self._work.background.run(lambda: extract(source()))
            await self.log.foreground.thawed()
            self.summaries.give_up(want.hash, text)
        except Exception as error:
            logger.error("a stand-in could not be read", extra={"range": want.hash[:8], "cause": type(error).__name__})

    def _prepare(self, node: Node, key: SummaryKey) -> Callable[[], SummaryJob]:
        """Take now what a job is made from, and return what makes it, in any thread, while the log may change."""
        recipe, is_merge, (purpose, cap) = self.recipe, node.width > 1, self._purpose(node)
        entries, source = self.summaries.entries(node), self._source(node)
        asked = [self.log.entries[at] for at in self._asked_before(node)]

        def job() -> SummaryJob:
            content, most = source(), cap
            if is_merge:
                content = recipe.redacted(content)
            elif recipe.maker == "model":  # without the middles of long results; their key lines, found by reading
                content = cut_results(content, lambda middle: key_lines(middle, 200))  # all of them, instead

            # tokens that the summary may take: the cap, or less of a short source, for a reply that is too large a part
            # of it is refused; in steps, so that requests begin alike and the provider's cache serves them
            if recipe.maker == "model":
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

    def _source(self, node: Node) -> Callable[[], str]:
        """Return what gives the content of a segment, or the children of a merge, in any thread."""
        if node.width == 1:
            return self.log.source(node.start, self._sources)
        texts: list[Callable[[], str]] = []
        for child in node.children:
            text = self.summaries.merged_text(child)
            assert text is not None  # or the merge had no hash
            is_own = text.made_by == "verbatim"  # a segment that is its own summary is written down redacted
            source = self.log.source(child.start, self._sources) if is_own else partial(self.recipe.redacted, text.text)
            texts.append(source)
        return lambda: render_children([text() for text in texts])

    def _asked_before(self, node: Node) -> list[int]:
        """Return the entries that stand as context in the request for a segment: the opening request, and the newest
        words of a human before it."""
        if node.width != 1 or self.recipe.maker != "model":
            return []
        start, humans = self.log.segments[node.start].start, self.log.humans
        newest = bisect_left(humans, start)
        return list(dict.fromkeys([*self.log.opening(start), *humans[max(0, newest - 1) : newest]]))

    def _purpose(self, node: Node) -> tuple[Literal["segment", "rollup"], int]:
        """Return what a node is asked for as, and the tokens that it may take in the room that views have now."""
        sizes = self.summaries.sizes
        return ("rollup", sizes.merge) if node.width > 1 else ("segment", sizes.leaf)

    def _key(self, want: Want) -> SummaryKey:
        """Return the key under which a summary is kept; a segment's names the context of its request, too."""
        hash = want.hash
        if asked := self._asked_before(want.node):
            hash = output_hash(hash + "".join(self.log.entries[at].facts.content.hex() for at in asked))
        return SummaryKey(hash, self.recipe.hash_of(*self._purpose(want.node)))
