"""Retries: what a failure means, and when a failed summary is tried again."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

from summarizing_context.errors import SummarizerError, SummarizerRefused
from summarizing_context.summarizers.sdk import Fault
from summarizing_context.summarizers.verification.replies import Refusal

LONGEST_DELAY = 3_600.0  # seconds; a provider that asks for more is asked again after this


@dataclass(slots=True)
class _Failed:
    """A summary that could not be made, and when to try again."""

    times: int
    at: float
    retry_at: float
    refused: bool  # an answer came, but none that can serve


class RetrySchedule:
    """When to try again, by range hash, for one session; times in seconds of the session's clock."""

    def __init__(self, cooldown: float) -> None:
        self._cooldown = cooldown
        self._failed: dict[str, _Failed] = {}

    def note(self, hash: str, error: Exception, now: float) -> None:
        """Note that an attempt failed with `error`. What is refused is asked for less and less often: half a minute
        becomes three weeks."""
        refused, before = isinstance(error, SummarizerRefused), self._failed.get(hash)
        times = before.times + 1 if before is not None and before.refused == refused else 1
        wait = getattr(error, "retry_after", None) or self._cooldown
        wait = self._cooldown * 2 ** min(times - 1, 16) if refused else wait
        self._failed[hash] = _Failed(times, now, now + wait, refused)

    def recover(self, hash: str, began: float) -> None:
        """Note that a summary came: what failed before it was asked for, for want of a summarizer, need not rest any
        longer."""
        self._failed.pop(hash, None)
        for failed in self._failed.values():
            if not failed.refused and failed.at <= began:
                failed.retry_at = began

    def rests(self, hash: str, now: float) -> bool:
        """Say whether it is not to be tried yet."""
        return hash in self._failed and self._failed[hash].retry_at > now

    def is_given_up(self, hash: str) -> bool:
        """Say whether two jobs, one after the other, ended with a refused reply. It is still asked for, less often."""
        failed = self._failed.get(hash)
        return failed is not None and failed.refused and failed.times >= 2

    def delays(self, now: float) -> list[float]:
        """Return the seconds until each that rests may be tried."""
        return [failed.retry_at - now for failed in self._failed.values() if failed.retry_at > now]


def retry_after_of(error: Exception) -> float:
    """Return the provider's `retry_after`, up to `LONGEST_DELAY`; 0 where it is no sound number of seconds."""
    seconds = error.retry_after if isinstance(error, SummarizerError) else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return 0.0
    return min(float(seconds), LONGEST_DELAY) if math.isfinite(seconds) and seconds > 0 else 0.0


def describe_failure(error: BaseException) -> str:
    """Return one short line on a failure: class names, status codes and our own constants.

    Never an exception's own words: those of a provider, or of a user's summarizer, may hold the text of messages.
    """
    causes = [error, error.__cause__] if isinstance(error.__cause__, Exception) else [error]
    names = (type(each).__name__[:80] + (f" {code}" if (code := status_code(each)) else "") for each in causes)
    said = error.args[0] if error.args else None
    return " from ".join(names) + (f": {said.value}" if isinstance(said, Refusal | Fault) else "")


def needs_a_person(error: BaseException) -> bool:
    """Say whether calls fail until somebody changes something: a wrong key, model or address (401, 403, 404)."""
    is_told = error.args[:1] in ((Fault.KEY,), (Fault.NOT_FOUND,))
    return is_told or bool({status_code(error), status_code(error.__cause__)} & {401, 403, 404})


def status_code(error: BaseException | None) -> int | None:
    """Return the HTTP status code that an error of an SDK carries, if any."""
    with suppress(Exception):  # attributes of foreign errors may be properties that raise
        for holder in (error, getattr(error, "response", None)):
            for name in ("status_code", "status"):
                code = getattr(holder, name, None)
                if isinstance(code, int) and 100 <= code < 600:
                    return code
    return None
