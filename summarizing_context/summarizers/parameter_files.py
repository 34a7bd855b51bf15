"""The extractive summarizer's figures as a TOML file: read with every problem told at once, written with comments.

What the figures are is said in `parameters`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from summarizing_context.errors import SettingsError, briefly
from summarizing_context.summarizers.parameters import BOUNDS, LEAST, MOST, SHIPPED, ExtractiveParameters


def load_parameters(path: str | Path | None) -> ExtractiveParameters:
    """The figures of a file over the shipped ones; the shipped ones where there is no file."""
    if path is None:
        return SHIPPED
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SettingsError(f"extractive_parameters: {path} cannot be read: {reason}") from error
    return read_parameters(found, str(path))


def read_parameters(tables: Mapping[str, Any], where: str) -> ExtractiveParameters:
    """Figures by table and name over the shipped ones; `SettingsError` with all problems at once."""
    problems: list[str] = []
    figures: dict[tuple[str, str], int] = {}
    for table, given in tables.items():
        if table not in BOUNDS or not isinstance(given, Mapping):
            problems.append(f"{where}: {_unknown(str(table), tuple(BOUNDS), 'table')}")
            continue
        for name, value in given.items():
            if problem := _problem(table, name, value):
                problems.append(f"{where}: {problem}")
            else:
                figures[table, name] = value
    if problems:
        raise SettingsError(problems)
    return SHIPPED.with_figures(figures)


def bounds_of(table: str, name: str) -> tuple[int, int]:
    """The lowest and the highest that a figure may be."""
    low, high = BOUNDS[table]
    return LEAST.get((table, name), low), MOST.get((table, name), high)


def write_parameters(parameters: ExtractiveParameters, *, about: str = "") -> str:
    """A file with all figures; those that are not the shipped ones say so."""
    return "\n".join(_lines(parameters, about)) + "\n"


def _lines(parameters: ExtractiveParameters, about: str) -> Iterator[str]:
    yield from (f"# {line}" for line in about.splitlines())
    shipped = SHIPPED.tables()
    for table, figures in parameters.tables().items():
        yield f"\n[{table}]"
        for name, value in figures.items():
            other = shipped[table][name]
            yield f"{name} = {value}" + (f"  # shipped: {other}" if value != other else "")


def _problem(table: str, name: str, value: Any) -> str:
    known = SHIPPED.tables()[table]
    if name not in known:
        return f"[{table}] {_unknown(name, tuple(known), 'figure')}"
    low, high = bounds_of(table, name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        return f"[{table}] {name} = {briefly(value)} is refused; allowed: a whole number from {low:,} to {high:,}"
    return ""


def _unknown(name: str, known: tuple[str, ...], kind: str) -> str:
    near = get_close_matches(name[:60], known, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"unknown {kind} {name[:60]!r}; {hint}"
