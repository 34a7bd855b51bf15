"""The limits under which a summarizer is called, and the figures kept about it.

Values only. Checking what a user wrote is `settings`' work; keeping to the limits is `resilient`'s.
"""

from __future__ import annotations

from dataclasses import dataclass

from summarizing_context.summarizers.breaker import BreakerState


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
    max_reply_chars: int = 200_000


@dataclass(frozen=True, slots=True)
class ResilientStatistics:
    """What calling the summarizer has come to, since it was made."""

    model_calls: int  # attempts sent, those that failed too
    input_tokens: int  # of attempts that got a reply or are under way; as the provider reported them, else estimated
    output_tokens: int
    refused_replies: int
    failed_jobs: int  # given up after at least one call
    breaker: BreakerState
    last_error: str | None  # one short line without message text
    cached_tokens: int = 0  # of the input, what the provider read from its prompt cache
    dropped_lines: int = 0  # out of summaries, for they held literals that the source does not hold
