"""How probes are put to a model: which, of which arms, how often. Values, small enough for any process.

What came of a probe that was put to a reader: each replicate's answer and mark. Values that are JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import msgspec

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.cases.model import KINDS, Probe
from summarizing_context.evaluation.scoring.figures import Sum, Sums
from summarizing_context.messages.redaction import Redaction, load_redaction

ARMS = ("hierarchical", "masking", "tail", "everything", "evidence", "stored", "nothing")

Provider = Literal["openai", "anthropic"]

PROVIDERS = get_args(Provider)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One model, and how it is reached."""

    provider: Provider
    model: str
    base_url: str | None = None  # for recording only


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What is asked of the reader and of the judge."""

    reader: Chat
    judge: Chat
    replicates: int = 3  # answers to one question about one view
    arms: tuple[str, ...] = ARMS
    kinds: tuple[str, ...] = KINDS
    most: int | None = None  # probes of one cut; the kinds in turn
    concurrency: int = 8
    attempts: int = 3
    call_timeout: float = 60.0  # seconds

    def chosen(self, probes: Sequence[Probe]) -> list[Probe]:
        """The probes of one cut that are asked, in their order."""
        queues = {kind: [probe for probe in probes if probe.kind == kind] for kind in self.kinds}
        asked: list[Probe] = []
        while any(queues.values()) and (self.most is None or len(asked) < self.most):
            for queue in queues.values():
                if queue and (self.most is None or len(asked) < self.most):
                    asked.append(queue.pop(0))
        wanted = {probe.id for probe in asked}
        return [probe for probe in probes if probe.id in wanted]


@dataclass(frozen=True, slots=True)
class Tape:
    """Where the replies of a run are kept, and who else speaks through it."""

    path: Path
    asking: Asking | None = None  # None where a model only summarizes
    redact: str | None = None  # module:function, of what is taken out of messages before anything of them is kept

    def redaction(self) -> Redaction | None:
        """The function that `redact` names. Raises `SettingsError`."""
        return load_redaction(self.redact) if self.redact is not None else None


def check_asking(asking: Asking, known_arms: Sequence[str]) -> Asking:
    """The plan as it is, or `SettingsError` with all that is wrong."""
    problems = [_strange(arm, "arm", known_arms) for arm in asking.arms if arm not in known_arms]
    problems += [_strange(kind, "kind of question", KINDS) for kind in asking.kinds if kind not in KINDS]
    if asking.replicates < 1 or (asking.most is not None and asking.most < 1):
        problems.append("replicates and probes are at least 1")
    if problems:
        raise SettingsError(problems)
    return asking


def _strange(name: str, what: str, known: Sequence[str]) -> str:
    return f"{name!r} is no {what}; there are {', '.join(known)}"


class AnswerOutcome(msgspec.Struct, frozen=True):
    """One answer."""

    words: str
    right: bool
    by: str  # literals or judge
    why: str
    abstained: bool = False


def is_right(answers: Sequence[AnswerOutcome]) -> bool:
    """Whether a probe is passed: every replicate is right. A disagreement is no pass."""
    return bool(answers) and all(answer.right for answer in answers)


def agrees(answers: Sequence[AnswerOutcome]) -> bool:
    """Whether all replicates came to the same end."""
    return len({answer.right for answer in answers}) <= 1


def misleads(answers: Sequence[AnswerOutcome]) -> bool:
    """Whether any replicate says something wrong rather than that it does not know."""
    return any(not answer.right and not answer.abstained for answer in answers)


def answer_sums(answered: Sequence[Sequence[AnswerOutcome]]) -> Sums:
    """The figures of one arm at one cut."""
    count = len(answered)
    return {
        "answered": Sum(sum(map(is_right, answered)), count),
        "misled": Sum(sum(map(misleads, answered)), count),
        "agreement": Sum(sum(map(agrees, answered)), count),
    }
