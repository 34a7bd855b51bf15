"""What every dialect shares: a request as rows of a log, and the way back to the client's own bytes.

Pure. A row keeps the JSON that the client sent for it. Where a view shows the row as it is, these bytes go out again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

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

    @property
    def key(self) -> str:
        """Equal for messages that say the same."""
        return str(self.message[KEY])


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as far as its view goes."""

    fields: Fields
    lead: Sequence[bytes]  # of the history: what stays in front, as it came
    rows: Sequence[Row]
    beside: Sequence[Mapping[str, Any]]  # what is sent beside the rows, and only takes room
    model: str
    max_output: int | None  # tokens
    has_tools: bool


class Memory:
    """Values made of bytes that come again with each request: the older half is forgotten at `most` bytes."""

    def __init__(self, most: int = 64_000_000) -> None:
        self._most = most // 2
        self._young: dict[tuple[str, bytes], Any] = {}
        self._old: dict[tuple[str, bytes], Any] = {}
        self._size = 0

    def get(self, kind: str, data: bytes, make: Callable[[bytes], Value]) -> Value:
        """What `make` makes of the bytes, or has made of equal ones; to be read only."""
        name = (kind, data)
        found: Value | None = self._young.get(name)
        if found is None:
            found = self._old.get(name)
            if found is None:
                found = make(data)
            if self._size > self._most:
                self._old, self._young, self._size = self._young, {}, 0
            self._young[name] = found
            self._size += len(data)
        return found


class Dialect(Protocol):
    """One protocol of a provider."""

    name: str

    def read(self, fields: Fields, memory: Memory) -> Asked:
        """A request, from the JSON of its fields. Raises `PassUnchanged`, and `ValueError` for what is no request."""

    def write(self, asked: Asked, view: Sequence[Message]) -> bytes:
        """The body of the same request with a view of its rows."""


def digest(*texts: bytes) -> str:
    """A short name of some bytes."""
    made = hashlib.blake2b(digest_size=12)
    for text in texts:
        made.update(text)
    return made.hexdigest()


def listed(fields: Fields, name: str) -> list[bytes]:
    """The JSON of each item of a field that is a list. Raises `PassUnchanged` where it is none."""
    try:
        return [bytes(item) for item in msgspec.json.decode(fields[name], type=list[msgspec.Raw])]
    except (KeyError, msgspec.DecodeError) as error:
        raise PassUnchanged(f"{name} is not a list") from error


def decoded(fields: Fields, name: str, memory: Memory) -> Any:
    """The value of a field; None where it is missing. To be read only."""
    return memory.get("field", bytes(fields[name]), msgspec.json.decode) if name in fields else None


def objects(value: object) -> list[Mapping[str, Any]]:
    """The objects in a list, whatever else stands in it."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def whole(value: object) -> int | None:
    """A positive number of tokens; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def bare(message: Mapping[str, Any]) -> Message:
    """A view's message without what is never sent."""
    return {name: value for name, value in message.items() if name[0] != "_" and name != "metadata"}


def encoded(fields: Fields, name: str, items: Sequence[Out]) -> bytes:
    """The body of a request whose list `name` has other items; all else is as the client wrote it."""
    history = [msgspec.Raw(item) if isinstance(item, bytes) else item for item in items]
    return msgspec.json.encode({**fields, name: history})


def by_key(rows: Sequence[Row]) -> dict[str, Row]:
    """The rows by their keys: of those that say the same, the newest."""
    return {row.key: row for row in rows}


def shown_as_sent(message: Message, rows: Mapping[str, Row]) -> Row | None:
    """The row that a view shows just as it is."""
    row = rows.get(message.get(KEY, ""))
    return row if row is not None and message == row.message else None
