"""Marks an answer by its literals, where these leave no doubt; what they leave open is for the judge.

Pure. All needed words and no forbidden one: right. The reader says that it does not know: right where nothing was
said, wrong elsewhere. A forbidden word without the right one: wrong. Everything else is open.
"""

from __future__ import annotations

from typing import NamedTuple

from summarizing_context.evaluation.cases.model import Probe
from summarizing_context.evaluation.scoring.texts import Text, folded
from summarizing_context.evaluation.scoring.verdicts import judge as look_for

ABSTAINED = "the record does not say"

_AROUND = " .!\"'`*“”‘’"
_IN_ONE_LINE = ("constraint", "decision")


class Mark(NamedTuple):
    """What became of one answer."""

    right: bool
    by: str  # literals or judge
    why: str  # one short sentence
    abstained: bool = False


def mark_by_literals(probe: Probe, answer: str) -> Mark | None:
    """The mark that literals give; None where they leave it open."""
    if not answer.strip():
        return Mark(False, "literals", "gave no answer")
    if folded(answer).strip(_AROUND) == ABSTAINED:
        right = probe.kind == "abstention"
        return Mark(right, "literals", "abstains" if right else "abstains, but it was said", abstained=True)
    text = Text([" ".join(answer.split())]) if probe.kind in _IN_ONE_LINE else Text([answer])
    if probe.kind == "abstention":
        stale = [literal for literal in probe.forbid if text.holds(literal)]
        return Mark(False, "literals", f"says what was never said: {', '.join(stale[:3])}") if stale else None
    if not (probe.literals or probe.any_of):
        return None
    found = look_for(probe, text)
    if found.kept and not _forbidden(probe, text):
        return Mark(True, "literals", "says it")
    if _forbidden(probe, text) and not any(text.holds(literal) for literal in (*probe.literals, *probe.any_of)):
        return Mark(False, "literals", "says what must not be said, and nothing of what must")
    return None


def _forbidden(probe: Probe, text: Text) -> bool:
    """Whether a forbidden word stands there. One that stands beside the right one may be told as replaced: open."""
    return any(text.holds(literal) for literal in probe.forbid)
