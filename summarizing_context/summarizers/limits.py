"""When a call for a summary may be made: after a failure, while a provider is down, and within hard caps.

Pure: every time is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from summarizing_context.errors import SummarizerRefused
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.base import BreakerState


@dataclass(slots=True)
class _Failed:
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
        return hash in self._failed and self._failed[hash].retry_at > now

    def is_given_up(self, hash: str) -> bool:
        """Say whether two jobs, one after the other, ended with a refused reply. It is still asked for, less often."""
        failed = self._failed.get(hash)
        return failed is not None and failed.refused and failed.times >= 2

    def delays(self, now: float) -> list[float]:
        """Return the seconds until each that rests may be tried."""
        return [failed.retry_at - now for failed in self._failed.values() if failed.retry_at > now]


class Breaker:
    """Closed, until `failures` calls in a row fail; then open for `cooldown` seconds; then half-open.

    Half-open lets one probe through at a time: its success closes the breaker, its failure opens it again. A call that
    began before the breaker opened decides nothing. A failure's `retry_after` is honoured in every state.
    """

    def __init__(self, *, failures: int, cooldown: float) -> None:
        self._failures_allowed, self._cooldown = failures, cooldown
        self._failures = 0
        self._opened = 0  # times; the ticket of a call is what it was when the call began
        self.tripped = False  # it has opened and no probe has closed it since
        self._is_probing = False
        self._quiet_until = -inf

    def state(self, now: float) -> BreakerState:
        """Return the state; `open` also while a single `retry_after` is waited for: no job may start."""
        return "open" if now < self._quiet_until else "half_open" if self.tripped else "closed"

    def ready_in(self, now: float) -> float:
        """Return the seconds until a job may start; 0.0 is now. While a probe is under way, ask again in a second."""
        return self._quiet_until - now if now < self._quiet_until else float(self._is_probing)

    def begin(self, now: float) -> int | None:
        """Let a call through, or None. Every ticket ends in `succeeded`, `failed` or `abandoned`.

        A closed breaker lets the next attempt of a started job through: that job has waited for its own
        `retry_after`, and need not wait for those that other jobs have met since.
        """
        if self.tripped and (now < self._quiet_until or self._is_probing):
            return None
        self._is_probing = self.tripped
        return self._opened

    def succeeded(self, ticket: int) -> None:
        if ticket == self._opened:
            self._failures, self.tripped, self._is_probing = 0, False, False

    def failed(self, ticket: int, now: float, retry_after: float = 0.0, *, at_once: bool = False) -> bool:
        """Note a failed call; `at_once` opens the breaker without waiting for more. Return whether a closed breaker
        has opened."""
        self._quiet_until = max(self._quiet_until, now + retry_after)
        if ticket != self._opened:
            return False
        was_closed = not self.tripped
        self._failures += 1
        if self.tripped or at_once or self._failures >= self._failures_allowed:
            self.tripped, self._is_probing, self._failures, self._opened = True, False, 0, ticket + 1
            self._quiet_until = max(self._quiet_until, now + self._cooldown)
        return was_closed and self.tripped

    def abandoned(self, ticket: int) -> None:
        """Note a call that proves nothing, as one that was cancelled from outside; the next probe may go."""
        self._is_probing = self._is_probing and ticket != self._opened


@dataclass(slots=True, eq=False)
class Spent:
    at: float
    tokens: int  # input tokens: the estimate, then what the provider reported


class Caps:
    """Hard caps on calls and input tokens, of an hour and of a session: a call that would exceed one is not let
    through. One that can never fit ends the calls of this session."""

    def __init__(self, settings: Settings) -> None:
        names = [f"max_{what}_per_{time}" for time in ("hour", "session") for what in ("calls", "input_tokens")]
        self._caps = {name: inf if (cap := getattr(settings, name)) is None else cap for name in names}
        self._spent: list[Spent] = []
        self._next = 1  # input tokens of the call that found no room: until one is let through, it is the next
        self.calls = 0
        self.tokens = 0

    def waits(self, now: float, tokens: int | None = None) -> dict[str, float]:
        """Return the seconds until each cap, by its setting, lets a call through with so many input tokens, else the
        next; inf for never in this session."""
        tokens = self._next if tokens is None else max(tokens, 1)
        hour_calls, hour_tokens, most_calls, most_tokens = self._caps.values()
        self._spent = [spent for spent in self._spent if spent.at + 3600 > now]
        calls, used = len(self._spent), sum(spent.tokens for spent in self._spent)
        for_calls, for_tokens = 0.0 if hour_calls else inf, 0.0 if tokens <= hour_tokens else inf
        for spent in self._spent:  # until enough of the oldest are more than an hour old
            ends = spent.at + 3600 - now
            for_calls = max(for_calls, ends) if calls >= hour_calls else for_calls
            for_tokens = max(for_tokens, ends) if used + tokens > hour_tokens else for_tokens
            calls, used = calls - 1, used - spent.tokens
        is_over = (self.calls >= most_calls, self.tokens + tokens > most_tokens)
        waits = (for_calls, for_tokens, *(inf if over else 0.0 for over in is_over))
        return dict(zip(self._caps, waits, strict=True))

    def ready_in(self, now: float, tokens: int | None = None) -> float:
        return max(self.waits(now, tokens).values())

    def admit(self, now: float, tokens: int) -> Spent | None:
        """Count a call that is about to be sent, or None if it may not be."""
        if self.ready_in(now, tokens) != 0.0:
            self._next = max(tokens, 1)
            return None
        self._spent.append(spent := Spent(now, tokens))
        self._next = 1
        self.calls += 1
        self.tokens += tokens
        return spent

    def correct(self, spent: Spent, tokens: int) -> None:
        """Put what the provider reported in place of the estimate."""
        self.tokens += tokens - spent.tokens
        spent.tokens = tokens
