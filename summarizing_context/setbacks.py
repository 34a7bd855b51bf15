"""Setbacks: summaries that could not be made, and when each is to be tried again."""

from __future__ import annotations

from dataclasses import dataclass

from summarizing_context.errors import SummarizerRefused

LONGEST_NAP = 3_600.0  # seconds
_DOUBLINGS = 16  # of the pause before what was refused is asked for again: half a minute becomes three weeks


@dataclass(slots=True)
class Setback:
    """A summary that could not be made, and when to try again."""

    times: int
    at: float
    retry_at: float
    refused: bool  # an answer came, but none that can serve


class Setbacks:
    """Those of one session, by range hash; times in seconds of the session's clock."""

    def __init__(self, cooldown: float) -> None:
        self._cooldown = cooldown
        self._setbacks: dict[str, Setback] = {}

    def note(self, hash: str, error: Exception, now: float) -> None:
        """An attempt failed with `error`."""
        times = self._setbacks[hash].times + 1 if hash in self._setbacks else 1
        refused = isinstance(error, SummarizerRefused)
        wait = getattr(error, "retry_after", None) or self._cooldown
        if refused:  # its content may never do: ask for it less and less often
            wait = self._cooldown * 2 ** min(times - 1, _DOUBLINGS)
        self._setbacks[hash] = Setback(times, now, now + wait, refused)

    def recover(self, hash: str, began: float) -> None:
        """A summary came: what failed before it was asked for, for want of a summarizer, need not rest any longer."""
        self._setbacks.pop(hash, None)
        for setback in self._setbacks.values():
            if not setback.refused and setback.at <= began:
                setback.retry_at = began

    def rests(self, hash: str, now: float) -> bool:
        """Whether it is not to be tried yet."""
        setback = self._setbacks.get(hash)
        return setback is not None and setback.retry_at > now

    def naps(self, now: float) -> list[float]:
        """Seconds until each that rests may be tried."""
        return [setback.retry_at - now for setback in self._setbacks.values() if setback.retry_at > now]
