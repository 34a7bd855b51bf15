"""What is said in a conversation, in a shape of no host's. The script, the judge and the hosts speak it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

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
