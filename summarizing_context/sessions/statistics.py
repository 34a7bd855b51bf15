"""The figures of a session: its budget, and counts since it was opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BudgetReport:
    """Tokens of the budget that the last request had, and how many of them the view takes as it stands.

    A log that has outgrown the budget takes all of it, until the next view compacts.
    """

    max_tokens: int
    used_tokens: int
    percent_used: float  # from 0 to 1


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts, and tokens where the name says so; since the session was opened, unless a line says `present`.

    Tokens of a model are those of calls that got a reply, also one that was refused: as the provider reported them,
    else estimated. A call that failed counts as a call, also for the caps on calls, and costs no tokens.
    """

    messages: int  # in the present log
    history_tokens: int  # of the present log
    segments: int  # closed ones of the present log
    summaries_ready: int  # present segments with a summary of their own
    summaries_pending: int  # at present: still to be made
    summaries_failed: int  # times that one was given up, to be tried again later; by earlier processes too
    activations: int
    activations_by_reason: Mapping[str, int]
    model_calls: int  # attempts sent to a summarizer that is not extractive, those that failed too
    model_input_tokens: int
    model_cached_tokens: int  # of the input, what the provider read from its prompt cache
    model_output_tokens: int
    estimated_cost: float | None  # US dollars for these tokens; None where the model's price is not known
    stand_ins: int  # in the present header
    stand_ins_total: int  # that views have shown
    refused_replies: int  # that came and could not serve; most are asked for once more
    refused_input_tokens: int  # of the model's input, what calls for refused replies took
    refused_output_tokens: int  # of its output, what refused replies took
    dropped_lines: int  # and clauses, out of summaries, for they held literals that their source does not hold
    memories_dropped: int  # that a model proposed, for the message that they name does not say so
    repairs: Mapping[str, int]  # by kind
    pins_left_out: int  # pinned, critical and system messages that the present view has no room to show whole
    rules_left_out: int  # standing rules and pinned texts for which it has no room
    elided_tokens: int  # left out of shrunk messages
    max_passes: int  # summarizations that the oldest fact of the present header went through
    breaker: str  # at present: closed, open, half_open
    cap_reached: bool  # at present: no model is called
    cap_ends_in: float | None  # seconds until an hourly cap lets a call through; None for one of the session, or none
    lag_tokens: int  # in present segments without a summary of their own
    least_useful_budget: int  # what system rows and tools of the last request take, and 4,000 tokens
    token_counter: str  # its name
    store: str  # path of the file, or :memory:
    last_error: str | None  # of a call, else of the background work, else of an activation; without message text
    last_error_at: str | None = None  # when making summaries failed last, also in an earlier process; ISO 8601, UTC
