"""The limits of a summarizer: caps on calls and tokens, and a circuit breaker."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from summarizing_context.summarizers.base import BreakerState


@dataclass(frozen=True, slots=True)
class Limits:
    """How long, how often and how much. None means without a limit. The names are those of settings."""

    call_timeout: float = 60.0  # seconds
    job_timeout: float = 180.0  # seconds, all calls and waits of one job
    attempts: int = 3  # calls for one job
    breaker_failures: int = 4  # failed calls in a row that open the breaker
    breaker_cooldown: float = 30.0  # seconds
    max_calls_per_hour: int | None = None
    max_input_tokens_per_hour: int | None = None
    max_calls_per_session: int | None = None
    max_input_tokens_per_session: int | None = None


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
        """Note a good call."""
        if ticket == self._opened:
            self._failures, self.tripped, self._is_probing = 0, False, False

    def failed(self, ticket: int, now: float, retry_after: float = 0.0, *, at_once: bool = False) -> bool:
        """Note a failed call; `at_once` opens a closed breaker without waiting for more. Return whether a closed
        breaker has opened."""
        self._quiet_until = max(self._quiet_until, now + retry_after)
        if ticket != self._opened:
            return False
        was_closed = not self.tripped
        self._failures += 1
        if self.tripped or at_once or self._failures >= self._failures_allowed:
            self.tripped, self._is_probing, self._failures = True, False, 0
            self._opened += 1
            self._quiet_until = max(self._quiet_until, now + self._cooldown)
        return was_closed and self.tripped

    def abandoned(self, ticket: int) -> None:
        """Note a call that proves nothing, as one that was cancelled from outside; the next probe may go."""
        if ticket == self._opened:
            self._is_probing = False


HOUR = 3600.0  # seconds


@dataclass(slots=True, eq=False)
class Spent:
    """One call that was let through."""

    at: float
    tokens: int  # input tokens: the estimate, then what the provider reported


class Caps:
    """Hard caps: a call that would exceed one is not let through.

    `ready_in` speaks for a call that was held back for its size, until one is let through: a caller who obeys it is
    not turned away again and again. A call that can never fit ends the calls of this session.
    """

    def __init__(self, limits: Limits) -> None:
        names = ("calls_per_hour", "input_tokens_per_hour", "calls_per_session", "input_tokens_per_session")
        caps = {f"max_{name}": getattr(limits, f"max_{name}") for name in names}
        self._caps: dict[str, float] = {name: inf if cap is None else cap for name, cap in caps.items()}
        self._hour: list[Spent] = []  # the calls of the last hour, oldest first
        self._held_back = 0  # input tokens of the call that found no room
        self._warned: set[str] = set()
        self.calls = 0
        self.tokens = 0

    def ready_in(self, now: float, tokens: int | None = None) -> float | None:
        """Return the seconds until a call may be sent, with so many input tokens; 0.0 is now, None is never again in
        this session."""
        tokens = max(self._held_back if tokens is None else tokens, 1)
        hour_calls, hour_tokens, most_calls, most_tokens = self._caps.values()
        if self.calls >= most_calls or self.tokens + tokens > most_tokens or hour_calls < 1 or tokens > hour_tokens:
            return None
        self._hour = [spent for spent in self._hour if spent.at + HOUR > now]
        calls, used, wait = len(self._hour), sum(spent.tokens for spent in self._hour), 0.0
        for spent in self._hour:  # until enough of the oldest are more than an hour old
            if calls < hour_calls and used + tokens <= hour_tokens:
                break
            calls, used, wait = calls - 1, used - spent.tokens, spent.at + HOUR - now
        return wait

    def admit(self, now: float, tokens: int) -> Spent | None:
        """Count a call that is about to be sent, or None if it may not be."""
        if self.ready_in(now, tokens) != 0.0:
            self._held_back = tokens
            return None
        self._hour.append(spent := Spent(now, tokens))
        self._held_back = 0
        self.calls += 1
        self.tokens += tokens
        return spent

    def correct(self, spent: Spent, tokens: int) -> None:
        """Put what the provider reported in place of the estimate."""
        self.tokens += tokens - spent.tokens
        spent.tokens = tokens

    def newly_reached(self, now: float) -> list[tuple[str, float]]:
        """Return the caps, by setting, that calls have reached; each once."""
        hour = [spent.tokens for spent in self._hour if spent.at + HOUR > now]
        used = (len(hour), sum(hour) + self._held_back, self.calls, self.tokens + self._held_back)
        caps = zip(self._caps.items(), used, strict=True)
        new = [(name, cap) for (name, cap), have in caps if have >= cap and name not in self._warned]
        self._warned.update(name for name, _ in new)
        return new
