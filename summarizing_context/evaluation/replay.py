"""Replay of transcripts: add messages one by one, take views, judge them by the laws, count figures."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import anyio

from summarizing_context.assembly import open_context, open_store
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import BudgetError, MessageError, TranscriptError
from summarizing_context.evaluation.laws import LogIndex, ViewChecker, canonical, common_messages
from summarizing_context.messages.counters import choose_counter
from summarizing_context.messages.reading import charged_texts, read_message
from summarizing_context.settings.values import Settings, without_default_cap
from summarizing_context.summarizers.base import Summarizer
from summarizing_context.transcripts import Compaction, Transcript, read_named

TIMINGS = ("view_p50_ms", "view_p99_ms", "activation_p99_ms")  # all that two equal runs may differ in

LAW_FIGURES = (
    "over_budget_views",
    "tool_unsafe_views",
    "out_of_order_views",
    "newest_missing_views",
    "unseen_tokens",
    "append_only_breaks",
)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What has been counted of one file at one budget, or of several together."""

    file: str
    budget: int | None  # None for a sum over several budgets
    strategy: str | None = None  # None for a sum over several strategies
    token_counter: str | None = None  # its name; None for a sum over several
    messages: int = 0
    history_tokens: int = 0
    views: int = 0
    refused_views: int = 0
    max_view_tokens: int = 0
    view_tokens: int = 0  # of all views
    hit_tokens: int = 0  # of these, what each view begins with as the view before did
    over_budget_views: int = 0
    tool_unsafe_views: int = 0
    out_of_order_views: int = 0
    newest_missing_views: int = 0
    unseen_tokens: int = 0
    activations: int = 0
    append_only_breaks: int = 0
    model_calls: int = 0
    model_input_tokens: int = 0
    model_output_tokens: int = 0
    stand_ins: int = 0
    repairs: Counter[str] = field(default_factory=Counter)
    view_ms: list[float] = field(default_factory=list)
    activation_ms: list[float] = field(default_factory=list)  # of the views with an activation
    skipped: Counter[str] = field(default_factory=Counter)  # records of the file that are no messages, by kind
    unreadable: list[str] = field(default_factory=list)  # its lines that were skipped, as `file:line: why`
    compactions: list[dict[str, Any]] = field(default_factory=list)  # the client's own, beside our view there

    def figures(self) -> dict[str, Any]:
        """The figures under their published names, as JSON values."""
        return {
            "file": self.file,
            "token_counter": self.token_counter,
            "messages": self.messages,
            "history_tokens": self.history_tokens,
            "views": self.views,
            "refused_views": self.refused_views,
            "budget": self.budget,
            "strategy": self.strategy,
            "max_view_tokens": self.max_view_tokens,
            "mean_view_tokens": round(self.view_tokens / self.views, 1) if self.views else 0.0,
            "over_budget_views": self.over_budget_views,
            "tool_unsafe_views": self.tool_unsafe_views,
            "out_of_order_views": self.out_of_order_views,
            "newest_missing_views": self.newest_missing_views,
            "unseen_tokens": self.unseen_tokens,
            "activations": self.activations,
            "append_only_breaks": self.append_only_breaks,
            "prefix_hit": round(self.hit_tokens / self.view_tokens, 4) if self.view_tokens else 0.0,
            "uncached_tokens": self.view_tokens - self.hit_tokens,
            "model_calls": self.model_calls,
            "model_input_tokens": self.model_input_tokens,
            "model_output_tokens": self.model_output_tokens,
            "stand_ins": self.stand_ins,
            "repairs": dict(sorted(self.repairs.items())),
            "skipped": dict(sorted(self.skipped.items())),
            "skipped_lines": self.unreadable,
            "compactions": self.compactions,
            "view_p50_ms": percentile(self.view_ms, 50),
            "view_p99_ms": percentile(self.view_ms, 99),
            "activation_p99_ms": percentile(self.activation_ms, 99),
        }

    def broken_laws(self) -> list[str]:
        """Names of the figures that should be 0 and are not."""
        return [name for name in LAW_FIGURES if getattr(self, name)]


def add_up(tallies: Sequence[Tally], *, file: str = "total") -> Tally:
    """All of them as one; budget, strategy and counter stay where they share them."""
    total = Tally(file=file, budget=None)
    for name in _SHARED:
        found = {getattr(tally, name) for tally in tallies}
        setattr(total, name, found.pop() if len(found) == 1 else None)
    for once in {tally.file: tally for tally in tallies}.values():  # at however many budgets
        total.skipped.update(once.skipped)
        total.unreadable += once.unreadable
    for tally in tallies:
        for name in _ADDED:
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        total.max_view_tokens = max(total.max_view_tokens, tally.max_view_tokens)
        total.repairs.update(tally.repairs)
        total.view_ms.extend(tally.view_ms)
        total.activation_ms.extend(tally.activation_ms)
    return total


def add_up_by_variant(tallies: Sequence[Tally]) -> list[Tally]:
    """One sum for each strategy and budget, in the order in which they first occur."""
    variants = dict.fromkeys((tally.strategy, tally.budget) for tally in tallies)
    return [add_up([tally for tally in tallies if (tally.strategy, tally.budget) == one]) for one in variants]


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile, to the thousandth; 0.0 of nothing."""
    if not values:
        return 0.0
    rank = math.ceil(len(values) * percent / 100)
    return round(sorted(values)[max(rank, 1) - 1], 3)


_SHARED = ("budget", "strategy", "token_counter")

_COLLECTED = ("repairs", "view_ms", "activation_ms", "skipped", "unreadable", "compactions")

_ADDED = tuple(f.name for f in fields(Tally) if f.name not in ("file", *_SHARED, "max_view_tokens", *_COLLECTED))

_MESSAGE_TOKENS = 4

_MEMORY = ":memory:"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with each file."""

    budgets: tuple[int, ...]  # tokens
    settings: Settings
    live: bool = False  # views are taken at once, whether or not the summaries are ready
    strategies: tuple[str, ...] = ()  # in place of the settings' own
    format: str = "auto"  # of the transcripts

    @property
    def variants(self) -> list[Settings]:
        """The settings of each replay: every strategy at every budget."""
        # Pauses between messages are those of this machine, not of the session: none of them makes a session idle.
        given: list[Any] = list(self.strategies or (self.settings.strategy,))
        return [
            replace(self.settings, strategy=strategy, max_tokens=budget, idle_after=None)
            for strategy in given
            for budget in self.budgets
        ]


@dataclass(slots=True)
class Costs:
    """What messages cost with the session's counter, each counted once."""

    count: Callable[[str], int]
    image_tokens: int
    _known: dict[bytes, int] = field(default_factory=dict)

    def of(self, message: Mapping[str, Any], key: bytes) -> int:
        """Tokens of a message whose canonical JSON is `key`."""
        tokens = self._known.get(key)
        if tokens is None:
            checked = dict(message)
            reading = read_message(checked)
            texts = charged_texts(checked, reading)
            tokens = _MESSAGE_TOKENS + sum(map(self.count, texts)) + self.image_tokens * reading.media
            self._known[key] = tokens
        return tokens


class Recorder:
    """Adds messages to a context and takes its views, tallying what they are."""

    def __init__(self, context: SummarizingContext, costs: Costs, tally: Tally) -> None:
        self.tally = tally
        self.view: list[dict[str, Any]] = []  # the last one
        self.view_tokens = 0
        self._context, self._costs = context, costs
        self._log = LogIndex()
        self._checker = ViewChecker(self._log)
        self._keys: list[bytes] = []  # of the last view
        self._tokens: list[int] = []

    async def add(self, message: dict[str, Any]) -> None:
        """Add one message."""
        await self._context.add_message(message)
        self._log.add(message)
        self.tally.messages += 1

    async def compare(self, compaction: Compaction) -> None:
        """Note the sizes at a compaction of the client's: its own, and those of our log and view."""
        self.tally.compactions.append(
            {
                "message": compaction.at + 1,
                "trigger": compaction.trigger,
                "client_before": compaction.tokens_before,
                "client_after": compaction.tokens_after,
                "client_summary": self._costs.count(compaction.summary) if compaction.summary else None,
                "history_tokens": self._context.statistics().history_tokens,
                "view_tokens": self.view_tokens,
            }
        )

    async def take_view(self) -> None:
        """Get a view and judge it; a refused one leaves the last as it is."""
        started = time.perf_counter()
        try:
            view = await self._context.get_messages_for_request(token_budget=self.tally.budget)
        except BudgetError:
            self.tally.refused_views += 1
            return
        self._judge(view, elapsed_ms=(time.perf_counter() - started) * 1_000)

    def finish(self) -> Tally:
        """The tally, with what only the context itself knows."""
        statistics, tally = self._context.statistics(), self.tally
        tally.token_counter = statistics.token_counter
        tally.history_tokens = statistics.history_tokens
        tally.activations = statistics.activations
        tally.model_calls = statistics.model_calls
        tally.model_input_tokens = statistics.model_input_tokens
        tally.model_output_tokens = statistics.model_output_tokens
        tally.stand_ins = statistics.stand_ins
        tally.repairs.update(statistics.repairs)
        tally.unseen_tokens = self._context.unseen_tokens()
        return tally

    def _judge(self, view: list[dict[str, Any]], *, elapsed_ms: float) -> None:
        tally = self.tally
        last = self._context.last_view
        activated = last is not None and last.activation is not None
        keys = [canonical(message) for message in view]
        common = common_messages(self._keys, keys)
        tally.append_only_breaks += common < len(self._keys) and not activated
        self._checker.look(view, keys, common=common)
        tally.tool_unsafe_views += self._checker.tool_unsafe()
        tally.out_of_order_views += self._checker.out_of_order()
        tally.newest_missing_views += self._checker.newest_missing()
        tally.view_ms.append(elapsed_ms)
        if activated:
            tally.activation_ms.append(elapsed_ms)
        self._note_size(view, keys, common)

    def _note_size(self, view: list[dict[str, Any]], keys: list[bytes], common: int) -> None:
        costs, tally = self._costs, self.tally
        new = [costs.of(message, key) for message, key in zip(view[common:], keys[common:], strict=True)]
        hit = sum(self._tokens[:common])
        self.view, self._keys, self._tokens = view, keys, self._tokens[:common] + new
        self.view_tokens = hit + sum(new)
        tally.views += 1
        tally.hit_tokens += hit
        tally.view_tokens += self.view_tokens
        tally.max_view_tokens = max(tally.max_view_tokens, self.view_tokens)
        tally.over_budget_views += tally.budget is not None and self.view_tokens > tally.budget


async def make_costs(settings: Settings) -> Costs:
    """Costs by the counter that a session with these settings has."""
    counter = await choose_counter(settings.token_counter, allow_download=settings.allow_download)
    return Costs(counter.count, settings.image_tokens)


async def replay_log(name: str, log: Transcript, plan: Plan, *, costs: Costs | None = None) -> list[Tally]:
    """Replay one log with each strategy at each budget of the plan."""
    costs = costs or await make_costs(plan.settings)
    return [await replay_with(settings, name, log, plan, costs=costs) for settings in plan.variants]


def replay_file(path: Path, plan: Plan) -> list[Tally]:
    """Replay each session of one transcript file as the plan says, in an event loop of its own."""
    logs = read_named(path, format=plan.format).items()
    return [tally for name, log in logs for tally in anyio.run(partial(replay_log, name, log, plan))]


def replay_files(paths: Sequence[Path], plan: Plan, *, jobs: int = 1) -> Iterator[list[Tally] | TranscriptError]:
    """Replay files, `jobs` at a time, giving the tallies of each in the order of the files, or why it cannot be read.

    Files that share a store go one after the other, so that what one finds there does not depend on the others' pace.
    """
    replay = partial(_replay_readable, plan=plan)
    jobs = 1 if str(plan.settings.store) != _MEMORY else min(jobs, len(paths))
    if jobs <= 1:
        for path in paths:
            yield replay(path)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(replay, paths)


def replay_all(paths: Sequence[Path], plan: Plan, *, jobs: int = 1) -> list[Tally]:
    """The tallies of all files. Raises the `TranscriptError` of the first that cannot be read."""
    tallies: list[Tally] = []
    for found in replay_files(paths, plan, jobs=jobs):
        if isinstance(found, TranscriptError):
            raise found
        tallies += found
    return tallies


def _replay_readable(path: Path, plan: Plan) -> list[Tally] | TranscriptError:
    try:
        return replay_file(path, plan)
    except TranscriptError as error:
        return error


async def replay_with(
    settings: Settings,
    name: str,
    log: Transcript,
    plan: Plan,
    *,
    costs: Costs | None = None,
    summarizer: Summarizer | None = None,
) -> Tally:
    """Replay one log with these settings, and with a given summarizer in place of theirs."""
    costs = costs or await make_costs(settings)
    budget, strategy = int(settings.max_tokens), settings.strategy
    wanted = _session_name(name, strategy if plan.strategies[1:] else "", budget)
    settings = replace(settings, session_id=await free_session_id(settings, wanted))
    if summarizer is not None:  # its calls are bounded elsewhere, or cost nothing
        settings = without_default_cap(settings)
    async with open_context(settings, summarizer=summarizer) as context:
        tally = Tally(file=name, budget=budget, strategy=strategy, skipped=Counter(log.skipped))
        tally.unreadable += log.unreadable
        recorder, ahead = Recorder(context, costs, tally), list(log.compactions)
        for index, message in enumerate(log.messages):
            if message.get("role") == "assistant" and recorder.tally.messages:
                if not context.open_calls():  # no host sends a request between the calls of one reply
                    await recorder.take_view()
                while ahead and ahead[0].at <= index:
                    await recorder.compare(ahead.pop(0))
            try:
                await recorder.add(message)
            except MessageError as error:
                raise TranscriptError(f"{log.where(index)}: {error}") from error
            if not plan.live:
                await context.wait_idle()
        return recorder.finish()


async def free_session_id(settings: Settings, wanted: str) -> str:
    """`wanted`, with a number if the store has such a session: what is there is never touched."""
    if str(settings.store) == _MEMORY:
        return wanted
    store = await open_store(settings.store)
    try:
        taken = {info.session_id for info in await store.sessions()}
    finally:
        await store.close()
    numbered = (f"{wanted}:{number}" for number in range(2, len(taken) + 3))
    return next(id for id in (wanted, *numbered) if id not in taken)


def _session_name(name: str, strategy: str, budget: int) -> str:
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", re.sub(r"\.jsonl(\.gz)?", "", Path(name).name, count=1))[:150]
    return ":".join(filter(None, ("replay", stem, strategy, str(budget))))
