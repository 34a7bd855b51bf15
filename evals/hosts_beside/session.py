"""The session that every arm plays: an engineer's turns, with facts said on lines of their own. Pure, by seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from evals.hosts_beside.rows import Call, Row, tokens, wire

KINDS = ("number", "path", "decision", "correction", "rule")

RULES = (
    "From now on, never change anything below vendor/ by hand.",
    "From now on, name each branch after the ticket it belongs to.",
    "From now on, amounts are integers in the smallest unit of the currency.",
    "From now on, ask me before a table of the ledger is altered.",
    "From now on, write release notes in British spelling.",
    "From now on, every new endpoint needs a limit of requests.",
    "From now on, do not start a job on the reporting replica before noon.",
    "From now on, tests may not open a connection to the outside.",
)

_FIRST = "invoice refund payout dispute ledger mandate voucher tariff receipt deposit"
_FIRST += " settlement chargeback balance statement threshold currency merchant terminal webhook customer"
_SECOND = "export import queue cache report gateway lookup mailer scheduler archive"
_SECOND += " validator mirror printer router index poller signer parser monitor limiter"
_REASONS = (
    "since the old way loses the order of events",
    "because two services would have to agree on a clock",
    "so that a retry does no harm",
    "since nobody can tell today who owns it",
)
_TASKS = (
    "Look why the {} is slow on Mondays.",
    "Please make the {} accept an empty list.",
    "Add a test for the {} where the amount is zero.",
    "The {} has logged warnings since the last release, find out why.",
    "Rename the odd variables in the {} and tell me what you found.",
)
_REMARKS = (
    "the handler keeps its own copy of the settings and never reloads them",
    "a comment says that this branch is dead, yet two callers reach it",
    "the loop asks the database once for each row of the page",
    "the helper swallows the error and returns an empty list instead",
    "nothing here closes the file when the parser gives up half way",
    "the default was copied from another module and fits neither",
)


@dataclass(frozen=True)
class Fact:
    """Something that is said once and may be needed later. It is kept where its value is seen word for word.

    The value of a whole line has no full stop: who quotes a sentence may leave it out.
    """

    kind: str
    turn: int
    line: str
    value: str
    outdated: str = ""  # of a correction: the value that was said before


@dataclass
class Turn:
    prompt: str
    replies: list[Row] = field(default_factory=list)  # of the model, the answer last


@dataclass
class Session:
    turns: list[Turn] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)  # what the tool says of a path
    facts: list[Fact] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Every line that anybody says."""
        for turn in self.turns:
            yield from turn.prompt.splitlines()
            for row in turn.replies:
                yield from row.text.splitlines()
        for result in self.results.values():
            yield from result.splitlines()

    @property
    def tokens(self) -> int:
        """Of every message, as a request would send it."""
        rows = [row for turn in self.turns for row in (Row("user", turn.prompt), *turn.replies)]
        results = [Row("tool", self.results[call.path], answers=call.id) for row in rows for call in row.calls]
        return tokens(wire([*rows, *results]))


def make_session(turns: int, seed: int = 1) -> Session:
    """One session; the same for the same arguments."""
    return _Maker(turns, random.Random(seed)).session


class _Maker:
    def __init__(self, turns: int, chance: random.Random) -> None:
        self.session, self._chance = Session(), chance
        pairs = [f"{one} {other}" for one in _FIRST.split() for other in _SECOND.split()]
        chance.shuffle(pairs)
        self._topics = iter(pairs * (turns // 100 + 1))
        self._numbers = iter(chance.sample(range(10_000, 99_999), 3 * turns + 8))
        rules = {3 + at * max(turns - 6, 8) // len(RULES): rule for at, rule in enumerate(RULES)}
        outdated: list[tuple[str, str]] = []
        for number in range(turns):
            said, found, answered = [], [], []
            if number in rules:
                said.append(self._fact("rule", number, rules[number]))
            kind = KINDS[number % 4]
            topic = f"{next(self._topics)} {number}"
            value = str(next(self._numbers))
            if kind == "number":
                found.append(self._fact(kind, number, f"measured: the {topic} needs {value} ms at the worst", value))
            elif kind == "path":
                path = f"conf/{topic.replace(' ', '-')}.toml"
                answered.append(self._fact(kind, number, f"The settings of the {topic} are in {path} alone.", path))
            elif kind == "decision":
                reason = chance.choice(_REASONS)
                other = next(self._topics)
                line = f"Decision: the {topic} goes through the {other}, {reason}."
                answered.append(self._fact(kind, number, line))
                late, old = f"{next(self._topics)} {number}", str(next(self._numbers))
                answered.append(f"The limit of the {late} is {old} as far as I see.")
                outdated.append((late, old))
            elif outdated:
                late, old = outdated.pop(0)
                line = f"Correction: the limit of the {late} is {value}, not {old}."
                said.append(self._fact(kind, number, line, value, old))
            self._turn(number, topic, said, found, answered)

    def _fact(self, kind: str, turn: int, line: str, value: str = "", outdated: str = "") -> str:
        self.session.facts.append(Fact(kind, turn, line, value or line.removesuffix("."), outdated))
        return line

    def _turn(self, number: int, topic: str, said: list[str], found: list[str], answered: list[str]) -> None:
        chance = self._chance
        turn = Turn("\n".join([chance.choice(_TASKS).format(topic), *said]))
        steps = chance.choice([1, 1, 1, 2, 4])
        for step in range(steps):
            calls = []
            for letter in "abc"[: chance.choice([1, 2, 2, 3])]:
                path = f"src/{topic.split()[0]}/{number}_{step}{letter}.py"
                calls.append(Call(f"c{number}_{step}{letter}", path))
                lines = [self._noise(number) for _ in range(chance.choice([2, 5, 8, 40]))]
                if found and step == steps // 2 and letter == "a":
                    lines[len(lines) // 2 : len(lines) // 2] = found
                self.session.results[path] = "\n".join(lines)
            turn.replies.append(Row("assistant", f"I look at step {step} of part {number} now.", tuple(calls)))
        remark = f"Of part {number} I can say: {chance.choice(_REMARKS)}."
        turn.replies.append(Row("assistant", "\n".join([remark, *answered])))
        self.session.turns.append(turn)

    def _noise(self, number: int) -> str:
        """A line such as a log or a listing has: one in four with a number or a path."""
        chance = self._chance
        mark = "".join(chance.choices("bcdfghjklmnpqrstvwxz", k=3))
        remark, at = chance.choice(_REMARKS), f"{number} {mark}"
        match chance.randrange(8):
            case 0:
                return f"line {at}: src/shared/{chance.choice(_SECOND.split())}.py has {chance.randrange(2, 90)} uses"
            case 1:
                return f"part {at}: the worker said {chance.randrange(100, 9_000)} times: {remark}"
            case _:
                return f"part {at}: {remark}"
