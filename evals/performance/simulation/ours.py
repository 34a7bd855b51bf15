"""One simulated session with the whole context: log, worker, viewer, store. Only clock and model are not real."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from anyio import to_thread

from evals.performance.simulation.bill import Bill, Requests
from evals.performance.simulation.workload import Message, Texts, messages, opening, steps
from summarizing_context import Settings, SummarizingContext, SummaryJob, SummaryReply, message_text_parts, open_context
from summarizing_context.log.tree import FAN_IN, HeaderNode
from summarizing_context.messages.estimate import MESSAGE_TOKENS, estimate_text

WINDOW = 200_000
STEP_SECONDS, COLD_SECONDS = 10.0, 900.0


class Plan(NamedTuple):
    """What is simulated."""

    name: str
    length: int  # steps
    seed: int
    ratio: int = 10  # tokens of a segment for one of its summary
    settings: dict[str, Any] = {}  # noqa: RUF012 - never changed


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    bill: Bill
    log_tokens: int = 0
    blocking: int = 0  # views that needed time to pass
    segments: int = 0
    passes: int = 0  # the most that a fact in any header had gone through
    activations: Counter[str] = field(default_factory=Counter)
    stand_ins: int = 0
    header_tokens: list[int] = field(default_factory=list)  # after each activation
    header_nodes: int = 0  # the most in one header
    merges: int = 0  # the most in one header
    view_tokens: int = 0  # of all views
    seconds: float = 0.0  # real
    cpu_seconds: float = 0.0
    view_ms: list[float] = field(default_factory=list)  # of views without an activation
    activation_ms: list[float] = field(default_factory=list)

    @property
    def bound(self) -> int:
        """floor(log16 segments) + 2."""
        high = 0
        while FAN_IN ** (high + 1) <= self.segments:
            high += 1
        return high + 2


async def simulate(plan: Plan, *, patience: float = 2.0) -> Outcome:
    """The plan's session from the first message to the last. After `patience` real seconds without a view, that view
    is taken to wait for something."""
    clock, texts = Clock(), Texts(plan.seed)
    summarizer = Summarizer(clock, plan.ratio, plan.seed)
    requests = Requests(_cost)
    outcome = Outcome(requests.bill)
    began, worked = time.perf_counter(), time.process_time()
    settings = Settings(**{"max_tokens": WINDOW, **plan.settings})
    async with open_context(settings, summarizer=summarizer, clock=clock, count_tokens=estimate_text) as context:
        for message in opening(texts):
            await context.add_message(message)
        for at, step in enumerate(steps(plan.length, plan.seed)):
            await clock.advance(COLD_SECONDS if step.cold else STEP_SECONDS)
            for message in messages(at, step, texts):
                await context.add_message(message)
            requests.send(await _view(context, clock, outcome, patience), cold=step.cold)
        statistics = context.statistics()
    outcome.bill.summarizer_input, outcome.bill.summarizer_output = summarizer.input_tokens, summarizer.output_tokens
    outcome.log_tokens, outcome.segments = statistics.history_tokens, statistics.segments
    outcome.activations.update(statistics.activations_by_reason)
    outcome.stand_ins = statistics.stand_ins_total
    outcome.seconds, outcome.cpu_seconds = time.perf_counter() - began, time.process_time() - worked
    return outcome


async def _view(context: SummarizingContext, clock: Clock, outcome: Outcome, patience: float) -> list[Message]:
    """The next view, and what it tells. Should it wait, time has to pass for it, and that is counted."""

    async def timed() -> tuple[list[Message], float]:
        began = time.perf_counter()  # inside of the task: what others did before it started is not its time
        return await context.get_messages_for_request(), (time.perf_counter() - began) * 1e3

    making = asyncio.ensure_future(timed())
    waited = False
    while not (await asyncio.wait({making}, timeout=patience))[0]:
        waited = True
        await clock.advance(1.0)
    outcome.blocking += waited
    shown, took = making.result()
    view = context.last_view
    assert view is not None
    outcome.view_tokens += view.tokens
    if view.activation is None:
        outcome.view_ms.append(took)
    else:
        outcome.activation_ms.append(took)
        _note_header(context.explain(), outcome)
    return shown


def _note_header(nodes: list[HeaderNode], outcome: Outcome) -> None:
    outcome.header_tokens.append(sum(node.tokens for node in nodes))
    outcome.header_nodes = max(outcome.header_nodes, len(nodes))
    outcome.passes = max([outcome.passes, *(node.passes for node in nodes)])
    outcome.merges = max(outcome.merges, sum(node.rank > 0 for node in nodes))


def _cost(message: Message) -> int:
    return MESSAGE_TOKENS + sum(map(estimate_text, message_text_parts(message)))


_GLANCE = 0.0002  # real seconds
_TURNS = 40  # of the event loop, for what an answer sets going


class Clock:
    """Seconds that pass by `advance`."""

    def __init__(self) -> None:
        self._now = 0.0
        self._waiting: list[tuple[float, int, asyncio.Event]] = []
        self._number = 0

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Until so much virtual time has passed."""
        self._number += 1
        event = asyncio.Event()
        heapq.heappush(self._waiting, (self._now + seconds, self._number, event))
        await event.wait()

    async def advance(self, seconds: float) -> None:
        """Let time pass; a task that waits for a moment on the way goes on at that moment."""
        end = self._now + seconds
        while self._waiting and self._waiting[0][0] <= end:
            self._now, _, event = heapq.heappop(self._waiting)
            event.set()
            await _turns(_TURNS)
        self._now = end
        await _turns(3)


class Summarizer:
    """Answers after a model's time, with a text of a model's length. It counts what it was given and gave."""

    def __init__(self, clock: Clock, ratio: int, seed: int) -> None:
        self._clock = clock
        self._ratio = ratio  # tokens of a segment for one of its summary
        self._texts = Texts(f"summaries {seed}")
        self._instructions: dict[str, int] = {}
        self.calls = self.input_tokens = self.output_tokens = self.content_tokens = 0

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        wanted = job.source_tokens // self._ratio if job.rank == 0 else job.max_tokens
        tokens = 2 if job.kind == "rules" else max(20, min(wanted, job.max_tokens) - 10)
        fixed = self._instructions.setdefault(job.instructions, estimate_text(job.instructions))
        self.calls += 1
        self.content_tokens += job.source_tokens
        self.input_tokens += fixed + job.source_tokens
        self.output_tokens += tokens
        await self._clock.sleep(1.5 + tokens / 60)
        done = f"## Done\n- {job.start} to {job.stop}: "
        text = "none" if job.kind == "rules" else done + self._texts.text(tokens - 8)
        return SummaryReply(text, fixed + job.source_tokens, tokens)


async def _turns(count: int) -> None:
    """Turns of the loop after the last thread has ended: what is checked in one takes no virtual time."""
    threads = to_thread.current_default_thread_limiter()
    left = count
    while left:
        await asyncio.sleep(_GLANCE if threads.borrowed_tokens else 0)
        left = count if threads.borrowed_tokens else left - 1
