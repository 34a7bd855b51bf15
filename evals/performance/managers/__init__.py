"""The managers that are compared, each with its documented defaults.

Adapters are imported only where they run: each framework has an environment of its own.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

from evals.performance.manager import Manager, Setup


class Entry(NamedTuple):
    """One manager: its module here, its environment ("" for this one), and what it runs with."""

    module: str
    environment: str
    defaults: str


MANAGERS: dict[str, Entry] = {
    "ours": Entry("ours", "", "Settings(max_tokens=budget), durable SQLite file, summaries by the fake model"),
    "ours-extractive": Entry("ours", "", "the same without a model: the built-in extractive summarizer"),
    "truncate": Entry("truncation", "", "over budget: drop the oldest groups down to half of it"),
    "langchain": Entry("langchain", "langchain", "trigger 85 % of the budget, keep 20 messages"),
    "deepagents": Entry("deepagents", "deepagents", "create_summarization_middleware: trigger 85 %, keep 10 %"),
    "pydantic": Entry(
        "pydantic_harness", "pydantic-ai-harness", "SummarizingCompaction, trigger 85 %, keep 20 messages"
    ),
    "pydantic-background": Entry(
        "pydantic_harness",
        "pydantic-ai-harness",
        "FallbackCompaction: max_fraction=0.85, background_start=0.85, keep 10 %",
    ),
}


async def open_manager(setup: Setup) -> Manager:
    """Open one session of a manager; its environment must be the present one."""
    module = importlib.import_module(f"evals.performance.managers.{MANAGERS[setup.name].module}")
    opened: Manager = await module.open_manager(setup)
    return opened
