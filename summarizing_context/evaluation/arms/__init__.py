"""Arms: the strategies, baselines and references that evals compare, by name.

`views` defines the view of an arm, `strategies` and `baselines` build it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from summarizing_context.settings.values import Settings

Role = Literal["strategy", "baseline", "reference"]
REFERENCE = "hierarchical"  # its view sets the tokens of all others


@dataclass(frozen=True, slots=True)
class Arm:
    """One row of the table."""

    name: str
    role: Role
    about: str
    strategy: str = ""  # the setting, for strategies
    changed: tuple[tuple[str, Any], ...] = ()  # other settings that it differs in

    def settings(self, given: Settings) -> Settings:
        """The settings of its context."""
        return replace(given, strategy=self.strategy, **dict(self.changed))


ARMS = (
    Arm("hierarchical", "strategy", "segment summaries rolled up in a tree, and the ledger", "hierarchical"),
    Arm(
        "no-ledger", "strategy", "as hierarchical, without the ledger", "hierarchical", changed=(("ledger_share", 0.0),)
    ),
    Arm("flat", "strategy", "segment summaries one after the other, the oldest dropped", "summarize"),
    Arm("importance", "strategy", "messages chosen by importance", "importance"),
    Arm("truncation", "strategy", "first request, then only the newest messages", "truncate"),
    Arm("tail", "baseline", "only the newest messages"),
    Arm("masking", "baseline", "old tool results taken out, words and calls kept"),
    Arm("head", "baseline", "as hierarchical, all summaries replaced by the beginning of what they cover"),
    Arm("heads", "baseline", "as hierarchical, each summary replaced by the beginning of its source"),
    Arm("random", "baseline", "as hierarchical, each summary replaced by random sentences of its source"),
    Arm("everything", "reference", "the whole past, at whatever cost"),
    Arm("evidence", "reference", "only the lines in which the answers stand"),
    Arm("nothing", "reference", "the system rows and the newest message"),
)


EQUAL_ARMS = tuple(arm for arm in ARMS if arm.role != "reference")  # compared at equal tokens
