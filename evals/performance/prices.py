"""Price presets: what a request costs, in units of one input token of the agent's model.

Ratios of published list prices as of November 2026, not bills: `read` is a cached input token, `write` one that is not
in the cache. The summarizer is a model at a third of the price; an output token costs five input tokens. The output of
the agent is the same for every manager and left out.
"""

from __future__ import annotations

from typing import NamedTuple

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
