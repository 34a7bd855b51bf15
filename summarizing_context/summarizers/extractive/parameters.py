"""The parameters of the extractive summarizer: one frozen value with the shipped defaults.

They are read from and written to TOML.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from summarizing_context.errors import SettingsError, briefly


class Shares(NamedTuple):
    """Percent of the room for each section, before what is left over is given out."""

    intent: int = 18
    constraints: int = 30
    done: int = 14
    decisions: int = 12
    errors: int = 14
    state: int = 10
    facts: int = 40


class Facts(NamedTuple):
    """How many lines are taken as facts, and how unlike each other."""

    least: int = 150  # thousandths of a sentence that notes must be expected to repeat
    share: int = 50  # percent of its worth at which a line of a result counts beside a sentence
    lines: int = 16  # such lines that compete
    diversity: int = 80  # from 65 on; the lower, the more a line suffers from words that were told already
    most: int = 60  # lines of one summary, before they are fitted
    pool: int = 120  # candidates that compete


class Ranks(NamedTuple):
    """What of the things done is kept longest, by kind of line."""

    changed: int = 15  # a list of files or things that were changed
    looked: int = 7  # a list of what was looked at
    called: int = 6  # a list of ids that calls were made with
    file: int = 10  # one file changed, with its outcome
    command: int = 2  # times a command's own weight, from 2 for any to 7 for a commit
    call: int = 8  # a call of any other tool


class Lengths(NamedTuple):
    """Characters of the lines that list things."""

    changed: int = 420
    looked: int = 420
    called: int = 320
    names: int = 160  # what a file that was read defines


class Rooms(NamedTuple):
    """What may go before all shares."""

    strict: int = 70  # percent of the room that strict constraints may take before all others


class ExtractiveParameters(NamedTuple):
    """All of it."""

    leaf: Shares = Shares()
    rollup: Shares = Shares(14, 30, 18, 14, 14, 6, 34)
    room: Rooms = Rooms()
    facts: Facts = Facts()
    ranks: Ranks = Ranks()
    lengths: Lengths = Lengths()

    def tables(self) -> dict[str, dict[str, int]]:
        """All figures by table and name, in a fixed order."""
        groups: list[Any] = list(self)
        return {name: group._asdict() for name, group in zip(self._fields, groups, strict=True)}

    def with_figures(self, figures: dict[tuple[str, str], int]) -> ExtractiveParameters:
        """The same with some figures changed, each named by its table and its own name."""
        changed: Any = {
            table: getattr(self, table)._replace(
                **{name: value for (of, name), value in figures.items() if of == table}
            )
            for table in {table for table, _ in figures}
        }
        return self._replace(**changed)

    @property
    def name(self) -> str:
        """Empty for the shipped figures, else twelve digits of their hash: part of the recipe."""
        if self == SHIPPED:
            return ""
        return hashlib.sha256(json.dumps(self.tables(), sort_keys=True).encode()).hexdigest()[:12]


SHIPPED = ExtractiveParameters()

BOUNDS: dict[str, tuple[int, int]] = {  # lowest and highest figure of each table
    "leaf": (0, 100),
    "rollup": (0, 100),
    "room": (0, 100),
    "facts": (0, 1_000),
    "ranks": (0, 1_000),
    "lengths": (0, 10_000),
}

LEAST = {("facts", "diversity"): 65, ("facts", "most"): 1, ("facts", "pool"): 1}


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
    return LEAST.get((table, name), low), high


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
