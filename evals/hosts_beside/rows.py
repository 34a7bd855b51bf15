"""What a model is sent, in a shape of no host's. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CHARACTERS = 4  # that count as a token
PROMPT = "You are the engineer of a payment platform. Read before you change anything, and answer briefly."
TOOL, DESCRIPTION = "read", "Read a file."


@dataclass(frozen=True)
class Call:
    id: str
    path: str  # the argument of the only tool


@dataclass(frozen=True)
class Row:
    """A message of a request."""

    role: str  # user, assistant, tool or system
    text: str
    calls: tuple[Call, ...] = ()
    answers: str = ""  # the id of the call that a tool's row answers

    @property
    def wire(self) -> str:
        calls = "".join(f"\n[{call.id}] {TOOL}({call.path})" for call in self.calls)
        return f"<{self.role} {self.answers}>\n{self.text}{calls}\n"


def wire(rows: Sequence[Row]) -> str:
    """A request as one text, the prompt first."""
    return "".join(row.wire for row in rows)


def tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS)


def unpaired(rows: Sequence[Row]) -> Iterator[str]:
    """Ids of calls without a result right behind them, and of results that answer no open call."""
    waiting: list[str] = []
    for row in rows:
        if row.role == "tool":
            if row.answers in waiting:
                waiting.remove(row.answers)
            else:
                yield row.answers
            continue
        yield from waiting
        waiting = [call.id for call in row.calls]
    yield from waiting
