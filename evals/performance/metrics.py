"""The figures of one run, added up view by view.

Pure. What a view is checked for is in `checks`, what became of text in `lineage`, prices in `prices`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from evals.performance.checks import Seen
from evals.performance.fake_model import FakeModel
from evals.performance.lineage import Lineage
from evals.performance.tokens import Message

WAITED = 0.8  # of the summarizer's latency: a view that did nothing for longer has waited for it
RAMP = 60  # turns before a view counts for the steady mean

Figures = dict[str, Any]


@dataclass
class Tally:
    """What has been counted so far."""

    budget: int
    lineage: Lineage = field(default_factory=Lineage)
    log: set[str] = field(default_factory=set)  # wire texts
    history_tokens: int = 0
    add_seconds: list[float] = field(default_factory=list)
    view_seconds: list[float] = field(default_factory=list)
    idle_seconds: list[float] = field(default_factory=list)  # of these, those in which the process did nothing
    activation_seconds: list[float] = field(default_factory=list)  # of the views that changed their beginning
    view_tokens: list[int] = field(default_factory=list)
    past_tokens: list[int] = field(default_factory=list)
    steady_tokens: list[int] = field(default_factory=list)
    hit_tokens: int = 0
    breaks: int = 0
    over_budget: int = 0
    unsafe: int = 0
    first_fault: str = ""
    not_user_first: int = 0
    errors: int = 0
    first_error: str = ""
    hung: int = 0
    last_view: Sequence[Message] = ()

    def saw(self, view: Sequence[Message], seen: Seen, seconds: float, turn: int) -> None:
        self.last_view = view
        self.view_tokens.append(seen.tokens)
        self.past_tokens.append(seen.past)
        if turn >= RAMP:
            self.steady_tokens.append(seen.tokens)
        if seen.broke:
            self.activation_seconds.append(seconds)
        self.hit_tokens += seen.hit
        self.breaks += seen.broke
        self.over_budget += seen.tokens > self.budget
        self.unsafe += bool(seen.unsafe)
        self.first_fault = self.first_fault or seen.unsafe
        self.not_user_first += not seen.user_first

    def failed(self, error: Exception) -> None:
        self.errors += 1
        self.first_error = self.first_error or f"{type(error).__name__}: {error}"[:160]


def view_figures(tally: Tally, latency: float) -> Figures:
    """Time and size of views, and their faults."""
    tokens = sum(tally.view_tokens)
    return {
        "views": len(tally.view_seconds),
        "view_p50_ms": milliseconds(percentile(tally.view_seconds, 0.50)),
        "view_p99_ms": milliseconds(percentile(tally.view_seconds, 0.99)),
        "view_max_ms": milliseconds(max(tally.view_seconds, default=0.0)),
        "view_total_s": round(sum(tally.view_seconds), 3),
        "activation_p50_ms": milliseconds(percentile(tally.activation_seconds, 0.50)),
        "activation_max_ms": milliseconds(max(tally.activation_seconds, default=0.0)),
        "view_growth": growth(tally.view_seconds),
        "waiting_views": sum(idle >= WAITED * latency for idle in tally.idle_seconds) if latency else None,
        "mean_view_tokens": round(tokens / max(1, len(tally.view_tokens))),
        "steady_view_tokens": round(statistics.fmean(tally.steady_tokens)) if tally.steady_tokens else None,
        "max_view_tokens": max(tally.view_tokens, default=0),
        "mean_past_tokens": round(statistics.fmean(tally.past_tokens)) if tally.past_tokens else 0,
        "last_past_tokens": tally.past_tokens[-1] if tally.past_tokens else 0,
        "over_budget_views": tally.over_budget,
        "unsafe_views": tally.unsafe,
        "first_fault": tally.first_fault,
        "not_user_first_views": tally.not_user_first,
        "view_errors": tally.errors,
        "first_error": tally.first_error,
        "hung_views": tally.hung,
    }


def cost_figures(tally: Tally, model: FakeModel) -> Figures:
    """Cache hits, calls and their price."""
    tokens = sum(tally.view_tokens)
    uncached = tokens - tally.hit_tokens
    answered = (model.calls - model.failed) if model.mode != "never" else 0
    usage = Usage(
        tally.hit_tokens, uncached, model.input_tokens, answered * model.output_tokens, len(tally.view_tokens)
    )
    return {
        "history_tokens": tally.history_tokens,
        "prefix_hit": round(tally.hit_tokens / max(1, tokens), 4),
        "prefix_breaks": tally.breaks,
        "uncached_tokens": uncached,
        "uncached_over_history": round(uncached / max(1, tally.history_tokens), 3),
        "model_calls": model.calls,
        "model_failures": model.failed,
        "model_input_tokens": model.input_tokens,
        "model_input_over_history": round(model.input_tokens / max(1, tally.history_tokens), 3),
        "largest_model_input": model.largest_input,
        "cost_per_step": {preset.name: round(cost_per_step(usage, preset), 1) for preset in PRESETS},
    }


def memory_of_text_figures(tally: Tally) -> Figures:
    """What became of text that left the view."""
    fate = tally.lineage.fate(tally.last_view)
    every, shown = tally.lineage.passes(), tally.lineage.passes(tally.last_view)
    return {
        "evicted_pieces": fate.pieces,
        "evicted_unread": round(fate.unread, 4),
        "evicted_lost": round(fate.lost, 4),
        "passes_max": every.most,
        "passes_mean": round(shown.mean, 2),
    }


def append_figures(tally: Tally) -> Figures:
    adds = tally.add_seconds
    return {
        "messages": len(adds),
        "add_p50_us": round(percentile(adds, 0.5) * 1e6, 1),
        "add_total_s": round(sum(adds), 3),
        "add_growth": growth(adds),
    }


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def growth(times: Sequence[float]) -> float | None:
    """Median of the last tenth over that of an early tenth; the very first ones, which fill caches, are left out."""
    tenth = len(times) // 10
    if tenth < 5:
        return None
    early = statistics.median(times[tenth // 2 : tenth // 2 + tenth])
    return round(statistics.median(times[-tenth:]) / early, 2) if early else None


def milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 3)


SUMMARIZER = 1 / 3  # price of its input token
OUTPUT = 5  # price of an output token, in input tokens of the same model
AS_OF = "November 2026"


class Preset(NamedTuple):
    """How a provider bills a prompt."""

    name: str
    read: float
    write: float
    source: str


PRESETS = (
    Preset("5-minute cache", 0.10, 1.25, "Anthropic, prompt caching with 5-minute entries: write 1.25, read 0.10"),
    Preset(
        "automatic, read 0.10", 0.10, 1.0, "OpenAI, automatic caching of the newer models: read 0.10, no write price"
    ),
    Preset(
        "automatic, read 0.50", 0.50, 1.0, "OpenAI, automatic caching of the older models: read 0.50, no write price"
    ),
    Preset("no cache", 1.0, 1.0, "a server without a prompt cache"),
)


class Usage(NamedTuple):
    """Tokens of a whole run."""

    cached: int
    uncached: int
    summarizer_input: int
    summarizer_output: int
    requests: int


def cost_per_step(usage: Usage, preset: Preset) -> float:
    """Input-token equivalents for each request of the agent, its share of the summaries included."""
    agent = preset.read * usage.cached + preset.write * usage.uncached
    summaries = SUMMARIZER * (usage.summarizer_input + OUTPUT * usage.summarizer_output)
    return (agent + summaries) / max(1, usage.requests)
