"""The moment of an activation: where a piece of work ends, and what it costs to activate there rather than later.

Pure. Ends are read off what has come since the newest step of the agent, and never searched for in the past.
"""

from __future__ import annotations

from summarizing_context.log.ledger import SessionLedger
from summarizing_context.log.message_log import MessageLog

BAND = 0.5  # of the high water, from which on an activation may come at an end
CACHED = 0.1  # price of a token that is read from a prompt cache, over an uncached one; providers ask about that
WAITED = 1.2  # times the usual distance of ends up to the high water: with more, another is waited for
TOLERATED = 0.3  # of what an activation costs, that one at an end may cost more


def is_natural_end(log: MessageLog, ledger: SessionLedger | None) -> bool:
    """Return whether the newest messages end a piece of work: a person asks for something, the last item of a plan is
    done, a commit was made, or tests pass that have failed."""
    if not log.steps:
        return False
    step = log.steps[-1]
    if (log.humans and log.humans[-1] > step) or log.kept_texts.done_at >= step:
        return True
    if ledger is not None:
        ledger.current(20_000)  # tokens that it may read now; more is read ahead in the background
    return ledger is not None and ledger.end >= step


def is_last_chance(log: MessageLog, ledger: SessionLedger | None, more: float) -> bool:
    """Return whether it is doubtful that another end comes within so many tokens, as often as they came so far."""
    ends = len(log.humans) + log.kept_texts.done + (0 if ledger is None else ledger.ends)
    return more * ends <= WAITED * log.history_tokens


def pays(log: MessageLog, *, before: int, after: int, high: float) -> bool:
    """Return whether an activation now is expected to cost little more than one at the high water.

    It reads the new view uncached. One at the high water does that later: so much sooner, such a share of a round from
    `after` to `high` is lost, and all of it where the session ends before. One that was so long goes on for so much
    with the chance long / (long + more). What it saves is that requests until then read a smaller view from the cache.
    """
    more = max(0.0, high - before)
    ends = more / (log.history_tokens + more)
    lost = after * (ends + (1 - ends) * more / max(1.0, high - after))
    requests = more * len(log.steps) / max(1, log.history_tokens)
    saved = CACHED * (before - after) * requests * (1 - ends / 2)
    return lost - saved <= TOLERATED * after
