"""The limits of a summarizer: caps on calls and tokens, and a circuit breaker."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from summarizing_context.summarizers.base import BreakerState

PROBE_CHECK = 1.0  # seconds after which to ask again while a probe is under way


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """One call under way. `epoch` is the number of times that the breaker had opened when the call began."""

    epoch: int


class Breaker:
    """Closed, until `failures` calls in a row fail; then open for `cooldown` seconds; then half-open.

    Half-open lets one probe through at a time: its success closes the breaker, its failure opens it again.
    Only the probe decides. The outcome of a call that began before the breaker opened says nothing about calls
    that begin now, so a late success does not close it and a late failure does not count; its reply is good all
    the same. A failure's `retry_after` is honoured in every state: no job may start before it has passed.
    """

    def __init__(self, *, failures: int, cooldown: float) -> None:
        self._failures_allowed = failures
        self._cooldown = cooldown
        self._failures = 0
        self._epoch = 0
        self._tripped = False
        self._probe: Ticket | None = None
        self._quiet_until = float("-inf")

    @property
    def tripped(self) -> bool:
        """Whether it has opened and no probe has closed it since."""
        return self._tripped

    def state(self, now: float) -> BreakerState:
        """`open` also while a single `retry_after` is waited for: no job may start."""
        if now < self._quiet_until:
            return "open"
        return "half_open" if self._tripped else "closed"

    def ready_in(self, now: float) -> float:
        """Seconds until a job may start; 0.0 is now."""
        if now < self._quiet_until:
            return self._quiet_until - now
        return 0.0 if self._probe is None else PROBE_CHECK

    def begin(self, now: float) -> Ticket | None:
        """Let a call through, or None. Every ticket ends in `succeeded`, `failed` or `abandoned`.

        A closed breaker lets the next attempt of a started job through: that job has waited for its own
        `retry_after`, and need not wait for those that other jobs have met since.
        """
        if self._tripped and (now < self._quiet_until or self._probe is not None):
            return None
        ticket = Ticket(self._epoch)
        if self._tripped:
            self._probe = ticket
        return ticket

    def succeeded(self, ticket: Ticket) -> None:
        if ticket.epoch != self._epoch:
            return
        self._failures, self._tripped, self._probe = 0, False, None

    def failed(self, ticket: Ticket, now: float, retry_after: float = 0.0, *, at_once: bool = False) -> bool:
        """Note a failed call; `at_once` opens a closed breaker without waiting for more. Return whether a closed
        breaker has opened."""
        self._quiet_until = max(self._quiet_until, now + retry_after)
        if ticket.epoch != self._epoch:
            return False
        self._failures += 1
        was_closed = not self._tripped
        if self._tripped or at_once or self._failures >= self._failures_allowed:
            self._open(now)
        return was_closed and self._tripped

    def abandoned(self, ticket: Ticket) -> None:
        """The call was cancelled from outside: it proves nothing, and the next probe may go."""
        if self._probe is ticket:
            self._probe = None

    def _open(self, now: float) -> None:
        self._tripped, self._probe, self._failures = True, None, 0
        self._epoch += 1
        self._quiet_until = max(self._quiet_until, now + self._cooldown)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long, how often and how much. None means without a limit."""

    call_timeout: float = 60.0  # seconds
    job_timeout: float = 180.0  # seconds, all calls and waits of one job
    attempts: int = 3  # calls for one job
    breaker_failures: int = 4  # failed calls in a row that open the breaker
    breaker_cooldown: float = 30.0  # seconds
    max_calls_per_hour: int | None = None
    max_input_tokens_per_hour: int | None = None
    max_calls_per_session: int | None = None
    max_input_tokens_per_session: int | None = None


HOUR = 3600.0  # seconds

WARN_AT = 0.8  # share of a cap


@dataclass(slots=True, eq=False)
class Spent:
    """One call that was let through."""

    at: float
    tokens: int  # input tokens: the estimate, then what the provider reported
    in_hour: bool  # counted in the sliding hour


@dataclass(frozen=True, slots=True)
class CapWarning:
    """A cap of which more than `WARN_AT` is used, or all."""

    name: str  # of the setting
    used: int
    cap: int

    @property
    def is_reached(self) -> bool:
        return self.used >= self.cap


class Caps:
    """Hard caps: a call that would exceed one is not let through.

    A call that was held back for its size keeps its place: until it would fit, or a call is let through,
    `ready_in` speaks for it, so that a caller who obeys `ready_in` is not turned away again and again. A call
    that can never fit ends the calls of this session.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._hourly = limits.max_calls_per_hour is not None or limits.max_input_tokens_per_hour is not None
        self._hour: deque[Spent] = deque()  # oldest first
        self._hour_tokens = 0
        self._held_back = 0  # input tokens of the call that found no room
        self._warned: set[tuple[str, bool]] = set()
        self.calls = 0
        self.tokens = 0

    def ready_in(self, now: float) -> float | None:
        """Seconds until a call may be sent; 0.0 is now, None is never again in this session."""
        return self.room_in(now, self._held_back)

    def room_in(self, now: float, tokens: int) -> float | None:
        """Seconds until a call with so many input tokens fits; None is never."""
        tokens = max(tokens, 1)
        limits = self._limits
        if _exceeds(self.calls + 1, limits.max_calls_per_session):
            return None
        if _exceeds(self.tokens + tokens, limits.max_input_tokens_per_session):
            return None
        if _exceeds(1, limits.max_calls_per_hour) or _exceeds(tokens, limits.max_input_tokens_per_hour):
            return None
        return self._hour_room_in(now, tokens)

    def admit(self, now: float, tokens: int) -> Spent | None:
        """Count a call that is about to be sent, or None if it may not be."""
        if self.room_in(now, tokens) != 0.0:
            self._held_back = tokens
            return None
        spent = Spent(now, tokens, self._hourly)
        if self._hourly:
            self._hour.append(spent)
            self._hour_tokens += tokens
        self._held_back = 0
        self.calls += 1
        self.tokens += tokens
        return spent

    def correct(self, spent: Spent, tokens: int) -> None:
        """Put what the provider reported in place of the estimate."""
        change = tokens - spent.tokens
        spent.tokens = tokens
        self.tokens += change
        if spent.in_hour:
            self._hour_tokens += change

    def new_warnings(self, now: float) -> list[CapWarning]:
        """The caps that calls have come near, or reached, since the last time; each is named once for either."""
        self._forget_before(now)
        limits = self._limits
        uses = (
            ("max_calls_per_hour", len(self._hour), limits.max_calls_per_hour),
            ("max_input_tokens_per_hour", self._hour_tokens + self._held_back, limits.max_input_tokens_per_hour),
            ("max_calls_per_session", self.calls, limits.max_calls_per_session),
            ("max_input_tokens_per_session", self.tokens + self._held_back, limits.max_input_tokens_per_session),
        )
        near = [CapWarning(name, used, cap) for name, used, cap in uses if cap is not None and used >= WARN_AT * cap]
        new = [warning for warning in near if (warning.name, warning.is_reached) not in self._warned]
        self._warned.update((warning.name, warning.is_reached) for warning in new)
        return new

    def _hour_room_in(self, now: float, tokens: int) -> float:
        """Seconds until enough of the oldest calls are more than an hour old."""
        self._forget_before(now)
        limits = self._limits
        calls, used, wait = len(self._hour), self._hour_tokens, 0.0
        for spent in self._hour:
            if not _exceeds(calls + 1, limits.max_calls_per_hour) and not _exceeds(
                used + tokens, limits.max_input_tokens_per_hour
            ):
                break
            calls, used, wait = calls - 1, used - spent.tokens, spent.at + HOUR - now
        return wait

    def _forget_before(self, now: float) -> None:
        while self._hour and self._hour[0].at + HOUR <= now:
            spent = self._hour.popleft()
            spent.in_hour = False
            self._hour_tokens -= spent.tokens


def _exceeds(used: int, cap: int | None) -> bool:
    return cap is not None and used > cap
