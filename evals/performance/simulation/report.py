"""The figures of the simulation: a row for each manager and size, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from rich.console import Console
from rich.table import Table

from evals.performance.simulation.baselines import Baseline
from evals.performance.simulation.ours import Outcome

Row = dict[str, Any]

TITLE = "Cost of a step in long sessions"
NOTE = (
    "Virtual clock, real policy: our rows are views of the whole context, compared by bytes; the others are reckoned "
    "from the same sizes. Cost: input tokens of the agent's model a step (read 0.1, write 1.25; summarizer at 1/3, its "
    "output 5 times that). Window 200k, system 20k, steps lognormal (median 770, mean 1.47k), one cold step in 80, "
    "summaries 10:1. Modelled sizes and prices, not bills; the quality of answers is not modelled."
)
COLUMNS = {
    "manager": "manager",
    "raw_tail_tokens": "raw tail",
    "log_tokens": "log",
    "cost_per_step": "cost a step",
    "cost_change_with_size_percent": "± %",
    "hit": "hit",
    "breaks_per_100_steps": "breaks / 100",
    "max_passes": "passes",
    "blocking_calls": "waits",
    "mean_header_tokens": "header",
    "mean_view_tokens": "view",
}


def row_of_ours(name: str, tail: int, runs: Sequence[Outcome]) -> Row:
    """One of our bands at one size."""
    steps = sum(run.bill.steps for run in runs)
    activations = sum(run.activations.total() for run in runs)
    return {
        **_bill_row(f"ours, {name}", tail, runs, sum(run.log_tokens for run in runs)),
        "max_passes": max(run.passes for run in runs),
        "passes_bound": min(run.bound for run in runs),
        "activations_per_100_steps": round(100 * activations / steps, 2),
        "idle_activations_percent": round(100 * sum(run.activations["idle"] for run in runs) / max(1, activations), 1),
        "stand_ins": sum(run.stand_ins for run in runs),
        "segments": max(run.segments for run in runs),
        "mean_header_tokens": round(fmean([tokens for run in runs for tokens in run.header_tokens or [0]])),
        "max_header_tokens": max(tokens for run in runs for tokens in run.header_tokens or [0]),
        "max_header_nodes": max(run.header_nodes for run in runs),
        "merges_in_a_header": max(run.merges for run in runs),
        "view_p50_ms": round(_share([ms for run in runs for ms in run.view_ms], 0.5), 3),
        "view_p99_ms": round(_share([ms for run in runs for ms in run.view_ms], 0.99), 3),
        "activation_p99_ms": round(_share([ms for run in runs for ms in run.activation_ms], 0.99), 1),
        "wall_seconds": round(fmean([run.seconds for run in runs]), 1),
        "cpu_seconds": round(fmean([run.cpu_seconds for run in runs]), 1),
    }


def row_of_baseline(name: str, tail: int, runs: Sequence[Baseline], log_tokens: int) -> Row:
    """One baseline at one size."""
    steps = sum(run.bill.steps for run in runs)
    return {
        **_bill_row(name, tail, runs, log_tokens),
        "max_passes": max(run.passes for run in runs),
        "mean_header_tokens": round(sum(run.header_tokens for run in runs) / steps),
    }


def compared(rows: list[Row]) -> list[Row]:
    """With the change of cost from the smallest log of a manager to each of its larger ones."""
    first: dict[tuple[str, int], Row] = {}
    for row in rows:
        small = first.setdefault((row["manager"], row["raw_tail_tokens"]), row)
        if small is not row:
            change = 100 * (row["cost_per_step"] / small["cost_per_step"] - 1)
            row["cost_change_with_size_percent"] = round(change, 2)
    return rows


def brief(rows: Sequence[Row]) -> list[Row]:
    """The columns that a reader looks at first."""
    return [{name: row.get(name) for name in COLUMNS} for row in rows]


def show(rows: Sequence[Row]) -> None:
    table = Table(title=TITLE, caption=NOTE, caption_justify="left")
    for name, head in COLUMNS.items():
        table.add_column(head, justify="left" if name == "manager" else "right", no_wrap=True)
    for row in rows:
        change = row.get("cost_change_with_size_percent")
        told = {**row, "log_tokens": f"{row['log_tokens'] / 1e6:.1f}M", "hit": f"{row['hit']:.3f}"}
        told["cost_change_with_size_percent"] = "" if change is None else f"{change:+.1f}"
        table.add_row(*(f"{told[name]:,}" if isinstance(told[name], int) else str(told[name]) for name in COLUMNS))
    Console(width=max(Console().width, 132)).print(table)  # so wide are the columns


def _bill_row(name: str, tail: int, runs: Sequence[Outcome] | Sequence[Baseline], log_tokens: int) -> Row:
    bills = [run.bill for run in runs]
    steps = sum(bill.steps for bill in bills)
    costs = [bill.per_step for bill in bills]
    return {
        "manager": name,
        "raw_tail_tokens": tail,
        "log_tokens": round(log_tokens / len(runs)),
        "steps": bills[0].steps,
        "seeds": len(runs),
        "cost_per_step": round(fmean(costs)),
        "cost_spread": round(stdev(costs)) if len(costs) > 1 else 0,
        "of_it_summaries": round(fmean([bill.summaries_per_step for bill in bills])),
        "hit": round(sum(bill.read for bill in bills) / sum(bill.read + bill.written for bill in bills), 4),
        "breaks_per_100_steps": round(100 * sum(bill.breaks for bill in bills) / steps, 2),
        "summarizer_input_per_log_token": round(sum(bill.summarizer_input for bill in bills) / log_tokens, 3),
        "blocking_calls": sum(run.blocking for run in runs),
        "mean_view_tokens": round(sum(run.view_tokens for run in runs) / steps),
    }


def _share(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0
