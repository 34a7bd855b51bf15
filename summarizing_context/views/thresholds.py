"""Thresholds: how full a view gets before it activates, in the band `fidelity` and in the band `thresholds`.

Pure. A view costs its tokens at the price of reading the cache, every step; an activation costs what it leaves at the
price of writing, now and then. Between the two lies the cheapest raw tail: the square-root law, of the same form as
the Young-Daly spacing of checkpoints.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from summarizing_context.views.budget import Room


class CachePrices(NamedTuple):
    """What a token costs that a prompt cache reads or writes; an uncached one costs 1."""

    read: float = 0.1
    write: float = 1.25


class Economy(NamedTuple):
    """What the cheapest band depends on beside the log."""

    prices: CachePrices
    segment_max: int  # estimated tokens
    added: float  # tokens of the summaries that an activation adds


class Thresholds(NamedTuple):
    """Where an activation is due: above the high water of the room, or with more raw tokens than pay."""

    room: Room
    raw: float = math.inf  # tokens of the tail

    def high(self, head: float) -> float:
        """A view whose header and pins cost `head` asks for an activation above this, beside its system rows."""
        return min(self.room.high, head + self.raw)

    def goal(self, head: float) -> float:
        """An activation that leaves more than this would soon be followed by the next."""
        return self.high(head) - self.room.min_free


def cheapest_band(kept: float, added: float, step: float, prices: CachePrices) -> float:
    """Raw tokens at which to activate for the least cost a step: H* = L + sqrt((w - r) / (r / 2) * (L + s) * a).

    `kept` is L, the tail that an activation leaves; `added` is s, the summaries that it adds; `step` is a, the mean
    tokens of a step, that is of one request with its results. A cache that is read for nothing asks for no end.
    """
    if prices.read <= 0:
        return math.inf
    return kept + math.sqrt(max(0.0, prices.write - prices.read) / (prices.read / 2) * (kept + added) * step)


def economy_thresholds(room: Room, economy: Economy, step: float) -> Thresholds:
    """The waters of the cheapest band, but never so narrow that an activation could not free `min_free`, or would
    cover less than two of the largest segments."""
    cheapest = cheapest_band(room.low, economy.added, step, economy.prices)
    narrowest = max(2 * economy.segment_max, room.min_free + economy.segment_max)
    return Thresholds(room, max(cheapest, room.low + narrowest))
