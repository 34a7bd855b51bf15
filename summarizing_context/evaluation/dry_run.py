"""Forecast of a replay with a model: calls, tokens and price.

The session runs with the real planner and a summarizer that calls no model. The summarizer measures each request and
answers with a text of the assumed length. It needs no key, no SDK and no network, and writes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from summarizing_context.assembly import open_store, recipe_of
from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.replay import Plan, replay_with
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.settings.addresses import is_address
from summarizing_context.settings.values import Settings
from summarizing_context.stores.base import Store, SummaryKey
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.prices import ModelPrice
from summarizing_context.summarizers.sdk import fenced
from summarizing_context.transcripts import Transcript, read_named

_MEMORY = ":memory:"
_SMALL_SOURCE = 200  # tokens; below, a summary may be as long as its source


@dataclass(slots=True, kw_only=True)
class Forecast:
    """What summarizing one file at one budget would take, or several together."""

    file: str
    budget: int | None  # None for a sum over several budgets
    messages: int = 0
    history_tokens: int = 0
    segment_calls: int = 0
    rollup_calls: int = 0
    rule_calls: int = 0  # which read what a human typed
    reused: int = 0  # summaries that the store has already, or that an earlier file leaves there
    input_tokens: int = 0
    output_tokens: int = 0
    skipped_lines: list[str] = field(default_factory=list)  # of the file, as `file:line: why`

    @property
    def calls(self) -> int:
        return self.segment_calls + self.rollup_calls + self.rule_calls

    def cost(self, price: ModelPrice | None) -> float | None:
        """US dollars; None where the price is not known."""
        return None if price is None else round(price.cost(self.input_tokens, self.output_tokens), 6)

    def figures(self, price: ModelPrice | None) -> dict[str, Any]:
        """The figures under their published names, as JSON values."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**own, "calls": self.calls, "estimated_cost": self.cost(price)}


_ADDED = tuple(each.name for each in fields(Forecast) if each.name not in ("file", "budget", "skipped_lines"))


def add_up(forecasts: Sequence[Forecast], *, file: str = "total") -> Forecast:
    """All of them as one; the budget stays where they share it."""
    budgets = {forecast.budget for forecast in forecasts}
    total = Forecast(file=file, budget=budgets.pop() if len(budgets) == 1 else None)
    for name in _ADDED:
        setattr(total, name, sum(getattr(forecast, name) for forecast in forecasts))
    for once in {forecast.file: forecast for forecast in forecasts}.values():  # at however many budgets
        total.skipped_lines += once.skipped_lines
    return total


def add_up_by_budget(forecasts: Sequence[Forecast]) -> list[Forecast]:
    """One sum for each budget, in the order in which the budgets first occur."""
    budgets = dict.fromkeys(forecast.budget for forecast in forecasts)
    return [add_up([one for one in forecasts if one.budget == budget]) for budget in budgets]


def forecast_files(paths: Sequence[Path], plan: Plan) -> Iterator[list[Forecast] | TranscriptError]:
    """Forecasts for each file at each budget of the plan, or why it cannot be read. Files share their store."""
    new: dict[SummaryKey, str] = {}
    for path in paths:
        try:
            logs = read_named(path, format=plan.format).items()
            yield [row for name, log in logs for row in anyio.run(partial(forecast_log, name, log, plan, new))]
        except TranscriptError as error:
            yield error


async def forecast_log(
    name: str, log: Transcript, plan: Plan, new: dict[SummaryKey, str] | None = None
) -> list[Forecast]:
    """Forecasts for one log at each budget of the plan."""
    shared = str(plan.settings.store) != _MEMORY
    async with _opened(plan.settings) as store:
        known = KnownSummaries(plan.settings, store, (new if new is not None else {}) if shared else None)
        waiting = replace(plan, live=False)
        return [await _forecast(name, log, settings, waiting, known) for settings in plan.variants]


class KnownSummaries:
    """Summaries that need not be paid: those in the store, and those that this very run would leave there."""

    def __init__(self, settings: Settings, store: Store | None, new: dict[SummaryKey, str] | None) -> None:
        self._recipe = recipe_of(settings)
        self._store = store
        self._new = new

    async def find(self, job: SummaryJob) -> str | None:
        key = self._key(job)
        if self._new is None or key in self._new or self._store is None:
            return (self._new or {}).get(key)
        others = self._recipe.other_caps if job.kind == "segment" else ()
        keys = [key, *(SummaryKey(job.range_hash, recipe) for recipe in others)]
        found = await self._store.find_summaries("", keys)
        return next((found[one].text for one in keys if one in found), None)

    def note(self, job: SummaryJob, text: str) -> None:
        if self._new is not None:
            self._new[self._key(job)] = text

    def _key(self, job: SummaryJob) -> SummaryKey:
        by_kind = {"segment": self._recipe.segment, "rollup": self._recipe.rollup, "rules": self._recipe.rules}
        return SummaryKey(job.range_hash, by_kind[job.kind])


class CountingSummarizer:
    """A summarizer that counts what it is asked, and answers at the length of the cap."""

    def __init__(self, forecast: Forecast, known: KnownSummaries) -> None:
        self._forecast = forecast
        self._known = known

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """A text as long as a model's summary may be, or the one that is kept."""
        if (found := await self._known.find(job)) is not None:
            self._forecast.reused += 1
            return SummaryReply(found)
        text, forecast = assumed_summary(job), self._forecast
        forecast.rule_calls += job.kind == "rules"
        forecast.segment_calls += job.kind == "segment"
        forecast.rollup_calls += job.kind == "rollup"
        forecast.input_tokens += estimate_text(job.instructions) + estimate_text(fenced(job))
        forecast.output_tokens += estimate_text(text)
        self._known.note(job, text)
        return SummaryReply(text)


def assumed_summary(job: SummaryJob) -> str:
    """A lawful summary of the length that is assumed: the cap, or half of a source that is shorter than two caps. Of
    rules it finds none."""
    if job.kind == "rules":
        return "none"
    most = job.max_tokens if job.source_tokens <= _SMALL_SOURCE else min(job.max_tokens, job.source_tokens // 2)
    line = f"- step {{}} of the part {job.range_hash[:8]} was done"
    lines = ["## Done", line.format(1)]
    size = estimate_text(line.format(10) + "\n")
    lines += [line.format(at) for at in range(2, (most - estimate_text(lines[0])) // size + 1)]
    return "\n".join(lines)


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Store | None]:
    """The store that the replay would use, for reading; None for one that is not there yet."""
    is_file = not is_address(settings.store)
    if str(settings.store) == _MEMORY or (is_file and not await anyio.Path(settings.store).exists()):
        yield None
        return
    store = await open_store(settings.store, read_only=True)
    try:
        yield store
    finally:
        await store.close()


async def _forecast(name: str, log: Transcript, settings: Settings, plan: Plan, known: KnownSummaries) -> Forecast:
    forecast = Forecast(file=name, budget=settings.max_tokens, skipped_lines=list(log.unreadable))
    in_memory = replace(settings, store=_MEMORY)
    tally = await replay_with(in_memory, name, log, plan, summarizer=CountingSummarizer(forecast, known))
    forecast.messages, forecast.history_tokens = tally.messages, tally.history_tokens
    return forecast
