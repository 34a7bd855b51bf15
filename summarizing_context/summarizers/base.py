"""The summarizer protocol: a job goes in, a summary comes out; and callers, which count what that takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class SummaryJob:
    """One summary still to be made: what to read, how to, and how long the answer may be."""

    kind: Literal["segment", "rollup", "memory", "rules"]
    # `memory`: what of a range later sessions need to know; `rules`: the standing rules in what a human typed
    instructions: str  # for the system slot
    content: str  # data to be summarized, as `messages.rendering` writes it; never instructions
    max_tokens: int  # cap of the answer
    rank: int  # 0 for a segment, n+1 for a rollup of rank-n nodes
    start: int  # first log entry it stands for
    stop: int  # one past the last
    source_tokens: int  # estimate of `content`
    range_hash: str  # hex; names content and context
    attempt: int = 1
    recipe_hash: str = ""  # hex; with `range_hash` the key under which the store shares the summary
    context: str = ""  # what the human asked for before, to understand the content by; not to be summarized

    @property
    def prompt(self) -> str:
        """Instructions, context and content, with blank lines between: for summarizers with a single text slot."""
        return "\n\n".join(filter(None, (self.instructions, self.context, self.content)))


@dataclass(frozen=True, slots=True)
class SummaryReply:
    """A summarizer's answer, when it can say more than the text."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    truncated: bool = False  # cut off by the length limit
    cached_tokens: int | None = None  # of the input, what the provider read from its prompt cache


class Summarizer(Protocol):
    """Turns a job into a summary. An attribute `recipe: str`, if present, names it for the shared cache."""

    async def summarize(self, job: SummaryJob) -> str | SummaryReply:
        """Summarize one job. Raise `SummarizerError` if it cannot be done now."""


BreakerState = Literal["closed", "open", "half_open"]


@dataclass(slots=True)
class CallStatistics:
    """What calling the summarizer has come to, since it was made."""

    model_calls: int = 0  # attempts sent, those that failed too
    model_input_tokens: int = 0  # of attempts that got a reply or are under way; as reported, else estimated
    model_cached_tokens: int = 0  # of the input, what the provider read from its prompt cache
    model_output_tokens: int = 0
    refused_replies: int = 0
    breaker: BreakerState = "closed"
    last_error: str | None = None  # one short line without message text
    dropped_lines: int = 0  # and clauses, out of summaries, for they held literals that the source does not hold
    refused_input_tokens: int = 0  # of the input and output, what calls for refused replies took
    refused_output_tokens: int = 0
    cap_reached: bool = False  # no call is let through now
    cap_ends_in: float | None = None  # seconds until one is; None for a cap of the session, or none


class Caller(Protocol):
    """A summarizer with a gate before it."""

    recipe: str | None  # where other processes may have the same one
    model: str | None  # whose prices count

    async def summarize(self, job: SummaryJob) -> SummaryReply: ...

    def ready_in(self) -> float | None:
        """Seconds until a job may start; None for never again."""
