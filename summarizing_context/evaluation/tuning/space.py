"""What the search may change, and in which steps: every figure of the extractive summarizer, within its bounds.

Pure. The steps know nothing of the shipped figures: a figure is multiplied or divided, first by four, then by
less; from nothing it goes to the least that can be felt.
"""

from __future__ import annotations

from typing import NamedTuple

from summarizing_context.summarizers.parameter_files import bounds_of
from summarizing_context.summarizers.parameters import ExtractiveParameters

FACTORS = ((4, 1), (2, 1), (3, 2), (5, 4))  # of the first rounds; the last one of all later rounds too
_FELT = {"leaf": 5, "rollup": 5, "room": 25, "weights": 1, "facts": 1, "ranks": 1, "lengths": 40}


class Axis(NamedTuple):
    """One figure, and one direction."""

    table: str
    name: str
    up: bool


def axes(parameters: ExtractiveParameters) -> list[Axis]:
    """All that can be changed, in a fixed order."""
    named = [(table, name) for table, figures in parameters.tables().items() for name in figures]
    return [Axis(table, name, up) for table, name in named for up in (True, False)]


def stepped(parameters: ExtractiveParameters, axis: Axis, round: int) -> ExtractiveParameters | None:
    """The figures one step along an axis; None where there is no room."""
    low, high = bounds_of(axis.table, axis.name)
    value: int = getattr(getattr(parameters, axis.table), axis.name)
    times, over = FACTORS[min(round, len(FACTORS) - 1)]
    above = value - low  # steps are measured from the least that a figure may be
    if axis.up:
        wanted = low + max(above * times // over, above + 1 if above else _FELT[axis.table])
    else:
        wanted = low + min(above * over // times, above - 1)
        wanted = low if 0 < wanted - low < _FELT[axis.table] // 2 else wanted
    wanted = max(low, min(high, wanted))
    return None if wanted == value else parameters.with_figures({(axis.table, axis.name): wanted})
