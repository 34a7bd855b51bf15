"""Where a session's time comes from: the machine's own, or what a program passes in its place."""

from __future__ import annotations

import time
from collections.abc import Callable

from summarizing_context.errors import SettingsError
from summarizing_context.ports import Clock


class MonotonicClock:
    """The machine's clock that never goes back."""

    def now(self) -> float:
        return time.monotonic()


class CalledClock:
    """A function as a clock."""

    def __init__(self, read: Callable[[], float]) -> None:
        self.now = read


def choose_clock(clock: Clock | Callable[[], float] | None) -> Clock:
    """The session's clock, tried out; `SettingsError` for one that gives no seconds."""
    if clock is None:
        return MonotonicClock()
    ours: Clock = clock if hasattr(clock, "now") else CalledClock(clock)
    try:
        told = ours.now()
    except Exception as error:
        raise SettingsError(f"clock must give seconds; tried out, it raised {type(error).__name__}") from error
    if isinstance(told, bool) or not isinstance(told, int | float):
        raise SettingsError(f"clock must give seconds as a number; it gave {type(told).__name__}")
    return ours
