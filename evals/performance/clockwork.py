"""The clocks of a run: time that went into measuring, and how long the event loop stood still; and its memory."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BEAT = 0.002  # seconds


@dataclass
class Clockwork:
    """`own` seconds went into measuring; they are no stall, and the agent's pause is shortened by them."""

    own: float = 0.0
    stall: float = 0.0  # the longest time between two beats, less the beat itself

    @contextmanager
    def measuring(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.own += time.perf_counter() - began

    async def beat(self) -> None:
        """Run beside the session until cancelled."""
        last, own = time.perf_counter(), self.own
        while True:
            await asyncio.sleep(BEAT)
            now = time.perf_counter()
            self.stall = max(self.stall, now - last - BEAT - (self.own - own))
            last, own = now, self.own


def resident() -> int:
    """Bytes of memory in use, garbage collected first; the peak where the system does not tell."""
    gc.collect()
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of the values lies; 0 if there are none."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0
