"""The door: what may enter the log, and the bytes that it becomes.

Pure. A message enters as a copy, so that nothing a caller does to it later can change the log.
What a message means is read in `messages`.
"""

from __future__ import annotations

import json
import marshal
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from summarizing_context.errors import MessageError, StoreCorruptError

Message = dict[str, Any]

MAX_DEPTH = 100  # levels of nesting; far above what providers send, far below Python's recursion limit

_MAX_INT_BITS = 14_000  # CPython refuses to print integers of more than 4,300 digits

_WIDE = 500  # blocks, calls or fields

_DEEP = 4  # levels in which these are looked for: in the blocks of a result, or its arguments

LONG_TEXT = 200_000  # characters whose counting would hold up the event loop

_WHERE = 120  # characters of a place in an error

_FIELDS = (
    "role",
    "content",
    "type",
    "text",
    "tool_calls",
    "tool_call_id",
    "function",
    "arguments",
    "input",
    "metadata",
)

ROLES = ("system", "developer", "user", "assistant", "model", "tool", "function")

_FRAME = frozenset({"role", "type", "id", "name", "metadata", "timestamp"})  # beside these a message says something

_encoder = msgspec.json.Encoder()

_SURROGATE = re.compile("[\ud800-\udfff]")

_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def check_message(message: object) -> Message:
    """A deep copy of `message`, made of plain JSON values.

    Raises `MessageError` unless it is a mapping with one of the `ROLES` that says something, for which
    `json.loads(json.dumps(m)) == m`, nested at most `MAX_DEPTH` levels deep.
    """
    try:
        return _checked(message)
    except MessageError:
        raise
    except Exception as error:  # a mapping or a value with methods of its own
        raise MessageError(f"a message cannot be read: {type(error).__name__} while copying it") from error


def parse_message(message: object) -> tuple[Message, bytes | None]:
    """The copy that `check_message` gives, with its JSON bytes; None for those of a long message or an odd one.

    A short message of plain values equals what is read back from its bytes, which is quicker than to look at each.
    """
    if type(message) is dict and message.get("role") in ROLES and not _FRAME.issuperset(message):
        try:
            data = encode_message(message) if text_length(message) <= LONG_TEXT else b""
            if 0 < len(data) <= LONG_TEXT and data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
                copy: Message = msgspec.json.decode(data)
                if copy == message:
                    return copy, data
        except Exception:
            pass  # of values that are no JSON; it is checked now, which says what is wrong
    return check_message(message), None


def _text_size(value: object) -> int:
    """Characters in all texts inside a value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_text_size, [*value, *value.values()]))
    return sum(map(_text_size, value)) if isinstance(value, list) else 1


def _checked(message: object) -> Message:
    if not isinstance(message, Mapping):
        raise MessageError(f"a message is a mapping with a 'role', not {type(message).__name__}")
    role = message.get("role")
    if not isinstance(role, str) or not role:
        problem = "is missing" if role is None else f"is {type(role).__name__}, not a string" if role else "is empty"
        raise MessageError(f"the message's 'role' {problem}; give it one such as 'user' or 'assistant'")
    if role not in ROLES:
        raise MessageError(f"the message's 'role' is none that a provider knows; give it one of {', '.join(ROLES)}")
    if _FRAME.issuperset(message):
        raise MessageError(f"the {role} message says nothing; give it 'content', or the calls that it makes")
    return _copied(message, "message", 1)


def snapshot(message: object) -> Callable[[], Message] | None:
    """The bytes of a message that holds very many blocks, calls or fields, written at once; what is returned makes the
    copy of them, in any thread, in short steps. None for a message of fewer, and for one of more than plain values."""
    if type(message) is not dict or not _holds_many(message, _DEEP):
        return None
    try:
        return _frozen(message, _DEEP)
    except ValueError:  # values with methods of their own, or too deep
        return None


def _holds_many(value: object, depth: int) -> bool:
    """Whether a list or a mapping of very many stands in a value, not too deep."""
    if type(value) is dict:
        inside: Collection[Any] = value.values()
    elif type(value) is list:
        inside = value
    else:
        return False
    return len(inside) > _WIDE or (depth > 0 and any(_holds_many(each, depth - 1) for each in inside))


def _frozen(value: Any, depth: int) -> Callable[[], Any]:
    """What makes a copy of a value, of bytes that are written now: of very many in runs, of all else as a whole."""
    if not _holds_many(value, depth):
        return partial(marshal.loads, marshal.dumps(value))
    if type(value) is dict:
        if not set(map(type, value)) <= {str}:
            raise ValueError("a key with methods of its own")
        if len(value) > _WIDE:
            return partial(_of_items, _runs(list(value.items())))
        fields = {key: _frozen(each, depth - 1) for key, each in value.items()}
        return lambda: {key: made() for key, made in fields.items()}
    if len(value) > _WIDE:
        return partial(_of_runs, _runs(value))
    items = [_frozen(each, depth - 1) for each in value]
    return lambda: [made() for made in items]


def _runs(values: list[Any]) -> list[bytes]:
    return [marshal.dumps(values[at : at + _WIDE]) for at in range(0, len(values), _WIDE)]


def _of_runs(runs: list[bytes]) -> list[Any]:
    return [one for run in runs for one in marshal.loads(run)]


def _of_items(runs: list[bytes]) -> dict[str, Any]:
    return dict(_of_runs(runs))


def check_messages(messages: object) -> list[Message]:
    """Deep copies of several messages; raises `MessageError` that says which one is wrong."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise MessageError(f"messages are a list of messages, not {type(messages).__name__}")
    checked: list[Message] = []
    for at, message in enumerate(messages):
        try:
            checked.append(check_message(message))
        except MessageError as error:
            raise MessageError(f"message {at}: {error}") from error
    return checked


def text_length(message: Message) -> int:
    """Characters of a message, in whatever field, about: enough to know whether counting it takes long."""
    return sum(map(_text_size, message.values()))


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
    """The message that `encode_message` wrote, as a fresh value. Raises `StoreCorruptError`."""
    with suppress(msgspec.DecodeError):
        message: Message = msgspec.json.decode(data)
        return message
    with suppress(ValueError):  # escapes of lone surrogates, which only the standard library reads
        return json.loads(data)  # type: ignore[no-any-return]
    # No error is the cause of this one: theirs hold the text.
    raise StoreCorruptError("the bytes of a stored message are damaged: they are no JSON")


def decode_in_steps(data: bytes) -> Message:
    """What `decode_message` returns, in many short calls: for messages of megabytes, in background threads.

    Slower, but one call of `decode_message` would hold the interpreter lock for as long as it takes.
    """
    message: Message = _StepwiseDecoder().decode(data.decode())
    return message


_RUN = re.compile(  # of a JSON string, so much that reading it is short; it ends in no escape, nor between surrogates
    r"""(?:[^"\\]{1,500}
    | \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}
    | \\u[0-9a-fA-F]{4}
    | \\[^u])
    {0,500}""",
    re.VERBOSE,
)


def _scan_string(text: str, start: int, strict: bool = True) -> tuple[str, int]:
    """The string whose opening quote stands before `start`, and where it ends, read run by run."""
    runs: list[str] = []
    at = start
    while (found := _RUN.match(text, at)) and found.end() > at:
        runs.append(json.decoder.scanstring(found[0] + '"', 0, strict)[0])  # type: ignore[attr-defined]
        at = found.end()
    if text[at : at + 1] != '"':
        raise json.JSONDecodeError("a string does not end", text, start - 1)
    return "".join(runs), at + 1


class _StepwiseDecoder(json.JSONDecoder):
    """The standard library's decoder without its C code, but for short runs of strings."""

    def __init__(self) -> None:
        super().__init__()
        self.parse_string = _scan_string
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]


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
        return _integer(value, where)
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
    """The error for a value, by its place: no key or value of a message is quoted, for they may be private."""
    return MessageError(f"{where if len(where) <= _WHERE else f'{where[:_WHERE]}…'}: {why}")


def _integer(value: int, where: str) -> int:
    if value.bit_length() > _MAX_INT_BITS:
        raise _refused(where, f"the integer has {value.bit_length()} bits; at most {_MAX_INT_BITS} can be written")
    return int(value)


def _text(value: str, where: str) -> str:
    if not value.isascii() and _SURROGATE_PAIR.search(value):
        raise _refused(where, "two halves of one character stand as two; join them before adding the message")
    return value if type(value) is str else str.__str__(value)
