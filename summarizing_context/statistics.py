"""The figures of a session since it was opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class CallFigures(Protocol):
    """What the calls to a model have come to; all zero where none is called."""

    @property
    def model_calls(self) -> int: ...

    @property
    def input_tokens(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...

    @property
    def cached_tokens(self) -> int: ...

    @property
    def refused_replies(self) -> int: ...

    @property
    def dropped_lines(self) -> int: ...

    @property
    def breaker(self) -> str: ...

    @property
    def last_error(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts, and tokens where the name says so."""

    messages: int
    history_tokens: int
    segments: int
    summaries_ready: int
    summaries_pending: int
    summaries_failed: int
    activations: int
    activations_by_reason: Mapping[str, int]
    model_calls: int  # attempts sent to a summarizer that is not extractive
    model_input_tokens: int
    model_cached_tokens: int  # of the input, what the provider read from its prompt cache
    model_output_tokens: int
    estimated_cost: float | None  # US dollars for these tokens; None where the model's price is not known
    stand_ins: int  # in the present header
    stand_ins_total: int
    refused_replies: int
    dropped_lines: int  # out of summaries, for they held literals that their source does not hold
    repairs: Mapping[str, int]  # by kind
    pins_left_out: int  # pinned messages for which the present view has no room
    rules_left_out: int  # standing rules and pinned texts, likewise
    elided_tokens: int  # left out of shrunk messages
    max_passes: int  # summarizations that the oldest fact of the present header went through
    breaker: str  # closed, open, half_open
    lag_tokens: int  # in closed segments without a summary of their own
    token_counter: str
    store: str
    last_error: str | None
