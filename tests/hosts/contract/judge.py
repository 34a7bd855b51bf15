"""What is said in a conversation, in a shape of no host's, and a judge of what a model is sent of it.

It judges by the laws' own checks and some of hosts, and shares no code with the package.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from tests.laws.builders import Message, call, count, result
from tests.laws.checkers import order_problems, refusals, tail_problems
from tests.laws.repairs import ALL_REPAIRS

_SMALL = 64  # tokens: nothing of this size is shortened
_MARK = re.compile(r"\[([a-z]\w*)\]")


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    arguments: str  # canonical JSON


@dataclass(frozen=True)
class Row:
    """A message. `wire` is what its host would send for it, as text; equal rows may differ in it."""

    role: str  # user, assistant, tool or system
    text: str
    calls: tuple[Call, ...] = ()
    answers: str | None = None  # the call that a tool's row answers
    thinking: str = ""
    wire: str = field(default="", compare=False)

    @property
    def mark(self) -> str | None:
        """The name in brackets at the beginning of the text. Each row of the script has its own."""
        found = _MARK.match(self.text)
        return found and found[1]


def unchanged(rows: Sequence[Row], log: Sequence[Row]) -> int:
    """How many rows a history and a conversation begin with alike."""
    return next(
        (at for at, (row, one) in enumerate(zip(rows, log, strict=False)) if row != one), min(len(rows), len(log))
    )


class Judge:
    """Judges the requests of one conversation, one after the other. `beside` is what is sent beside the messages."""

    def __init__(self, budget: int, beside: str = "") -> None:
        self._budget = budget - count(beside)
        self._last: list[str] = []
        self.problems: list[str] = []
        self.seen: Counter[str] = Counter()  # what has happened, so that a test can show that it did
        self.begins_as_before: list[bool] = []  # each request with all of the one before

    def check(self, sent: Sequence[Row], log: Sequence[Row], removed: Collection[str] = ()) -> None:
        """`log` is the conversation up to this request; `removed` are marks of rows that the host has taken out."""
        shown, said = list(map(message_of, sent)), [message_of(row) for row in _as_hosts_have_it(log, sent)]
        found = [
            *refusals(shown),
            *order_problems(shown, said),
            *tail_problems(shown, said, ALL_REPAIRS),
            *_problems(sent, log),
            *(f"{mark} was removed" for mark in removed if any(f"[{mark}]" in row.text for row in sent)),
        ]
        size = sum(map(cost, sent))
        if size > self._budget:
            found.append(f"{size} tokens do not fit {self._budget}")
        self._note(sent, log, removed)
        self.problems += [f"request {self.seen['requests']}: {problem}" for problem in found]
        self.seen["requests"] += 1

    def _note(self, sent: Sequence[Row], log: Sequence[Row], removed: Collection[str]) -> None:
        wires = [row.wire for row in sent]
        self.begins_as_before.append(wires[: len(self._last)] == self._last)
        gone = (at for at, wire in enumerate(self._last) if any(f"[{mark}]" in str(wire) for mark in removed))
        left = self._last[: next(gone, len(self._last))]  # what the host itself rewrote is no break
        self.seen["breaks"] += wires[: len(left)] != left
        self._last = wires
        said = {row.mark: row for row in log}
        self.seen["covering"] += len(sent) < len(log)
        self.seen["shortened"] += sum(row.mark in said and row.text != said[row.mark].text for row in sent)
        self.seen["parallel"] += any(len(row.calls) > 1 for row in sent)
        self.seen["thinking"] += any(row.thinking for row in sent)


@cache
def message_of(row: Row) -> Message:
    """The row as the laws read messages."""
    if row.role == "tool":
        return result("openai", str(row.answers), row.text)
    asked = [(each.id, each.name, json.loads(each.arguments)) for each in row.calls]
    made = call("openai", *asked, text=row.text) if asked else {"role": row.role, "content": row.text}
    return made | ({"thinking": row.thinking} if row.thinking else {})


def cost(row: Row) -> int:
    """Every text of a row counts, and four tokens for the row."""
    texts = [row.text, row.thinking, *(text for call in row.calls for text in (call.name, call.arguments))]
    return 4 + sum(map(count, texts))


def _as_hosts_have_it(log: Sequence[Row], sent: Sequence[Row]) -> Iterator[Row]:
    """A host may leave out the calls of lost results."""
    answered = {row.answers for row in log}
    shown = {row.mark: row.calls for row in sent}
    for row in log:
        kept = tuple(call for call in row.calls if call.id in answered)
        yield replace(row, calls=kept) if shown.get(row.mark) == kept != row.calls else row


def _problems(sent: Sequence[Row], log: Sequence[Row]) -> Iterator[str]:
    """The first ask stays, and the newest, and what is small; a turn that goes on keeps its thinking."""
    newest = max(at for at, row in enumerate(log) if row.role == "user")
    shown = {row.mark: row for row in sent}
    if not sent or sent[0].mark != log[0].mark:
        yield "the first message is not the first ask"
    if log[newest].mark not in shown:
        yield "the newest ask is missing"
    for at, row in enumerate(log):
        seen = shown.get(row.mark, row)
        if at >= newest and seen.thinking != row.thinking:
            yield f"the thinking of {row.mark} is gone, and its turn goes on"
        if seen.text != row.text and count(row.text) <= _SMALL:
            yield f"{row.mark} is shortened"
