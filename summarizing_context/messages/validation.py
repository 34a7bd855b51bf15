"""The door: what may enter the log, and the bytes that it becomes.

Pure. A message enters as a copy, so that nothing a caller does to it later can change the log.
What a message means is read in `messages`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from summarizing_context.errors import MessageError, StoreCorruptError

Message = dict[str, Any]
MAX_DEPTH = 100  # levels of nesting; far above what providers send, far below Python's recursion limit
_MAX_INT_BITS = 14_000  # CPython refuses to print integers of more than 4,300 digits
LONG_TEXT = 200_000  # bytes of a message whose counting would hold up the event loop
_FIELDS = frozenset(  # whose names an error may quote
    ["role", "content", "type", "text", "tool_calls", "tool_call_id", "function", "arguments", "input", "metadata"]
)

ROLES = ("system", "developer", "user", "assistant", "model", "tool", "function")
_FRAME = frozenset({"role", "type", "id", "name", "metadata", "timestamp"})  # beside these a message says something
_encoder = msgspec.json.Encoder()
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def check_message(message: object) -> Message:
    """Return a deep copy of `message`, made of plain JSON values.

    Raises `MessageError` unless it is a mapping with one of the `ROLES` that says something, for which
    `json.loads(json.dumps(m)) == m`, nested at most `MAX_DEPTH` levels deep.
    """
    try:
        if not isinstance(message, Mapping):
            raise MessageError(f"a message is a mapping with a 'role', not {type(message).__name__}")
        role = message.get("role")
        if not isinstance(role, str) or not role:
            wrong = "is missing" if role is None else f"is {type(role).__name__}, not a string" if role else "is empty"
            raise MessageError(f"the message's 'role' {wrong}; give it one such as 'user' or 'assistant'")
        if role not in ROLES:
            allowed = ", ".join(ROLES)
            raise MessageError(f"the message's 'role' is none that a provider knows; give it one of {allowed}")
        if _FRAME.issuperset(message):
            raise MessageError(f"the {role} message says nothing; give it 'content', or the calls that it makes")
        return _copied(message, "message", 1)
    except MessageError:
        raise
    except Exception as error:  # a mapping or a value with methods of its own
        raise MessageError(f"a message cannot be read: {type(error).__name__} while copying it") from error


def parse_message(message: object) -> tuple[Message, bytes]:
    """Return the copy that `check_message` makes, and its JSON bytes. Raise `MessageError`.

    A message of plain values equals what is read back from its bytes, which is quicker than to look at each value.
    """
    if type(message) is dict and message.get("role") in ROLES and not _FRAME.issuperset(message):
        with suppress(Exception):  # of values that are no JSON; it is checked below, which says what is wrong
            data = encode_message(message)
            copy: Message = msgspec.json.decode(data)
            if copy == message and data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
                return copy, data
    checked = check_message(message)
    return checked, encode_message(checked)


def parse_messages(messages: object) -> list[tuple[Message, bytes]]:
    """Parse several messages; the `MessageError` says which one is wrong."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise MessageError(f"messages are a list of messages, not {type(messages).__name__}")
    parsed: list[tuple[Message, bytes]] = []
    for at, message in enumerate(messages):
        try:
            parsed.append(parse_message(message))
        except MessageError as error:
            raise MessageError(f"message {at}: {error}") from error
    return parsed


def encodable(value: Any) -> Any:
    """Return a JSON value as UTF-8 can hold it: a lone surrogate becomes U+FFFD."""
    try:
        _encoder.encode(value)
    except UnicodeEncodeError:
        return json.loads(_SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
    return value


def encode_message(message: Message) -> bytes:
    """JSON bytes of a checked message; lone surrogates are written as escapes."""
    try:
        buffer = bytearray()
        _encoder.encode_into(message, buffer)
        return bytes(buffer)  # no larger than its text, where `encode` leaves room at the end
    except UnicodeEncodeError:
        return json.dumps(message, separators=(",", ":")).encode("ascii")


def decode_message(data: bytes) -> Message:
    """Return the message that `encode_message` wrote, as a fresh value. Raises `StoreCorruptError`."""
    with suppress(msgspec.DecodeError):
        message: Message = msgspec.json.decode(data)
        return message
    with suppress(ValueError):  # escapes of lone surrogates, which only the standard library reads
        return json.loads(data)  # type: ignore[no-any-return]
    # No error is the cause of this one: theirs hold the text.
    raise StoreCorruptError("the bytes of a stored message are damaged: they are no JSON")


def canonical_json(value: object) -> str:
    """One spelling of a JSON value: keys sorted, no spaces."""
    try:
        return msgspec.json.encode(value, order="deterministic").decode()
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _copy(value: object, where: str, depth: int) -> Any:
    if isinstance(value, str):
        return _text(value, where)
    if value is None or value is True or value is False:
        return value
    if isinstance(value, int):
        if value.bit_length() > _MAX_INT_BITS:
            raise _refused(where, f"the integer has {value.bit_length()} bits; at most {_MAX_INT_BITS} can be written")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refused(where, f"{value} is not a JSON number")
        return float(value)
    if depth >= MAX_DEPTH:
        raise _refused(where, f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, list):
        return [_copy(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return _copied(value, where, depth + 1)
    raise _refused(where, f"{type(value).__name__} is not a JSON value")


def _copied(holder: Mapping[Any, Any], where: str, depth: int) -> Message:
    copy: Message = {}
    for number, (key, value) in enumerate(holder.items(), 1):
        place = f"{where}.{key}" if type(key) is str and key in _FIELDS else f"{where}.<key {number}>"
        if not isinstance(key, str):
            raise _refused(place, f"the key is {type(key).__name__}; JSON keys are strings")
        copy[_text(key, place)] = _copy(value, place, depth)
    return copy


def _refused(where: str, why: str) -> MessageError:
    """Return the error for a value, by its place: no key or value of a message is quoted, for they may be private."""
    return MessageError(f"{where if len(where) <= 120 else f'{where[:120]}…'}: {why}")


def _text(value: str, where: str) -> str:
    if not value.isascii() and _SURROGATE_PAIR.search(value):
        raise _refused(where, "two halves of one character stand as two; join them before adding the message")
    return value if type(value) is str else str.__str__(value)
