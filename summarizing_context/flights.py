"""One flight for one summary: tasks of one event loop that want the same key wait for each other.

Contexts on one file thereby pay a key once; who comes second finds it in the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio


@dataclass(slots=True)
class _Flight:
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0


_flights: dict[tuple[int, Hashable], _Flight] = {}  # by event loop and key; only those under way


@asynccontextmanager
async def alone_with(key: Hashable) -> AsyncIterator[None]:
    """Hold `key` against every other task of this event loop; they wait."""
    place = id(asyncio.get_running_loop()), key
    flight = _flights.setdefault(place, _Flight())
    flight.users += 1
    try:
        async with flight.lock:
            yield
    finally:
        flight.users -= 1
        if not flight.users:
            _flights.pop(place, None)
