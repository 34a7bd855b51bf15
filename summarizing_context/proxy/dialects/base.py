"""What every dialect shares: a request as rows of a log, and the way back to the client's own bytes.

Pure. A row keeps the JSON that the client sent for it. Where a view shows the row as it is, these bytes go out again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

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


@dataclass(slots=True)
class History(Generic[Value]):
    """The items of a list that a client sends with each request, and what was made of each."""

    kind: str
    items: list[bytes]  # their JSON
    made: list[Value]
    kept: int = 0  # so many of them an earlier request had already, in front
    grouped: Any = None  # what a dialect has made of several items together, for an earlier request


_MOST_ITEMS = 20_000  # of a request; a model's window ends long before

_MOST_CHANGED = 4  # newest items that a client writes otherwise in its next request: marks, reminders


class Memory:
    """What was made of earlier requests: a session sends most of it again with the next one.

    Of a list only the items are read with which it differs from an earlier one. The oldest are forgotten.
    """

    def __init__(self, *, most_lists: int = 64, most_bytes: int = 64_000_000, most_fields: int = 256) -> None:
        self._most_lists, self._most_bytes, self._most_fields = most_lists, most_bytes, most_fields
        self._fields: dict[bytes, Any] = {}
        self._histories: list[tuple[History[Any], int]] = []  # each with its bytes, the newest at the end

    def field(self, data: bytes) -> Any:
        """The value of this JSON; to be read only."""
        found = self._fields.pop(data, None)
        self._fields[data] = found = msgspec.json.decode(data) if found is None else found
        if len(self._fields) > self._most_fields:
            del self._fields[next(iter(self._fields))]
        return found

    def history(self, kind: str, data: bytes, make: Callable[[bytes], Value]) -> History[Value]:
        """The items of a JSON list, each with what `make` makes of it; to be read only.

        Raises `msgspec.DecodeError` for what is no list, and whatever `make` raises.
        """
        items = [bytes(item) for item in msgspec.json.decode(data, type=list[msgspec.Raw])]
        if len(items) > _MOST_ITEMS:
            raise PassUnchanged("the history has too many items to be read at once")
        kept = at = 0
        for number, (history, _) in enumerate(self._histories):
            if history.kind == kind and (same := _same_items(history.items, items)) > kept:
                kept, at = same, number
        found = History(kind, items, [make(item) for item in items[kept:]], kept)
        if kept:
            before = self._histories[at][0]
            found.items[:kept], found.grouped = before.items[:kept], before.grouped
            found.made[:0] = before.made[:kept]
            if kept >= len(before.items) - _MOST_CHANGED:  # else another session goes on from there too
                del self._histories[at]
        self._histories.append((found, len(data)))
        size = sum(size for _, size in self._histories)
        while len(self._histories) > 1 and (len(self._histories) > self._most_lists or size > self._most_bytes):
            size -= self._histories.pop(0)[1]
        return found


def _same_items(before: Sequence[bytes], now: Sequence[bytes]) -> int:
    """How many items both begin with."""
    differ = (at for at, (one, other) in enumerate(zip(before, now, strict=False)) if one != other)
    return next(differ, min(len(before), len(now)))


class Dialect(Protocol):
    """One protocol of a provider."""

    name: str

    def read(self, fields: Fields, memory: Memory) -> Asked:
        """A request, from the JSON of its fields. Raises `PassUnchanged`, and `ValueError` for what is no request."""

    def write(self, asked: Asked, shown: Sequence[Shown]) -> bytes:
        """The body of the same request with a view of its rows."""


def digest(*texts: bytes) -> str:
    """A short name of some bytes."""
    made = hashlib.blake2b(digest_size=12)
    for text in texts:
        made.update(text)
    return made.hexdigest()


def without_halves(data: bytes) -> bytes:
    """JSON with U+FFFD in place of halves of characters, which no provider reads and no client ever takes back."""
    return _ESCAPED.sub(lambda found: rb"\ufffd" if len(found[0]) == _LONE else found[0], data)


_ESCAPED = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.", re.DOTALL
)

_LONE = 6  # bytes of an escape that is no pair


def listed(kind: str, fields: Fields, name: str, memory: Memory, make: Callable[[bytes], Value]) -> History[Value]:
    """The items of a field that is a list. Raises `PassUnchanged` where it is none, and as `make` does."""
    if name not in fields or not (data := bytes(fields[name])).startswith(b"["):
        raise PassUnchanged(f"{name} is not a list")
    return memory.history(kind, data, make)


def decoded(fields: Fields, name: str, memory: Memory) -> Any:
    """The value of a field; None where it is missing. To be read only."""
    return memory.field(bytes(fields[name])) if name in fields else None


def objects(value: object) -> list[Mapping[str, Any]]:
    """The objects in a list, whatever else stands in it."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def whole(value: object) -> int | None:
    """A positive number of tokens; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def bare(message: Mapping[str, Any]) -> Message:
    """A view's message without what is never sent."""
    return {name: value for name, value in message.items() if not name.startswith("_") and name != "metadata"}


def encoded(fields: Fields, name: str, items: Sequence[Out]) -> bytes:
    """The body of a request whose list `name` has other items; all else is as the client wrote it."""
    history = [msgspec.Raw(item) if isinstance(item, bytes) else item for item in items]
    return msgspec.json.encode({**fields, name: history})
