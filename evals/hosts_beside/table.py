"""The runs as tables for a page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CACHED, WRITTEN = 0.1, 5  # price of a cached and of a written token, where one read uncached costs 1


def markdown(runs: Sequence[Mapping[str, Any]]) -> str:
    """Three tables: what an arm was set to, what it waited and paid, and what it lost."""
    return "\n\n".join(_table(_cells(run, columns) for run in runs) for columns in (_SET, _PAID, _LOST))


def price(run: Mapping[str, Any]) -> float:
    """Requests and summaries, in uncached tokens, for each token of history."""
    uncached = run["view_uncached"] + run["read_uncached"]
    cached = run["view_cached"] + run["read_cached"]
    return float((uncached + CACHED * cached + WRITTEN * run["written"]) / run["history"])


def _over(name: str) -> Any:
    return lambda run: f"{run[name] / run['history']:.2f}"


def _kept(kind: str) -> Any:
    return lambda run: "{} of {}".format(*run["kept"][kind])


_SET = {
    "arm": lambda run: run["arm"],
    "searched setting": lambda run: f"{run['searched']} = {run['setting']:,}",
    "mean view": lambda run: f"{run['mean_view']:,}",
    "largest view": lambda run: f"{run['largest_view']:,}",
    "versions": lambda run: ", ".join(f"{name} {version}" for name, version in run["versions"].items()),
}
_PAID = {
    "arm": lambda run: run["arm"],
    "turns that waited": lambda run: str(run["turns_waited"]),
    "waited, in latencies": lambda run: f"{run['waited']:g}",
    "longest": lambda run: f"{run['longest_wait']:g}",
    "requests, uncached": _over("view_uncached"),
    "requests, cached": _over("view_cached"),
    "summaries": lambda run: str(run["summaries"]),
    "they read, uncached": _over("read_uncached"),
    "cached": _over("read_cached"),
    "they wrote": _over("written"),
    "price": lambda run: f"{price(run):.2f}",
}
_LOST = {
    "arm": lambda run: run["arm"],
    "facts in the last view": lambda run: f"{run['kept_end']:.0%}",
    "mean of six looks": lambda run: f"{run['kept_looks']:.0%}",
    "numbers": _kept("number"),
    "paths": _kept("path"),
    "decisions": _kept("decision"),
    "corrections": _kept("correction"),
    "rules": _kept("rule"),
    "outdated value alone": lambda run: str(run["outdated_alone"]),
    "rules missing in requests": lambda run: f"{run['rules_missing'] / max(run['rules_due'], 1):.0%}",
    "unpaired calls": lambda run: str(run["unpaired"]),
    "newest prompt missing": lambda run: str(run["no_last_user"]),
}


def _cells(run: Mapping[str, Any], columns: Mapping[str, Any]) -> dict[str, str]:
    return {name: told(run) for name, told in columns.items()}


def _table(rows: Any) -> str:
    found = list(rows)
    lines = ["| " + " | ".join(found[0]) + " |", "|" + "---|" * len(found[0])]
    return "\n".join([*lines, *("| " + " | ".join(row.values()) + " |" for row in found)])
