"""The foreground: calls of the host that are under way. Background work gives way to them.

CPython runs one thread's code at a time, so work in a background thread delays each step of an append. Therefore it
waits for a gap. Gaps are told by counting calls, not seconds: the same share is left on a machine of any speed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

_NAP = 0.0002  # seconds
_NAPS = 5  # at most, between two pieces of work: a host that always calls leaves the background its share

SHARE = 128  # calls served for one piece of background work, while there is always one under way


class Foreground:
    """The calls of one session. All methods belong to its event loop."""

    def __init__(self) -> None:
        self._under_way = 0
        self._served = 0
        self._gap = anyio.Event()
        self._asking = anyio.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way. Any thread may ask."""
        return self._under_way > 0

    @contextmanager
    def call(self) -> Iterator[None]:
        """A call of the host, from beginning to end."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._served += 1
            if not self._under_way or self._served % SHARE == 0:
                self._gap.set()
                self._gap = anyio.Event()

    def give_way(self) -> None:
        """Nap while a call is under way, not for ever. A background thread does it between small pieces of work:
        another thread that computes would give each step of the call its turn only after milliseconds."""
        for _ in range(_NAPS):
            if not self._under_way:
                return
            time.sleep(_NAP)

    async def wait_gap(self) -> None:
        """Wait until one more piece of background work may begin: no call is under way, or `SHARE` have been served.

        Pieces that wait get a gap each, in order, so that nothing waits for ever.
        """
        async with self._asking:
            if self._under_way:
                await self._gap.wait()
