"""What every dialect shares: a request as rows of a log, and the way back to the client's own bytes.

Pure. A row keeps the JSON that the client sent for it. Where a view shows the row as it is, these bytes go out again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from summarizing_context.log.message_log import BoundThinking
from summarizing_context.messages.validation import Message

KEY = "_proxy"  # of a row's message: a digest of what the client said; never sent and never counted
HOOK = {"source": "hook"}  # the metadata of rows that a client puts in by itself

Fields = dict[str, msgspec.Raw]  # of a request, as JSON

Out = bytes | Message  # a message as the client wrote it, or as a view has it

Value = TypeVar("Value")


class PassUnchanged(Exception):
    """This request is none that a view may change; the message says why."""


class Row(NamedTuple):
    """A message of the log, and the JSON of the client's that it stands for."""

    message: Message
    sent: tuple[bytes, ...]
    key: str  # equal for messages that say the same


Shown = tuple[Message, Row | None]  # a message of a view, and the row that it shows just as it is


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as far as its view goes."""

    fields: Fields
    lead: Sequence[bytes]  # of the history: what stays in front, as it came
    opening: Sequence[Row]  # of the history: what stays before the model's first words
    rows: Sequence[Row]
    beside: Sequence[Mapping[str, Any]]  # what is sent beside the rows, and only takes room
    model: str
    max_output: int | None  # tokens
    has_tools: bool
    must_change: bool = False  # the provider would refuse it as it is, and with a view of all rows it would not
    bound_thinking: BoundThinking = "kept"


class Memory:
    """What was made of the items of earlier requests: a session sends most of them again. The oldest are forgotten."""

    def __init__(self, *, max_items: int = 20_000, max_bytes: int = 64_000_000) -> None:
        self._max_items, self._max_bytes = max_items, max_bytes
        self._made: dict[tuple[str, tuple[bytes, ...]], Any] = {}  # by the JSON of the items, the newest at the end
        self._bytes = 0

    def items(self, fields: Fields, name: str) -> list[bytes]:
        """Return the JSON of each item of a field. Raise `PassUnchanged` where it is no list, or too long a one."""
        if name not in fields or not (data := bytes(fields[name])).startswith(b"["):
            raise PassUnchanged(f"{name} is not a list")
        items = [bytes(item) for item in msgspec.json.decode(data, type=list[msgspec.Raw])]
        if len(items) > self._max_items:
            raise PassUnchanged("the history has too many items to be read at once")
        return items

    def made(self, kind: str, make: Callable[..., Value], *items: bytes) -> Value:
        """Return what `make` makes of these items, to be read only."""
        name = kind, items
        if name in self._made:
            found: Value = self._made.pop(name)
        else:
            found = make(*items)
            self._bytes += sum(map(len, items))
        self._made[name] = found
        while self._bytes > self._max_bytes and len(self._made) > 1:
            oldest = next(iter(self._made))
            del self._made[oldest]
            self._bytes -= sum(map(len, oldest[1]))
        return found


class Dialect(Protocol):
    """One protocol of a provider."""

    name: str

    def read(self, fields: Fields, memory: Memory) -> Asked:
        """Return a request, from the JSON of its fields. Raise `PassUnchanged`, and `ValueError` for no request."""

    def write(self, asked: Asked, shown: Sequence[Shown], *, drops_thinking: bool = False) -> bytes:
        """Return the body of the same request with a view of its rows. With `drops_thinking` the provider is asked to
        drop signed thinking that it would refuse."""


def digest(*texts: bytes) -> str:
    """Return a short name of some bytes."""
    made = hashlib.blake2b(digest_size=12)
    for text in texts:
        made.update(text)
    return made.hexdigest()


_ESCAPED = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.", re.DOTALL
)


def without_halves(data: bytes) -> bytes:
    """Return JSON with U+FFFD in place of halves of characters, which no provider reads and no client takes back."""
    half = len(rb"\ud800")
    return _ESCAPED.sub(lambda found: rb"\ufffd" if len(found[0]) == half else found[0], data)


def decoded(fields: Fields, name: str) -> Any:
    """Return the value of a field; None where it is missing."""
    return msgspec.json.decode(fields[name]) if name in fields else None


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list, whatever else stands in it."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def whole(value: object) -> int | None:
    """Return a positive number of tokens; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def bare(message: Mapping[str, Any]) -> Message:
    """Return a view's message without what is never sent."""
    return {name: value for name, value in message.items() if not name.startswith("_") and name != "metadata"}


def encoded(fields: Fields, name: str, items: Sequence[Out]) -> bytes:
    """Return the body of a request whose list `name` has other items; all else is as the client wrote it."""
    history = [msgspec.Raw(item) if isinstance(item, bytes) else item for item in items]
    return msgspec.json.encode({**fields, name: history})
