"""How managers and rows are called in tables and charts, and in which order they stand."""

from __future__ import annotations

from collections.abc import Iterable

from evals.performance.managers import MANAGERS
from evals.performance.results import Row

NAMES = {
    "ours": "summarizing-context",
    "ours-extractive": "… extractive",
    "ours-economy": "… economy",
    "truncate-oldest": "truncate oldest",
    "truncate-batch": "truncate batch",
    "pydantic-sync": "pydantic-ai",
    "pydantic-background": "pydantic-ai bg",
}
ORDER = list(MANAGERS)


def label(row: Row) -> str:
    """A dagger marks a run that was stopped by its time limit."""
    name = NAMES.get(row.ask.manager, row.ask.manager) + (" · tuned" if row.ask.tuned else "")
    return f"{name} †" if row.figures.get("stopped", "").startswith("stopped") else name


def is_ours(row: Row) -> bool:
    return row.ask.manager.startswith("ours")


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Ours first, then the peers, each with its tuned run behind it; within one manager by mode."""
    return sorted(rows, key=lambda row: (ORDER.index(row.ask.manager), row.ask.mode, row.ask.latency, row.ask.tuned))
