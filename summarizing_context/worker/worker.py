"""The worker: makes missing summaries in the background, a few at a time.

The cache of summaries says what is missing, a job what is asked, the caller calls. One owner task holds the task group,
from the first work until `stop`. A failing summarizer never ends it.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Literal

import anyio

from summarizing_context.errors import SummarizerError, SummarizerNotReady
from summarizing_context.log.entries import output_hash
from summarizing_context.log.tree import Maker, Node, Sources, Want, merge_share, merges_below, rank_of
from summarizing_context.messages.rendering import THOUGHT_ONLY, cut_results, render_children
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.stores.base import StoredFailure, StoredSummary, SummaryKey
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.extractive.lines import key_lines
from summarizing_context.summarizers.extractive.summarizer import summarize_extractively
from summarizing_context.summarizers.resilience import LONGEST_DELAY, RetrySchedule
from summarizing_context.worker.jobs import SessionWork, guarded, paid_once
from summarizing_context.worker.native_blocks import NativeBlocks
from summarizing_context.worker.rule_calls import RuleCalls
from summarizing_context.worker.summary_cache import ROOMS, summary_sizes

_ASKED = 1_200  # characters of a request that stand as context
_SHARE = 0.4  # of its source that a summary may take
_STOP_WITHIN = 1.5  # seconds
_ASKED_AT_ONCE = 32  # of a pool of workers, by one session
_LAG, _PIECE = 1_000, 8_000  # tokens unread in the ledger from which on it is read ahead, and read in one go

logger = logging.getLogger(__name__)


class Worker:
    """Background summaries of one session. `native` asks for blocks that the provider writes; `origin` is what makes
    the summaries, as events tell it: made_by, provider, model."""

    before_call: Callable[[], Awaitable[None]]  # awaited before a model is asked

    def __init__(self, work: SessionWork, native: NativeBlocks | None, origin: Mapping[str, str | None]) -> None:
        self.settings, self.log, self.summaries, self.ledger = work.settings, work.log, work.summaries, work.ledger
        self.store, self.caller, self.recipe, self.clock = work.store, work.caller, work.recipe, work.clock
        self.background, self.notify, self.read_only = work.background, work.notify, work.read_only
        self.origin, self.retries = origin, RetrySchedule(work.settings.breaker_cooldown)
        rules = RuleCalls(work) if work.recipe.maker == "model" else None
        self._schedules = [self.retries, *(one.retries for one in (rules, native) if one is not None)]
        settings = self.settings
        # redacts before it is cut
        self._sources = Sources(
            self.recipe.redact, thinking=self.settings.summarize_thinking, yield_now=self.background.yield_now
        )
        self._concurrency = max(settings.concurrency, _ASKED_AT_ONCE * (settings.workers != "own"))
        part = inf if settings.max_messages is None else int(settings.start_at * settings.max_messages)
        self._start_messages = settings.summarize_threshold or part  # in the log, from which on it works in any case
        self.start_tokens = 0.0  # of the log, beyond which it works
        self._running = set[str]()  # range hashes
        self._owner: asyncio.Task[None] | None = None
        self._awake = anyio.Event()
        self._changed = anyio.Event()
        self._stopped = False
        # work that summaries do not wait for: one piece of it, and whether there is some
        self._side_tasks: dict[Callable[[], Awaitable[None]], Callable[[], bool]] = {
            self._save_failure: lambda: self._unsaved_failure is not None
        }
        if rules is not None:
            self._side_tasks[rules.ask] = lambda: self._past_start() and rules.is_due
        if native is not None:
            native.on_trouble = self.note_error
            self._side_tasks[native.ask] = lambda: self._past_start() and native.is_due
        if settings.ledger_share:
            self._side_tasks[self._read_ahead] = lambda: self.ledger.lag > _LAG and self._past_start()
        self._running_side_tasks: set[Callable[[], Awaitable[None]]] = set()
        self._trouble: str | None = None  # why no model is asked, until one has answered
        self._unsaved_failure: StoredFailure | None = None  # that the store is to keep
        self.failed = 0
        self.last_error: str | None = None
        self.last_error_at: str | None = None  # ISO 8601, UTC

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
        summaries = self.summaries

        async def look_up(nodes: Iterable[Node]) -> None:
            await self._find([Want(node, hash) for node in nodes if (hash := summaries.hash_of(node)) is not None])

        await look_up(Node.leaves(0, len(self.log.segments)))
        if self.read_only:  # who only looks need not know how they were made
            used = await guarded(self.store.summaries_of(self.settings.session_id)) or {}
            known = {place: one for one, place in used.values() if place is not None and one.rank == 0}
            for at, segment in enumerate(self.log.segments):
                if segment.parts == 1 and (one := known.get((segment.start, segment.stop))) is not None:
                    maker: Maker = "model" if one.input_tokens else "extractive"
                    summaries.add(Node(at, at + 1), self.log.hashes[at], one.text, maker)
        for merges in merges_below(summaries.needed_merges()):
            await look_up(merges)

    async def _own(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                self._awake = anyio.Event()
                for want in self._startable(self._concurrency - len(self._running)):
                    self._running.add(want.hash)
                    tasks.start_soon(self._make, want)
                for work, is_due in self._side_tasks.items():
                    if work not in self._running_side_tasks and is_due():
                        self._running_side_tasks.add(work)
                        tasks.start_soon(self._run_side_task, work)
                if not (self._running or self._running_side_tasks):
                    self._signal()

                # until something could be started that cannot be now
                now, delays = self.clock.now(), [self.caller.ready_in() or LONGEST_DELAY]
                delays += (delay for schedule in self._schedules for delay in schedule.delays(now))
                with anyio.move_on_after(max(0.01, min(delays))):
                    await self._awake.wait()

    async def _run_side_task(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # it must not end the worker
            del self._side_tasks[work]  # views do without
            self.last_error = type(error).__name__
            logger.error("background work other than summaries has failed", extra={"cause": self.last_error})
        finally:
            self._running_side_tasks.discard(work)
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
        self.failed += failed
        self.last_error, self.last_error_at = text, datetime.now(UTC).isoformat(timespec="seconds")
        failed += self._unsaved_failure.failed if self._unsaved_failure is not None else 0
        self._unsaved_failure = StoredFailure(failed, text, self.last_error_at)
        self._awake.set()

    async def _save_failure(self) -> None:
        failure, self._unsaved_failure = self._unsaved_failure, None
        if failure is not None:
            await guarded(self.store.save_failure(self.settings.session_id, failure))

    def _has_work(self) -> bool:
        """Whether there is anything to do, or being done beside the summaries."""
        return bool(self._startable(1) or self._running_side_tasks) or any(due() for due in self._side_tasks.values())

    def _past_start(self) -> bool:
        """Whether the log is large enough to be worked on."""
        if self.read_only or self.settings.strategy == "truncate":
            return False
        is_large = self.log.tokens[-1] > self.start_tokens or len(self.log) >= self._start_messages
        return is_large or self.summaries.is_requested

    def _startable(self, limit: int) -> list[Want]:
        if limit <= 0 or not self._past_start() or self.caller.ready_in() != 0.0:
            return []
        now, found = self.clock.now(), dict[str, Want]()
        for want in self.summaries.missing():
            if len(found) >= limit:
                break
            if want.hash not in self._running and not self.retries.rests(want.hash, now):
                found.setdefault(want.hash, want)
        return list(found.values())

    async def _make(self, want: Want) -> None:
        began, about = self.clock.now(), {"range_hash": want.hash, "rank": rank_of(want.node)}
        try:
            if not self._is_wanted(want):
                return
            async with paid_once(self.store, self.recipe, self._key(want), self):
                await self.log.foreground.thawed()
                if not self._is_wanted(want):
                    return
                if not await self._find([want]):
                    if not self._is_wanted(want):
                        return
                    key = self._key(want)
                    await self._summarize(want, key, await self.background.run(self._prepare(want)))
            self.retries.recover(want.hash, began)
        except SummarizerNotReady:
            pass  # nothing was tried: it is planned again when calls are let through
        except Exception as error:  # a fault of this package or of a foreign object must not end the worker, either
            name, said = type(error).__name__, str(error)
            if not isinstance(error, SummarizerError):
                logger.error("a summary could not be made", extra={"range": want.hash[:8], "cause": name})
                said = name
            self.retries.note(want.hash, error, self.clock.now())
            self.note_error(self._trouble or said, failed=1)
            failure = {"duration": self.clock.now() - began, **self.origin, "error": name, "cause": said}
            self.notify("summary_failed", {**about, **failure})
            if self.retries.is_given_up(want.hash):
                await self._give_up(want)
        finally:
            self._running.discard(want.hash)
            self._awake.set()
            self._signal()

    def _is_wanted(self, want: Want) -> bool:
        """Whether the node still stands for what was planned: the log may have been replaced meanwhile."""
        return self.summaries.hash_of(want.node) == want.hash

    async def _find(self, wants: list[Want]) -> bool:
        """Take what the store has already, else what was made for a room of another size, the largest first; whether it
        had all. Merges are of one size."""
        if not self.recipe.shared:
            return not wants
        left = {self._key(want): want for want in wants}

        # the entries that a summary stands for, for a search to place it; taken now, for the log may change meanwhile
        entries = {key: self.summaries.entries(want.node) for key, want in left.items() if self._is_wanted(want)}
        leaves = [key for key, want in left.items() if want.node.width == 1]
        caps = sorted({summary_sizes(self.settings, room).leaf for room in ROOMS}, reverse=True)
        for other in ("", *(self.recipe.hash_of("segment", cap) for cap in caps)):
            keys = (key for key in (leaves if other else left) if key in left and key.recipe_hash != other)
            asked = {key._replace(recipe_hash=other or key.recipe_hash): key for key in keys}
            if not asked:
                continue
            places = {one: (entries[key].start, entries[key].stop) for one, key in asked.items() if key in entries}
            found = await guarded(self.store.find_summaries(self.settings.session_id, list(asked), places))
            await self.log.foreground.thawed()
            if found is None:
                return False
            for one, key in asked.items():
                if one in found:
                    want = left.pop(key)
                    self.summaries.add(want.node, want.hash, found[one].text)
        return not left

    async def _summarize(self, want: Want, key: SummaryKey, job: SummaryJob) -> None:
        self.notify("summary_started", {"range_hash": want.hash, "rank": job.rank, "tokens": job.source_tokens})
        self.summaries.seen.add(want.hash)
        began = self.clock.now()
        if job.content == THOUGHT_ONLY:  # there is nothing to ask a model about
            reply = SummaryReply("- The agent thought.")
        else:
            await self.before_call()
            reply = await self.caller.summarize(job)
        self._trouble = None
        duration = self.clock.now() - began
        text = reply.text
        if self.recipe.shared:
            mine = StoredSummary(text, job.rank, reply.input_tokens or 0, reply.output_tokens or 0)
            places = {key: (job.start, job.stop)} if self._is_wanted(want) else {}
            kept = await guarded(self.store.save_summary(self.settings.session_id, key, mine, places))
            text = kept.text if kept is not None else text
        await self.log.foreground.thawed()
        self.summaries.add(want.node, want.hash, text)
        usage = {name: getattr(reply, name) for name in ("input_tokens", "output_tokens", "cached_tokens")}
        about = {"range_hash": want.hash, "rank": job.rank, "duration": duration}
        self.notify("summary_ready", {**about, **self.origin, **usage})

    async def _give_up(self, want: Want) -> None:
        """Let merges take an extract in the place of a summary for which no usable reply came. A fault in reading it
        must not end the worker: then the merges wait."""
        if not self._is_wanted(want):
            return
        kind, most = self._purpose(want.node)
        try:
            source = self._source(want.node)  # what a model would be given, redacted: the same in every process
            text = await self.background.run(lambda: summarize_extractively(source(), kind=kind, max_tokens=most))
            await self.log.foreground.thawed()
            self.summaries.give_up(want.hash, text)
        except Exception as error:
            logger.error("a stand-in could not be read", extra={"range": want.hash[:8], "cause": type(error).__name__})

    def _signal(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    # jobs

    def _prepare(self, want: Want) -> Callable[[], SummaryJob]:
        """Take now what a job is made from, and return what makes it, in any thread, while the log may change."""
        log, summaries, node, recipe, key = self.log, self.summaries, want.node, self.recipe, self._key(want)
        by_model, is_merge, (purpose, cap) = recipe.maker == "model", node.width > 1, self._purpose(node)
        entries, source = summaries.entries(node), self._source(node)
        asked = [log.entries[at] for at in self._asked_before(node)]

        def job() -> SummaryJob:
            content = source()
            if is_merge:
                content = self._redacted(content)
            elif by_model:  # without the middles of long results; their key lines, found by reading
                content = cut_results(content, lambda middle: key_lines(middle, 200))  # all of them, instead

            # tokens that the summary may take: the cap, or less of a short source, for a reply that is too large a part
            # of it is refused; in steps, so that requests begin alike and the provider's cache serves them
            tokens, most = estimate_text(content), cap
            if by_model:
                share = (merge_share(node) if is_merge else _SHARE) * tokens
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
                kind=purpose,
                instructions=recipe.instructions(purpose, most),
                content=content,
                max_tokens=most,
                rank=rank_of(node),
                start=entries.start,
                stop=entries.stop,
                source_tokens=tokens,
                range_hash=key.range_hash,
                recipe_hash=key.recipe_hash,
                context=context,
            )

        return job

    def _source(self, node: Node) -> Callable[[], str]:
        """Return what gives the content of a segment, or the children of a merge, in any thread."""
        if node.width == 1:
            return self.log.source(node.start, self._sources)
        texts: list[Callable[[], str]] = []
        for child in node.children:
            text = self.summaries.merged_text(child) or self.summaries.text_of(child)
            is_own = text.made_by == "verbatim"  # a segment that is its own summary is written down redacted
            source = self.log.source(child.start, self._sources) if is_own else partial(self._redacted, text.text)
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
        if node.width > 1:
            return "rollup", self.summaries.sizes.merge
        return "segment", self.summaries.sizes.leaf

    def _key(self, want: Want) -> SummaryKey:
        """Return the key under which a summary is kept; a segment's names the context of its request, too."""
        hash = want.hash
        if asked := self._asked_before(want.node):
            hash = output_hash(hash + "".join(self.log.entries[at].facts.content.hex() for at in asked))
        return SummaryKey(hash, self.recipe.hash_of(*self._purpose(want.node)))

    def _redacted(self, text: str) -> str:
        return text if self.recipe.redact is None else self.recipe.redact(text)
