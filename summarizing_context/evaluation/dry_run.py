"""Forecast of a replay with a model: calls, tokens and price.

The session runs with the real planner and a summarizer that calls no model. The summarizer measures each request and
answers with a text of the assumed length. It needs no key, no SDK and no network, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import anyio

from summarizing_context.assembly import open_store, recipe_of
from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.replay import MEMORY, Plan, make_costs, replay_with
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.settings.addresses import is_address
from summarizing_context.stores.base import Store, SummaryKey
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.prices import ModelPrice
from summarizing_context.summarizers.sdk import fenced
from summarizing_context.transcripts import Transcript, read_named


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
    memory_calls: int = 0  # which learn for later sessions
    reused: int = 0  # summaries that the store has already, or that an earlier file leaves there
    input_tokens: int = 0
    output_tokens: int = 0
    skipped_lines: list[str] = field(default_factory=list)  # of the file, as `file:line: why`

    @property
    def calls(self) -> int:
        """All calls."""
        return self.segment_calls + self.rollup_calls + self.rule_calls + self.memory_calls

    def cost(self, price: ModelPrice | None) -> float | None:
        """US dollars; None where the price is not known."""
        return None if price is None else round(price.cost(self.input_tokens, self.output_tokens), 6)

    def figures(self, price: ModelPrice | None) -> dict[str, Any]:
        """Return the figures under their published names, as JSON values."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**own, "calls": self.calls, "estimated_cost": self.cost(price)}


def add_up(forecasts: Sequence[Forecast], *, file: str = "total") -> Forecast:
    """Return all of them as one; the budget stays where they share it."""
    budgets = {forecast.budget for forecast in forecasts}
    total = Forecast(file=file, budget=budgets.pop() if len(budgets) == 1 else None)
    for each in fields(Forecast):
        if each.default == 0:
            setattr(total, each.name, sum(getattr(forecast, each.name) for forecast in forecasts))
    for once in {forecast.file: forecast for forecast in forecasts}.values():  # at however many budgets
        total.skipped_lines += once.skipped_lines
    return total


def add_up_by_budget(forecasts: Sequence[Forecast]) -> list[Forecast]:
    """Return one sum for each budget, in the order in which the budgets first occur."""
    budgets = dict.fromkeys(forecast.budget for forecast in forecasts)
    return [add_up([one for one in forecasts if one.budget == budget]) for budget in budgets]


def forecast_files(paths: Sequence[Path], plan: Plan) -> Iterator[list[Forecast] | TranscriptError]:
    """Yield forecasts for each file at each budget of the plan, or why it cannot be read. Files share their store."""
    new: dict[SummaryKey, str] = {}
    for path in paths:
        try:
            logs = read_named(path, format=plan.format).items()
            yield [row for name, log in logs for row in anyio.run(forecast_log, name, log, plan, new)]
        except TranscriptError as error:
            yield error


async def forecast_log(
    name: str, log: Transcript, plan: Plan, new: dict[SummaryKey, str] | None = None
) -> list[Forecast]:
    """Return forecasts for one log at each budget of the plan. `new` has the summaries that earlier logs would leave
    in the store, and gets those of this one."""
    place, in_store = plan.settings.store, str(plan.settings.store) != MEMORY
    known = (new if new is not None else {}) if in_store else None
    is_there = in_store and (is_address(place) or await anyio.Path(place).exists())
    store = await open_store(place, read_only=True) if is_there else None
    try:
        costs, rows = await make_costs(plan.settings), []
        for settings in plan.variants:
            forecast = Forecast(file=name, budget=settings.max_tokens, skipped_lines=list(log.unreadable))
            summarizer = CountingSummarizer(forecast, plan, store, known)
            in_memory = replace(settings, store=MEMORY)
            tally = await replay_with(in_memory, name, log, replace(plan, live=False), costs, summarizer)
            forecast.messages, forecast.history_tokens = tally.messages, tally.history_tokens
            rows.append(forecast)
        return rows
    finally:
        if store is not None:
            await store.close()


class CountingSummarizer:
    """A summarizer that counts what it is asked, and answers at the length of the cap.

    What need not be paid is answered as it is kept: summaries of the store, and those that this run would leave there.
    """

    def __init__(self, forecast: Forecast, plan: Plan, store: Store | None, new: dict[SummaryKey, str] | None) -> None:
        self._forecast, self._store, self._new = forecast, store, new  # `new` is None where nothing is kept
        self._recipe = recipe_of(plan.settings)

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return a text as long as a model's summary may be, or the one that is kept."""
        key = SummaryKey(job.range_hash, str(getattr(self._recipe, job.kind)))
        found = None if self._new is None else self._new.get(key)
        if found is None and self._new is not None and self._store is not None:
            others = self._recipe.other_caps if job.kind == "segment" else ()
            keys = [key, *(SummaryKey(job.range_hash, recipe) for recipe in others)]
            kept = await self._store.find_summaries("", keys)
            found = next((kept[one].text for one in keys if one in kept), None)
        if found is not None:
            self._forecast.reused += 1
            return SummaryReply(found)
        text, forecast = assumed_summary(job), self._forecast
        forecast.rule_calls += job.kind == "rules"
        forecast.memory_calls += job.kind == "memory"
        forecast.segment_calls += job.kind == "segment"
        forecast.rollup_calls += job.kind == "rollup"
        forecast.input_tokens += estimate_text(job.instructions) + estimate_text(fenced(job))
        forecast.output_tokens += estimate_text(text)
        if self._new is not None:
            self._new[key] = text
        return SummaryReply(text)


def assumed_summary(job: SummaryJob) -> str:
    """Return a lawful summary of the length that is assumed: the cap, or half of a source that is shorter than two
    caps and longer than 200 tokens. Of rules and memories it finds none."""
    if job.kind in ("rules", "memory"):
        return "none" if job.kind == "rules" else "[]"
    most = job.max_tokens if job.source_tokens <= 200 else min(job.max_tokens, job.source_tokens // 2)
    line = f"- step {{}} of the part {job.range_hash[:8]} was done"
    size = estimate_text(line.format(10) + "\n")
    rest = (line.format(at) for at in range(2, (most - estimate_text("## Done")) // size + 1))
    return "\n".join(["## Done", line.format(1), *rest])
