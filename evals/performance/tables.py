"""Tables: which columns each part of the report has, and how a table looks on a terminal and on a page.

Pure. A table is a title, a note and rows of text; the same shape is read from a file for tables made elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table as RichTable

from evals.performance.managers import MANAGERS
from evals.performance.metrics import PRESETS
from evals.performance.runs import Row
from evals.performance.targets import told


class Table(NamedTuple):
    """Cells are text; `ours` are the indices of the rows to highlight."""

    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    ours: frozenset[int] = frozenset()


class Column(NamedTuple):
    """A heading, and how a row's cell is read."""

    head: str
    read: Callable[[Row], Any]


def figure(head: str, name: str) -> Column:
    return Column(head, lambda row: row.figures.get(name))


def never_read(row: Row) -> float | None:
    """Share of evicted text that nothing has read. What an extractive pass read only its manager knows."""
    if "unseen_tokens" in row.figures.get("notes", {}):
        return float(row.figures["notes"]["unseen_tokens"] / max(1, row.figures["history_tokens"]))
    return row.figures.get("evicted_unread")


def lost(row: Row) -> float | None:
    """Share of evicted text behind no summary of the last view; not known where sentences were extracted."""
    extracted = row.ask.manager == "ours-extractive" or row.figures.get("notes", {}).get("stand_ins")
    return None if extracted else row.figures.get("evicted_lost")


def percent(read: Callable[[Row], float | None]) -> Callable[[Row], str | None]:
    def cell(row: Row) -> str | None:
        value = read(row)
        return None if value is None else "0 %" if value == 0 else f"{max(value * 100, 0.1):.1f} %"

    return cell


TIMES = (
    figure("p50 ms", "view_p50_ms"),
    figure("p99 ms", "view_p99_ms"),
    figure("max ms", "view_max_ms"),
    figure("activation p50 ms", "activation_p50_ms"),
    figure("activation max ms", "activation_max_ms"),
    figure("views that waited", "waiting_views"),
    figure("loop stall ms", "stall_ms"),
    figure("append p50 µs", "add_p50_us"),
    figure("append growth", "add_growth"),
    figure("view growth", "view_growth"),
)
SIZES = (
    figure("mean view", "mean_view_tokens"),
    figure("past carried", "mean_past_tokens"),
    figure("prefix breaks", "prefix_breaks"),
    Column("prefix hit", percent(lambda row: row.figures["prefix_hit"])),
    figure("uncached / history", "uncached_over_history"),
    figure("calls", "model_calls"),
    figure("input / history", "model_input_over_history"),
    figure("largest input", "largest_model_input"),
    figure("keep", ""),
)
CARE = (
    Column("never read", percent(never_read)),
    Column("lost", percent(lost)),
    Column("passes max", lambda row: row.figures["passes_max"] if row.figures["model_calls"] else None),
    Column("passes mean", lambda row: row.figures["passes_mean"] if row.figures["model_calls"] else None),
    figure("over budget", "over_budget_views"),
    figure("unsafe", "unsafe_views"),
    figure("errors", "view_errors"),
    figure("bytes / message", "bytes_per_message"),
    figure("base MB", "base_mb"),
)
BRIEF = (TIMES[0], TIMES[1], TIMES[2], TIMES[5], TIMES[6], SIZES[4], CARE[0], CARE[2], SIZES[0])
OUTAGE = (
    Column("summarizer", lambda row: mode_of(row)),
    figure("turns", ""),
    figure("views", "views"),
    figure("view errors", "view_errors"),
    figure("over budget", "over_budget_views"),
    figure("unsafe", "unsafe_views"),
    figure("hung", "hung_views"),
    figure("waited", "waiting_views"),
    figure("calls", "model_calls"),
    figure("max view ms", "view_max_ms"),
    figure("all views s", "view_total_s"),
    figure("loop stall ms", "stall_ms"),
)
COLD = (
    figure("load ms", "load_ms"),
    figure("first view ms", "view_max_ms"),
    figure("view tokens", "max_view_tokens"),
    figure("calls", "model_calls"),
    figure("largest input", "largest_model_input"),
    figure("over budget", "over_budget_views"),
    figure("unsafe", "unsafe_views"),
    Column("never read", percent(never_read)),
    figure("all summaries ready s", "settled_s"),
)
REOPEN = (
    figure("first view after reopening ms", "reopen_ms"),
    figure("calls after reopening", "reopen_calls"),
    figure("calls for a fork", "fork_calls"),
)
PRICES = tuple(
    Column(preset.name, lambda row, name=preset.name: row.figures.get("cost_per_step", {}).get(name))  # type: ignore[misc]
    for preset in PRESETS
)


def mode_of(row: Row) -> str:
    """What the summarizer does in this run."""
    names = {"burst": "calls 3-7 fail", "always": "always fails", "never": "never answers"}
    return names.get(row.ask.mode, f"{row.ask.latency:g} s : {row.ask.agent_latency * 1e3:g} ms")


def of_rows(title: str, note: str, columns: Sequence[Column], rows: Iterable[Row]) -> Table:
    """A table of runs. A run that gave no figures has its reason in place of them."""
    ordered = in_order(rows)
    cells = [[label(row), *_cells(row, columns)] for row in ordered]
    ours = frozenset(at for at, row in enumerate(ordered) if is_ours(row))
    return Table(title, note, ["manager", *(column.head for column in columns)], cells, ours)


def from_file(path: Path) -> Table:
    """`{"title": ..., "note": ..., "rows": [{column: value, ...}, ...]}`, made by another measurement."""
    given = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(given, dict) or not isinstance(given.get("rows"), list):
        raise ValueError(f"{path.name}: a table is an object with title, note and a list of rows")
    header = list(dict.fromkeys(name for row in given["rows"] for name in row))
    rows = [[_text(row.get(name)) for name in header] for row in given["rows"]]
    ours = frozenset(at for at, row in enumerate(rows) if row and row[0].startswith("ours"))
    heads = [name.replace("_", " ") for name in header]
    return Table(str(given.get("title", path.stem)), str(given.get("note", "")), heads, rows, ours)


def on_terminal(table: Table) -> RichTable:
    shown = RichTable(*table.header, title=table.title, caption=table.note)
    for at, row in enumerate(table.rows):
        shown.add_row(*row, style="bold cyan" if at in table.ours else None)
    return shown


def on_markdown(table: Table) -> str:
    lines = [table.header, ["---"] * len(table.header), *table.rows]
    rows = "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)
    note = f"{table.note}\n\n" if table.note else ""
    return f"## {table.title}\n\n{note}{rows}"


def _cells(row: Row, columns: Sequence[Column]) -> list[str]:
    if not row.figures:
        return [row.reason, *([""] * (len(columns) - 1))]
    asked = {"keep": "defaults" if row.ask.keep is None else f"{row.ask.keep:g}", "turns": str(row.ask.turns)}
    return [asked.get(column.head) or _text(column.read(row)) for column in columns]


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return told(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


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
