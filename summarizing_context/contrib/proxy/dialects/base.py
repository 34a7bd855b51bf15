"""What every dialect shares: a request as rows of a log, and the way back to the client's own bytes.

Pure. A row keeps the JSON that the client sent for it. Where a view shows the row as it is, these bytes go out again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from summarizing_context.log.message_log import BoundThinking
from summarizing_context.messages.shapes import Message, check_message

KEY = "_proxy"  # of a row's message: a digest of what the client said; never sent and never counted
HOOK = {"source": "hook"}  # the metadata of rows that a client puts in by itself
MAX_ITEMS = 20_000  # of a history

Fields = dict[str, msgspec.Raw]  # of a request, as JSON
Out = bytes | Message  # a message as the client wrote it, or as a view has it


class PassUnchanged(Exception):
    """This request is none that a view may change; the message says why."""


class Row(NamedTuple):
    """A message of the log, and the JSON of the client's that it stands for."""

    message: Message
    sent: Sequence[bytes]
    key: str  # equal for messages that say the same


Shown = tuple[Message, Row | None]  # a message of a view, and the row that it shows just as it is


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
    opening: Sequence[Row] = ()  # of the history: what stays before the model's first words
    must_change: bool = False  # the provider would refuse it as it is, and with a view of all rows it would not
    bound_thinking: BoundThinking = "kept"


class Dialect(Protocol):
    """One protocol of a provider."""

    name: str

    def read(self, fields: Fields) -> Asked:
        """Return a request, from the JSON of its fields. Raise `PassUnchanged`, and `ValueError` for no request."""

    def write(self, asked: Asked, shown: Sequence[Shown], *, drops_thinking: bool = False) -> bytes:
        """Return the body of the same request with a view of its rows. With `drops_thinking` the provider is asked to
        drop signed thinking that it would refuse."""


def digest(*texts: bytes) -> str:
    """Return a short name of some bytes."""
    return hashlib.blake2b(b"".join(texts), digest_size=12).hexdigest()


_ESCAPED = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.", re.DOTALL
)


def read_fields(body: bytes) -> Fields:
    """Return the fields of a request. U+FFFD stands for halves of characters, which no provider reads and no client
    takes back. Raise `ValueError`."""
    try:
        return msgspec.json.decode(body, type=Fields)
    except msgspec.DecodeError:
        half = len(rb"\ud800")
        whole = _ESCAPED.sub(lambda found: rb"\ufffd" if len(found[0]) == half else found[0], body)
        return msgspec.json.decode(whole, type=Fields)


def items_of(fields: Fields, name: str) -> list[bytes]:
    """Return the JSON of each item of a field. Raise `PassUnchanged` where it is no list, or too long a one."""
    if name not in fields or not bytes(fields[name]).startswith(b"["):
        raise PassUnchanged(f"{name} is not a list")
    items = [bytes(item) for item in msgspec.json.decode(fields[name], type=list[msgspec.Raw])]
    if len(items) > MAX_ITEMS:
        raise PassUnchanged("the history has too many items to be read at once")
    return items


def row_of(message: Message, data: bytes) -> Row:
    """Return the row of a message, whose key is a digest of all that is sent of it. Raise `MessageError`."""
    message = check_message(message)
    key = digest(msgspec.json.encode(bare(message), order="deterministic"))
    return Row({**message, KEY: key}, (data,), key)


def decoded(fields: Fields, name: str) -> Any:
    """Return the value of a field; None where it is missing."""
    return msgspec.json.decode(fields[name]) if name in fields else None


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list, whatever else stands in it."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def max_tokens(fields: Fields, *names: str) -> int | None:
    """Return the first of these fields that is a positive number of tokens."""
    values = (decoded(fields, name) for name in names)
    return next((value for value in values if type(value) is int and value > 0), None)


def bare(message: Mapping[str, Any]) -> Message:
    """Return a view's message without what is never sent."""
    return {name: value for name, value in message.items() if not name.startswith("_") and name != "metadata"}


def encoded(fields: Fields, name: str, items: Sequence[Out]) -> bytes:
    """Return the body of a request whose list `name` has other items; all else is as the client wrote it."""
    history = [msgspec.Raw(item) if isinstance(item, bytes) else item for item in items]
    return msgspec.json.encode({**fields, name: history})
