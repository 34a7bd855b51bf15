"""Planting facts in a session, and the probes that follow from where they came to stand.

A fact is planted about every other turn, the kinds in turn; what replaces or follows it comes some turns later.
Probes whose words stand in the newest part of a view, or again somewhere by chance, are not asked.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from summarizing_context.evaluation.cases.generator.domains import Domain, Fact
from summarizing_context.evaluation.cases.generator.slots import Slots
from summarizing_context.evaluation.cases.model import KEPT_SHARE, Case, Cut, Probe
from summarizing_context.evaluation.cases.reading import kept_from, read_session, tokens_before
from summarizing_context.evaluation.scoring.texts import Text
from summarizing_context.evaluation.scoring.verdicts import judge

_LATER = (2, 9)  # turns until a fact is replaced or goes on
_RULES_UNTIL = 0.6  # of a session: constraints come early

Who = Literal["user", "assistant", "tool"]


@dataclass(slots=True)
class Planted:
    """One saying of a fact, as it stands in the session."""

    fact: Fact
    number: int  # of the fact in the session
    part: int  # 0 the fact itself, 1 and on what follows
    text: str
    literals: tuple[str, ...]
    who: Who
    depth: float = 0.5
    at: int = -1  # message


@dataclass(slots=True)
class Planting:
    """What is planted in one turn."""

    facts: list[Planted] = field(default_factory=list)

    @property
    def by_user(self) -> list[Planted]:
        return [fact for fact in self.facts if fact.who == "user" and fact.text]

    @property
    def by_assistant(self) -> list[Planted]:
        return [fact for fact in self.facts if fact.who == "assistant"]

    @property
    def by_tool(self) -> list[Planted]:
        return [fact for fact in self.facts if fact.who == "tool"]

    def stand_at(self, who: Who, message: int) -> None:
        """All that `who` says in this turn stands in this message."""
        for fact in self.facts:
            if fact.who == who:
                fact.at = message

    def stand(self, fact: Planted, message: int) -> None:
        fact.at = message


class Planter:
    """Decides what is planted in each turn."""

    def __init__(self, domain: Domain, slots: Slots, dice: random.Random) -> None:
        self.planted: list[Planted] = []
        self._slots, self._dice = slots, dice
        self._rules = [fact for fact in domain.facts if fact.kind == "constraint"]
        self._others = [fact for fact in domain.facts if fact.kind != "constraint"]
        self._waiting: dict[int, list[Planted]] = {}  # by turn
        self._queue: list[Fact] = []
        self._scopes: dict[str, list[str]] = {}  # by question: for whom a fact may be told again
        self._all_scopes = ("", *domain.pools["scope"])
        self._count = 0

    def plan(self, turn: int, done: float) -> Planting:
        """What to plant in this turn, `done` being the share of the session that is written."""
        planting = Planting(self._waiting.pop(turn, []))
        if self._rules and (turn == 0 or (done < _RULES_UNTIL and self._dice.random() < 0.2)):
            planting.facts += self._plant(self._rules.pop(self._dice.randrange(len(self._rules))), turn)
        if turn > 0 and self._dice.random() < 0.75:
            if not self._queue:
                self._queue = self._dice.sample(self._others, len(self._others))
            if (fact := self._scoped(self._queue.pop())) is not None:
                planting.facts += self._plant(fact, turn)
        self.planted += planting.facts
        return planting

    def _scoped(self, fact: Fact) -> Fact | None:
        """The fact as it is; told again, for somebody else, so that no two of a session contradict each other."""
        left = self._scopes.setdefault(fact.ask, list(reversed(self._all_scopes)))
        if not left or (fact.kind == "abstention" and len(left) < len(self._all_scopes)):
            return None
        if not (scope := left.pop()):
            return fact
        return replace(
            fact,
            ask=f"For {scope}: {fact.ask}",
            says=fact.says and f"For {scope}: {fact.says}",
            then=fact.then and f"For {scope}: {fact.then}",
            steps=tuple(f"For {scope}: {step}" for step in fact.steps),
        )

    def _plant(self, fact: Fact, turn: int) -> list[Planted]:
        """What is said now; what is to be said later waits."""
        number, values = self._count, self._values(fact)
        self._count += 1
        if fact.kind == "abstention":
            never = tuple(self._slots.fill(text, values).text for text in fact.forbid)
            return [Planted(replace(fact, forbid=never), number, 0, "", (), "user")]
        parts = fact.steps or ((fact.says, fact.then) if fact.then else (fact.says,))
        asked = replace(fact, ask=self._slots.fill(fact.ask, values).text)
        said = []
        for part, template in enumerate(parts):
            filled = self._slots.fill(template, values)
            said.append(
                Planted(asked, number, part, filled.text, filled.literals, fact.who, round(self._dice.random(), 2))
            )
        due = turn
        for later in said[1:]:
            due += self._dice.randrange(*_LATER)
            self._waiting.setdefault(due, []).append(later)
        return said[:1]

    def _values(self, fact: Fact) -> dict[str, str]:
        """One value for each slot of all parts, so that what comes later speaks of the same things."""
        values: dict[str, str] = {}
        self._slots.note(" ".join((fact.ask, fact.says, fact.then, *fact.steps, *fact.forbid)), values)
        return values


def probes_of(case: Case, planted: Sequence[Planted]) -> Case:
    """The case with all probes that its planted facts allow."""
    probes: list[Probe] = []
    reads = read_session(case.messages)
    sums = tokens_before(reads)
    texts = [Text(read.texts) for read in reads]
    for cut in case.cuts:
        start = kept_from(sums, cut.at, KEPT_SHARE * cut.budget)
        tail = Text(text for read in reads[start : cut.at] for text in read.texts)
        past = Text(text for read in reads[: cut.at] for text in read.texts)
        for number in sorted({fact.number for fact in planted}):
            said = [fact for fact in planted if fact.number == number and fact.at < cut.at and _is_said(fact)]
            if said and (probe := _probe(said, cut)) and _is_fair(probe, tail, past):
                probes.append(replace(probe, evidence=_evidence(probe, said, texts)))
    return replace(case, probes=tuple(probes))


def _is_said(fact: Planted) -> bool:
    return fact.at >= 0


def _probe(said: Sequence[Planted], cut: Cut) -> Probe | None:
    """The question about a fact as far as it has been told before the cut."""
    first, last = said[0], max(said, key=lambda fact: fact.part)
    fact = first.fact
    if fact.kind == "ordering" and len(said) < len(fact.steps):
        return None
    base = Probe(id=f"{fact.kind}-{first.number}-{cut.at}", kind=fact.kind, cut=cut.at, question=fact.ask)
    if fact.kind == "abstention":
        return replace(base, forbid=fact.forbid)
    if fact.kind == "ordering":
        ordered = sorted(said, key=lambda step: step.part)
        return replace(base, literals=tuple(step.literals[0] for step in ordered))
    if fact.kind == "supersession":
        if last.part == 0:  # not changed yet
            return replace(base, kind="recall", literals=last.literals)
        return replace(base, literals=last.literals, forbid=first.literals)
    literals = tuple(sorted(first.literals, key=len, reverse=True))
    return replace(base, literals=literals, depth=first.depth if fact.kind == "needle" else None)


def _is_fair(probe: Probe, tail: Text, past: Text) -> bool:
    """Whether the whole past answers it, and the part that every view shows does not."""
    if not judge(probe, past).kept:
        return False
    if probe.kind in ("constraint", "decision"):
        return tail.line_with_all(probe.literals) is None
    return not any(tail.holds(literal) for literal in (*probe.literals, *probe.forbid))


def _evidence(probe: Probe, said: Sequence[Planted], texts: Sequence[Text]) -> tuple[int, ...]:
    """The messages in which the answer was planted."""
    places = sorted({fact.at for fact in said if any(texts[fact.at].holds(literal) for literal in probe.literals)})
    return tuple(places)
