"""The worker: makes missing summaries in the background, a few at a time.

What is missing is planned in `core.planning`; how a summarizer is called, in `summarizers.resilient`. One owner
task holds the task group; it starts with the first work to do and ends when `stop` is called. A failing
summarizer never ends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import anyio

from summarizing_context.core.estimate import estimate_text
from summarizing_context.core.header import Maker, NodeText
from summarizing_context.core.planning import Planner, Want
from summarizing_context.core.rendering import render_children
from summarizing_context.core.tree import Node
from summarizing_context.errors import StoreError, SummarizerError, SummarizerNotReady, SummarizerRefused
from summarizing_context.flights import alone_with
from summarizing_context.ports import Clock, Store, StoredSummary, SummaryJob, SummaryKey, SummaryReply
from summarizing_context.summaries import SummaryBook
from summarizing_context.timeline import Timeline

_STOP_WITHIN = 1.5  # seconds
_LONGEST_NAP = 3_600.0  # seconds

logger = logging.getLogger(__name__)

Found = TypeVar("Found")


class Caller(Protocol):
    """How the worker has its summaries made: a summarizer with a gate before it."""

    async def summarize(self, job: SummaryJob) -> SummaryReply: ...

    def ready_in(self) -> float | None:
        """Seconds until a job may start; None for never again."""


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


@dataclass(slots=True)
class Failure:
    """A summary that could not be made, and when to try again."""

    times: int
    at: float
    retry_at: float
    refused: bool  # an answer came, but none that can serve


class Worker:
    """Background summaries of one session. All methods belong to its event loop."""

    def __init__(
        self,
        *,
        timeline: Timeline,
        book: SummaryBook,
        store: Store,
        session_id: str,
        caller: Caller,
        recipe: Recipe,
        clock: Clock,
        concurrency: int,
        cooldown: float,
        past_start: Callable[[], bool],
        rollups: bool,
        notify: Callable[[str, dict[str, object]], None],
    ) -> None:
        self._timeline = timeline
        self._book = book
        self._store = store
        self._place = store.name if recipe.shared and store.name != ":memory:" else id(self)
        self._session_id = session_id
        self._caller = caller
        self._recipe = recipe
        self._clock = clock
        self._concurrency = concurrency
        self._cooldown = cooldown
        self._past_start = past_start
        self._notify = notify
        self._planner = Planner(book, rollups=rollups)
        self._running: dict[str, Want] = {}
        self._failures: dict[str, Failure] = {}
        self._owner: asyncio.Task[None] | None = None
        self._awake = anyio.Event()
        self._changed = anyio.Event()
        self._stopped = False
        self.failed = 0
        self.last_error: str | None = None

    @property
    def pending(self) -> int:
        """Summaries that are missing and could be made, those being made included."""
        return self._planner.pending(len(self._timeline.segments)) if self._past_start() else 0

    def reset(self) -> None:
        """The log was replaced."""
        self._planner.reset()

    def wake(self) -> None:
        """Look for work; cheap when there is none."""
        if self._stopped or not self._startable(1):
            return
        if self._owner is None or self._owner.done():
            self._owner = asyncio.create_task(self._own(), name="summarizing worker")
        self._awake.set()

    async def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs or could run; False when that took longer than `timeout` seconds, or was stopped."""
        with anyio.move_on_after(timeout):
            while not self._stopped and (self._running or self._startable(1)):
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
                logger.warning("the summarizing worker did not end in time; abandoned")
        self._signal()

    async def recall(self, *, everything: bool = False) -> None:
        """Take from the store every summary that it has for this session's segments and their rollups.

        With `everything` those that are known already are asked for too, so that the store notes their use.
        """
        if not self._recipe.shared:
            return
        segments, rank, width = len(self._timeline.segments), 0, 1
        while width <= segments:
            nodes = [Node(rank, index) for index in range(segments // width)]
            wants = [Want(node, hash) for node in nodes if (hash := self._book.hash_of(node)) is not None]
            await self._find([want for want in wants if everything or not self._book.is_ready(want.node)])
            rank, width = rank + 1, width * 4

    async def _own(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                self._awake = anyio.Event()
                for want in self._startable(self._concurrency - len(self._running)):
                    self._running[want.hash] = want
                    tasks.start_soon(self._make, want)
                if not self._running:
                    self._signal()
                with anyio.move_on_after(self._nap()):
                    await self._awake.wait()

    def _startable(self, limit: int) -> list[Want]:
        if limit <= 0 or not self._timeline.segments or not self._past_start() or self._caller.ready_in() != 0.0:
            return []
        now = self._clock.now()
        resting = {hash for hash, failure in self._failures.items() if failure.retry_at > now}
        return self._planner.plan(len(self._timeline.segments), self._running.keys() | resting, limit)

    def _nap(self) -> float:
        """Seconds until something could be started that cannot be now."""
        now = self._clock.now()
        naps = [failure.retry_at - now for failure in self._failures.values() if failure.retry_at > now]
        gate = self._caller.ready_in()
        if gate:
            naps.append(gate)
        return min([max(nap, 0.01) for nap in naps], default=_LONGEST_NAP)

    async def _make(self, want: Want) -> None:
        began = self._clock.now()
        try:
            async with alone_with((self._place, self._key(want))):
                if not await self._find([want]):
                    if not self._is_wanted(want):
                        return
                    await self._summarize(want)
            self._recover(want, began)
        except SummarizerNotReady:
            pass  # nothing was tried: it is planned again when calls are let through
        except SummarizerError as error:
            self._fail(want, error)
        except Exception as error:  # a fault of ours or of a foreign object must not end the worker
            logger.error("a summary could not be made", extra={"range": want.hash[:8], "cause": type(error).__name__})
            self._fail(want, error)
        finally:
            self._running.pop(want.hash, None)
            self._awake.set()
            self._signal()

    def _is_wanted(self, want: Want) -> bool:
        """Whether the node still stands for what was planned: the log may have been replaced meanwhile."""
        return self._book.hash_of(want.node) == want.hash

    async def _find(self, wants: list[Want]) -> bool:
        """Take what the store has already; whether it had all."""
        if not self._recipe.shared or not wants:
            return not wants
        keys = {self._key(want): want for want in wants}
        found = await self._guarded(self._store.find_summaries(self._session_id, list(keys)))
        for key, summary in (found or {}).items():
            self._keep(keys[key], summary.text)
        return found is not None and len(found) == len(wants)

    async def _summarize(self, want: Want) -> None:
        job = self._job(want)
        self._tell("summary_started", {"range_hash": want.hash, "rank": job.rank, "tokens": job.source_tokens})
        self._book.saw(want.hash)
        reply = await self._caller.summarize(job)
        text = reply.text
        if self._recipe.shared:
            mine = StoredSummary(text, job.rank, reply.input_tokens or 0, reply.output_tokens or 0)
            kept = await self._guarded(self._store.save_summary(self._session_id, self._key(want), mine))
            text = kept.text if kept is not None else text
        self._keep(want, text)
        self._tell("summary_ready", {"range_hash": want.hash, "rank": job.rank})

    def _keep(self, want: Want, text: str) -> None:
        passes = self._book.passes_of_new(want.node) if self._is_wanted(want) else 1
        self._book.add(want.node, want.hash, NodeText(text, self._recipe.maker, passes))

    def _job(self, want: Want) -> SummaryJob:
        node, first = want.node, self._book.entries(want.node)
        if node.rank == 0:
            content = self._timeline.content(node.number)
        else:
            content = render_children([self._book.text_of(child).text for child in node.children])
        if self._recipe.redact is not None:
            content = self._recipe.redact(content)
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

    def _key(self, want: Want) -> SummaryKey:
        return SummaryKey(want.hash, self._recipe.segment if want.node.rank == 0 else self._recipe.rollup)

    def _recover(self, want: Want, began: float) -> None:
        """A summary came: what failed before it was asked for, for want of a summarizer, need not rest any longer."""
        self._failures.pop(want.hash, None)
        for failure in self._failures.values():
            if not failure.refused and failure.at <= began:
                failure.retry_at = began

    def _fail(self, want: Want, error: Exception) -> None:
        times = self._failures[want.hash].times + 1 if want.hash in self._failures else 1
        now, refused = self._clock.now(), isinstance(error, SummarizerRefused)
        wait = getattr(error, "retry_after", None) or self._cooldown
        if refused:  # its content may never do: ask for it less and less often
            wait = min(self._cooldown * 2 ** (times - 1), _LONGEST_NAP)
        self._failures[want.hash] = Failure(times, now, now + wait, refused)
        self.failed += 1
        self.last_error = type(error).__name__ if not isinstance(error, SummarizerError) else str(error)
        self._tell("summary_failed", {"range_hash": want.hash, "rank": want.node.rank, "cause": self.last_error})

    async def _guarded(self, work: Awaitable[Found]) -> Found | None:
        """A store that fails costs the sharing of a summary, not the summary."""
        try:
            return await work
        except StoreError as error:
            self.last_error = str(error)
            logger.warning("summaries are not shared for now", extra={"cause": repr(error)})
            return None

    def _tell(self, name: str, data: dict[str, object]) -> None:
        try:
            self._notify(name, data)
        except Exception as error:  # an observer's fault is not the worker's
            logger.warning("an observer failed", extra={"event": name, "cause": type(error).__name__})

    def _signal(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
