"""Estimate the tokens of a text for budgets, from what each pair of neighbouring bytes costs by its classes.

Pure. The cut of segments has a measure of its own, `estimate`, that stays as it is; this one may be mended. It keeps to
that one where the pairs agree with it, and in other scripts. Tokens end where the classes of bytes say so: there are
never fewer. The costs are fitted to o200k_base by `python -m evals.pair_costs`.
"""

from __future__ import annotations

import zlib

from summarizing_context.messages.estimate import (
    NUMBERS,
    SCALE,
    Look,
    estimate_piece,
    look_at,
    pieces_of,
    repeated_pairs,
)
from summarizing_context.messages.pair_costs import COSTS, RUN, RUNS, SELDOM, UNIT

_TEXT = 6_000  # ten-thousandths of a token that any text has beside its pairs

_LEAST = 100  # percent of what the pairs cost: a budget counts no less

_MOST = 120  # percent of it: a budget counts no more, whatever the measure of cuts says

_SURE = 2  # of the measure of cuts this part counts at least: what is said again and again has pairs that cost nothing

_FOREIGN = 8  # from this part of the tokens on, what is beyond ASCII makes the pairs tell nothing

_SUMMED = 1_000  # bytes whose sum is less than what the checksum wraps at

_DENSE = 16  # bytes for each seldom pair, from which they may be one letter again and again

_CONTROL = 15_000  # each is a token, and so is what stands before it

_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\r"})

_NO_CONTROLS = bytes(set(range(256)) - {*_CONTROLS})


def budget_tokens(text: str) -> int:
    """Estimated tokens of `text`; 0 for an empty text."""
    return estimates(text)[1]


def estimates(text: str) -> tuple[int, int]:
    """Estimated tokens of `text`: those that segments are cut by, and those that budgets are kept by."""
    cut = budget = 0
    for look in map(look_at, pieces_of(text)):
        estimate = estimate_piece(look)
        cut += estimate
        budget += _budgeted(look, estimate)
    return cut, budget


def _budgeted(look: Look, estimate: int) -> int:
    costs = pair_costs(look)
    if look.foreign * _FOREIGN > costs:
        return max(look.ends + 1, estimate)
    least = (costs * _LEAST // 100 + SCALE // 2) // SCALE
    most = -(-costs * _MOST // (100 * SCALE))
    return max(look.ends + 1, least, min(estimate, most), -(-estimate // _SURE))


def pair_costs(look: Look) -> int:
    """Ten-thousandths of a token: what the pairs cost, more for letters by chance and less for runs of one sign."""
    units = _sum_of(look.pairs.translate(_COSTS))
    seldom = look.seldom
    if seldom * _DENSE > len(look.data):
        seldom -= repeated_pairs(look.data)
    units += seldom * SELDOM - sum(map(look.data.count, RUNS)) * _LONG_RUN
    controls = len(look.data.translate(None, _NO_CONTROLS)) * _CONTROL
    return max(0, _TEXT + units * SCALE // UNIT + look.foreign + controls)


def _sum_of(data: bytes) -> int:
    """The sum of bytes of at most 64: half of the checksum of Adler is just that, and quick."""
    parts = (data[at : at + _SUMMED] for at in range(0, len(data), _SUMMED))
    return sum((zlib.adler32(part) & 0xFFFF) - 1 for part in parts)


def _costs() -> bytes:
    """What each pair of classes costs."""
    table = bytearray(256)
    for first, costs in COSTS.items():
        for second, cost in zip(NUMBERS, costs, strict=True):
            table[NUMBERS[second] << 4 | NUMBERS[first]] = cost
    return bytes(table)


_COSTS = _costs()

_LONG_RUN = 4 * _COSTS[NUMBERS["sign"] << 4 | NUMBERS["sign"]] - RUN
