"""The managers that are compared: what each is called, where it lives, and what of it can be tuned.

Adapters are imported only where they run: each framework has an environment of its own.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

from evals.performance.manager import Manager, Setup


class Knob(NamedTuple):
    """The parameter by which the mean view is made as large as ours, and where to look for it."""

    says: str
    low: float
    high: float


class Entry(NamedTuple):
    """One manager. `defaults` says what it runs with when nothing is tuned."""

    module: str
    environment: str  # "" for ours
    defaults: str
    knob: Knob | None = None
    tuned: str = ""  # what else differs when it is tuned


MANAGERS: dict[str, Entry] = {
    "ours": Entry("ours", "", "Settings(max_tokens=budget), durable SQLite file, summaries by the fake model"),
    "ours-economy": Entry("ours", "", 'the same with band="economy"'),
    "ours-extractive": Entry("ours", "", "the same without a model: the built-in extractive summarizer"),
    "truncate-oldest": Entry("truncation", "", "drop the oldest groups until the view fits"),
    "truncate-batch": Entry(
        "truncation", "", "over budget: drop the oldest groups down to half of it", Knob("share kept", 0.05, 0.95)
    ),
    "langchain": Entry(
        "langchain",
        "langchain",
        "trigger 85 % of the budget, keep 20 messages, summarizer input trimmed to 4,000 tokens",
        Knob("keep tokens", 400, 12_000),
        "trim_tokens_to_summarize=None",
    ),
    "deepagents": Entry(
        "deepagents",
        "deepagents",
        "create_summarization_middleware: trigger 85 %, keep 10 % of the window",
        Knob("keep tokens", 400, 12_000),
    ),
    "pydantic-sync": Entry(
        "pydantic_harness",
        "pydantic-ai-harness",
        "SummarizingCompaction, trigger 85 % of the budget, keep 20 messages, tool results cut at 500 characters",
        Knob("keep tokens", 400, 12_000),
        "tool_return_max_chars=None",
    ),
    "pydantic-background": Entry(
        "pydantic_harness",
        "pydantic-ai-harness",
        "FallbackCompaction as documented: max_fraction=0.85, background_start=0.85, keep 10 % of the window",
        Knob("keep tokens", 200, 12_000),
        "tool_return_max_chars=None",
    ),
    "langmem": Entry(
        "langmem",
        "langmem",
        "asummarize_messages, max_tokens = budget, before summary 85 % less 256, max_summary_tokens 256",
        Knob("max_tokens_before_summary", 2_000, 15_000),
    ),
    "strands": Entry(
        "strands",
        "strands",
        "proactive_compression=True (70 %), summary_ratio 0.3, 10 recent messages kept",
        Knob("share of messages kept (1 - summary_ratio)", 0.2, 0.9),
        "compression_threshold 0.85",
    ),
    "openhands": Entry(
        "openhands",
        "openhands",
        "LLMSummarizingCondenser, max_size 240, keep_first 2, max_tokens 85 % of the budget",
        Knob("max_tokens", 4_000, 15_500),
    ),
    "agent-framework": Entry(
        "agent_framework",
        "agent-framework",
        "TokenBudgetComposedStrategy at 85 % of the budget over SummarizationStrategy with its defaults",
    ),
}


async def open_manager(setup: Setup) -> Manager:
    """Needs the environment of the manager."""
    module = importlib.import_module(f"evals.performance.managers.{MANAGERS[setup.name].module}")
    opened: Manager = await module.open_manager(setup)
    return opened
