"""Facts planted in a generated session, the probes about them, and the domains that they come from.

A template's `{city}` is a value of the pool `city`, and `{city2}` a second one. `[[words]]` marks the words of an
answer, `<<id>>` an id for later use. About every second turn plants a fact. A probe is dropped when its answer also
stands in the newest part of a view, or elsewhere by chance.
"""

from __future__ import annotations

import random
import re
import string
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

import msgspec

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.cases.model import (
    Case,
    Cut,
    Kind,
    Probe,
    read_session,
    tail_start,
)
from summarizing_context.evaluation.cases.verdicts import Text, judge, text_of

_SLOT = re.compile(r"\{([a-z_]+)(\d*)\}")

_MARKED = re.compile(r"\[\[(.*?)\]\]")

_ID = re.compile(r"<<(.*?)>>")


class Filled(NamedTuple):
    """A template filled in."""

    text: str
    literals: tuple[str, ...]  # what stood in double brackets
    ids: tuple[str, ...]  # what stood in double angles


class Slots:
    """Values for slots, from pools and seeded dice."""

    def __init__(self, rng: random.Random, pools: Mapping[str, Sequence[str]]) -> None:
        self._rng = rng
        self._pools = pools

    def fill(self, template: str, known: Mapping[str, str] | None = None) -> Filled:
        """The template with a value in each slot; equal slots get equal values, those of `known` first."""
        values = dict(known or {})
        text = _SLOT.sub(lambda slot: self._value(slot, values), template)
        marked = _ID.sub(r"\1", text)
        return Filled(_MARKED.sub(r"\1", marked), tuple(_MARKED.findall(marked)), tuple(_ID.findall(text)))

    def note(self, template: str, values: dict[str, str]) -> None:
        """Choose a value for each slot of the template that has none yet."""
        for slot in _SLOT.finditer(template):
            self._value(slot, values)

    def _value(self, slot: re.Match[str], values: dict[str, str]) -> str:
        name = slot[0][1:-1]
        if name not in values:
            taken = {value for key, value in values.items() if key.startswith(slot[1])}
            values[name] = next(value for value in iter(lambda: self._make(slot[1]), None) if value not in taken)
        return values[name]

    def _make(self, kind: str) -> str:
        if kind in self._pools:
            return self.fill(self._rng.choice(self._pools[kind])).text
        if kind not in _MADE:
            raise KeyError(f"the slot {kind!r} has no pool and is not made up")
        return _MADE[kind](self._rng)


def _number(low: int, high: int) -> Callable[[random.Random], str]:
    return lambda rng: str(rng.randrange(low, high))


def _letters(alphabet: str, count: int) -> Callable[[random.Random], str]:
    return lambda rng: "".join(rng.choice(alphabet) for _ in range(count))


def _amount(rng: random.Random) -> str:
    return f"{rng.randrange(11, 9_900)}.{rng.choice(('00', '50', '90', '25', '75'))}"


_MADE: dict[str, Callable[[random.Random], str]] = {
    "digit": _number(2, 10),
    "few": _number(3, 40),
    "some": _number(41, 900),
    "many": _number(1_000, 99_000),
    "ms": _number(2, 2_400),
    "percent": lambda rng: f"{rng.randrange(1, 99)}.{rng.randrange(10)}",
    "amount": _amount,
    "hex": _letters("0123456789abcdef", 8),
    "code": lambda rng: f"{_letters(string.ascii_uppercase, 2)(rng)}-{rng.randrange(1_000, 10_000)}",
    "time": lambda rng: f"{rng.randrange(24):02}:{rng.randrange(0, 60, 5):02}",
    "clock": lambda rng: f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}",
    "date": lambda rng: f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
    "later": lambda rng: f"2027-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
    "port": _number(3_000, 9_999),
}

_FOLDER = "summarizing_context.evaluation.cases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that the agent of this domain has."""

    name: str
    args: Mapping[str, str]  # templates; `{ref}` is an id seen before, `{file}` a file worked on before
    row: tuple[str, ...]  # templates of the lines that it answers
    rows: tuple[int, int] = (6, 30)
    head: str = ""
    say: str = ""  # what the agent says when it calls it
    does: Literal["look", "create", "edit", "delete", "act"] = "look"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that is planted in a session and asked for later."""

    kind: Kind
    ask: str
    says: str = ""  # by whom: `who`
    then: str = ""  # supersession: what replaces it later
    steps: tuple[str, ...] = ()  # ordering: what happens one after the other
    forbid: tuple[str, ...] = ()  # abstention: what is never said
    who: Literal["user", "assistant", "tool"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Everything that a session of one domain is written from."""

    name: str
    system: str
    opening: tuple[str, ...]
    asks: tuple[str, ...]
    closings: tuple[str, ...]
    tools: tuple[Tool, ...]
    facts: tuple[Fact, ...]
    pools: Mapping[str, tuple[str, ...]]


def domain_names() -> list[str]:
    """The names of all domains, sorted."""
    return sorted(file.name.removesuffix(".toml") for file in (files(_FOLDER) / "domains").iterdir())


@cache
def load_domain(name: str) -> Domain:
    """One domain; `SettingsError` if there is none of this name."""
    if name not in domain_names():
        raise SettingsError(f"there is no domain {name!r}; the domains are {', '.join(domain_names())}")
    found = tomllib.loads((files(_FOLDER) / "domains" / f"{name}.toml").read_text(encoding="utf8"))
    return msgspec.convert({**found, "name": name, "tools": found["tool"], "facts": found["fact"]}, Domain)


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

    def __init__(self, domain: Domain, slots: Slots, rng: random.Random) -> None:
        self.planted: list[Planted] = []
        self._slots, self._rng = slots, rng
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
        if self._rules and (turn == 0 or (done < _RULES_UNTIL and self._rng.random() < 0.2)):
            planting.facts += self._plant(self._rules.pop(self._rng.randrange(len(self._rules))), turn)
        if turn > 0 and self._rng.random() < 0.75:
            if not self._queue:
                self._queue = self._rng.sample(self._others, len(self._others))
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
        filled_fact = replace(fact, ask=self._slots.fill(fact.ask, values).text)
        planted = []
        for part, template in enumerate(parts):
            filled = self._slots.fill(template, values)
            planted.append(
                Planted(filled_fact, number, part, filled.text, filled.literals, fact.who, round(self._rng.random(), 2))
            )
        due = turn
        for later in planted[1:]:
            due += self._rng.randrange(*_LATER)
            self._waiting.setdefault(due, []).append(later)
        return planted[:1]

    def _values(self, fact: Fact) -> dict[str, str]:
        """One value for each slot of all parts, so that what comes later speaks of the same things."""
        values: dict[str, str] = {}
        self._slots.note(" ".join((fact.ask, fact.says, fact.then, *fact.steps, *fact.forbid)), values)
        return values


def probes_of(case: Case, planted: Sequence[Planted]) -> Case:
    """The case with all probes that its planted facts allow."""
    probes: list[Probe] = []
    reads = read_session(case.messages)
    texts = [Text(read.texts) for read in reads]
    for cut in case.cuts:
        tail = text_of(reads[tail_start(reads, cut) : cut.at])
        past = text_of(reads[: cut.at])
        for number in sorted({fact.number for fact in planted}):
            stated = [fact for fact in planted if fact.number == number and fact.at < cut.at and _is_said(fact)]
            if stated and (probe := _probe(stated, cut)) and _is_fair(probe, tail, past):
                probes.append(replace(probe, evidence=_evidence(probe, stated, texts)))
    return replace(case, probes=tuple(probes))


def _is_said(fact: Planted) -> bool:
    return fact.at >= 0


def _probe(stated: Sequence[Planted], cut: Cut) -> Probe | None:
    """The question about a fact as far as it has been told before the cut."""
    first, last = stated[0], max(stated, key=lambda fact: fact.part)
    fact = first.fact
    if fact.kind == "ordering" and len(stated) < len(fact.steps):
        return None
    base = Probe(id=f"{fact.kind}-{first.number}-{cut.at}", kind=fact.kind, cut=cut.at, question=fact.ask)
    if fact.kind == "abstention":
        return replace(base, forbid=fact.forbid)
    if fact.kind == "ordering":
        ordered = sorted(stated, key=lambda step: step.part)
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


def _evidence(probe: Probe, stated: Sequence[Planted], texts: Sequence[Text]) -> tuple[int, ...]:
    """The messages in which the answer was planted."""
    places = sorted({fact.at for fact in stated if any(texts[fact.at].holds(literal) for literal in probe.literals)})
    return tuple(places)
