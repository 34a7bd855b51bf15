"""Stops the calls to a summarizer that keeps failing, and lets one call find out when it works again.

Pure: the time is passed in. What counts as a failure, and who asks before calling, is the caller's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BreakerState = Literal["closed", "open", "half_open"]

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

    def failed(self, ticket: Ticket, now: float, retry_after: float = 0.0) -> None:
        self._quiet_until = max(self._quiet_until, now + retry_after)
        if ticket.epoch != self._epoch:
            return
        self._failures += 1
        if self._tripped or self._failures >= self._failures_allowed:
            self._open(now)

    def abandoned(self, ticket: Ticket) -> None:
        """The call was cancelled from outside: it proves nothing, and the next probe may go."""
        if self._probe is ticket:
            self._probe = None

    def _open(self, now: float) -> None:
        self._tripped, self._probe, self._failures = True, None, 0
        self._epoch += 1
        self._quiet_until = max(self._quiet_until, now + self._cooldown)
