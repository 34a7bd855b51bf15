"""What may enter the log, the bytes that it becomes, and what every block of a message is.

Pure. A message enters as a copy, so that nothing a caller does to it later can change the log.

`shapes.toml` tells what every block and item of a message is, in every protocol, and what it is bound to. What is not
in it is opaque, and travels whole or not at all. What a message says is read in `reading`.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import msgspec

from summarizing_context.errors import MessageError, StoreCorruptError

# -- what may enter

Message = dict[str, Any]
MAX_DEPTH = 100  # levels of nesting; far above what providers send, far below Python's recursion limit
_MAX_INT_BITS = 14_000  # CPython refuses to print integers of more than 4,300 digits
_FIELDS = frozenset(  # whose names an error may quote
    ["role", "content", "type", "text", "tool_calls", "tool_call_id", "function", "arguments", "input", "metadata"]
)

ROLES = ("system", "developer", "user", "assistant", "model", "tool", "function")
_FRAME = frozenset({"role", "type", "id", "name", "metadata", "timestamp"})  # beside these a message says something
_encoder = msgspec.json.Encoder()
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
            raise MessageError(f"the message's 'role' is none that a provider knows; give it one of {', '.join(ROLES)}")
        if _FRAME.issuperset(message):
            raise MessageError(f"the {role} message says nothing; give it 'content', or the calls that it makes")
        return _copy(message, "message", 0)  # type: ignore[no-any-return]
    except MessageError:
        raise
    except Exception as error:  # a mapping or a value with methods of its own
        raise MessageError(f"a message cannot be read: {type(error).__name__} while copying it") from error


def parse_message(message: object) -> tuple[Message, bytes]:
    """Return the copy that `check_message` makes, and its JSON bytes. Raise `MessageError`."""
    checked = check_message(message)
    return checked, encode_message(checked)


def parse_messages(messages: object) -> Iterator[tuple[Message, bytes]]:
    """Parse several messages one by one, all as they stand now; the `MessageError` says which one is wrong."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise MessageError(f"messages are a list of messages, not {type(messages).__name__}")
    given = list(messages)
    with suppress(Exception):  # a copy without their texts, where all of it is plain: it is parsed as it is asked for
        copies = msgspec.to_builtins(given)
        if copies == given and {dict}.issuperset(map(type, given)):
            return _parsed(copies)
    return iter(list(_parsed(given)))


def _parsed(messages: Iterable[object]) -> Iterator[tuple[Message, bytes]]:
    for at, message in enumerate(messages):
        try:
            yield parse_message(message)
        except MessageError as error:
            raise MessageError(f"message {at}: {error}") from error


def encodable(value: Any) -> Any:
    """Return a JSON value as UTF-8 can hold it: a lone surrogate becomes U+FFFD."""
    try:
        _encoder.encode(value)
    except UnicodeEncodeError:
        return json.loads(re.sub("[\ud800-\udfff]", "\ufffd", json.dumps(value, ensure_ascii=False)))
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
    """Return a copy of plain values. An error tells the place alone: keys and values of a message may be private."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if value.isascii() or not _SURROGATE_PAIR.search(value):
            return str.__str__(value)
        wrong = "a character is split into its two halves; join them before adding the message"
    elif isinstance(value, int):
        if value.bit_length() <= _MAX_INT_BITS:
            return int(value)
        wrong = f"the integer has {value.bit_length()} bits; at most {_MAX_INT_BITS} can be written"
    elif isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        wrong = f"{value} is not a JSON number"
    elif depth >= MAX_DEPTH:
        wrong = f"nested more than {MAX_DEPTH} levels deep"
    elif isinstance(value, list):
        return [_copy(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
    elif isinstance(value, dict) or (depth == 0 and isinstance(value, Mapping)):
        copy: Message = {}
        for number, (key, item) in enumerate(value.items(), 1):
            place = f"{where}.{key}" if type(key) is str and key in _FIELDS else f"{where}.<key {number}>"
            if not isinstance(key, str):
                raise MessageError(f"{place[:120]}: the key is {type(key).__name__}; JSON keys are strings")
            copy[_copy(key, place, depth)] = _copy(item, place, depth + 1)
        return copy
    else:
        wrong = f"{type(value).__name__} is not a JSON value"
    raise MessageError(f"{where[:120]}{'…' * (len(where) > 120)}: {wrong}")


# -- the table


class Shape(NamedTuple):
    """What a block is, in the words of `shapes.toml`."""

    kind: Literal["text", "call", "result", "thinking", "media", "state", "opaque"]
    says: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    bound: Literal["nothing", "host", "pair", "turn", "prefix"] = "nothing"

    @property
    def is_whole(self) -> bool:
        """It is never cut, nor turned into text."""
        return self.kind == "state" or self.bound == "pair" or (self.kind == "opaque" and not self.says)


_TABLES = tomllib.loads((files(__package__) / "shapes.toml").read_text("utf-8"))


def _table(name: str) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {}
    for row in _TABLES[name]:
        says, id = (tuple(row.get(key, "").split()) for key in ("says", "id"))
        shapes |= dict.fromkeys(row["names"].split(), Shape(row["kind"], says, id, row.get("bound", "nothing")))
    return shapes


SHAPES, UNTYPED, _ENDINGS = _table("typed"), _table("untyped"), _table("endings")
OPAQUE, TEXT = Shape("opaque"), SHAPES["text"]

# Fields beside the content: of thinking, in the order in which they are read, and of what a model reads after all else.
THINKING_FIELDS = (
    *("reasoning_content", "thinking", "thinking_block", "redacted_thinking", "reasoning", "reasoning_details"),
)
BESIDE_CONTENT = ("refusal", "function_call", "audio")
SEALS = frozenset({"signature", "data", "encrypted_content", "thoughtSignature"})  # fields that are not text
ID_FIELDS = frozenset(name for shape in (*SHAPES.values(), *UNTYPED.values()) for name in shape.id) - {"name"}

# In metadata: tools that a response loaded, without which calls of them are unknown; the response that a message was.
LOADED_TOOLS, CHAIN = "openai:tool_search_items", "openai:response_id"


class Block(NamedTuple):
    """A content block, or a call in `tool_calls`, as the table knows it."""

    shape: Shape
    whole: Mapping[str, Any]
    field: str  # that holds what it is; empty where it stands in its own fields
    inner: Mapping[str, Any]  # the fields of what it is
    said_in: str  # the field of what it says; empty where it is not read

    @property
    def said(self) -> Any:
        """Its text, its arguments or its result; nothing where it has none."""
        return self.inner.get(self.said_in)

    @property
    def named_in(self) -> str:
        return "tool" if not self.inner.get("name") and "tool" in self.inner else "name"

    @property
    def id(self) -> str:
        """The id that it shares with its other half; empty where it has none."""
        found = (each.get(name) for name in self.shape.id for each in (self.inner, self.whole))
        return call_id(next((id for id in found if id is not None), None))

    @property
    def seals(self) -> dict[str, str]:
        """The other fields of a block, which are not read."""
        beside = self.whole.items() if self.field else ()
        return {key: value for key, value in beside if key in SEALS and isinstance(value, str)}

    @property
    def half(self) -> Literal["call", "result", ""]:
        kind, bound = self.shape.kind, self.shape.bound
        if bound == "host" or (bound == "pair" and self.id):
            return "call" if kind == "call" else "result"
        return ""

    def saying(self, said: Any) -> Message:
        """Return the block with another text, other arguments or another result."""
        inner = {**self.inner, self.said_in: said}
        return {**self.whole, self.field: inner} if self.field else inner

    def changed(self, change: Callable[[Any], Any]) -> Message:
        return self.saying(change({} if self.said is None else self.said))


def read_block(block: Mapping[str, Any]) -> Block:
    if "type" in block:
        kind = kind_of(block)
        shape = SHAPES.get(kind)
        if shape is None:
            shape = next((shape for ending, shape in _ENDINGS.items() if kind.endswith(ending)), OPAQUE)
        is_odd = shape.kind == "text" and not isinstance(block.get(shape.says[0]), str)
        return _as_block(OPAQUE if is_odd else shape, block)
    if isinstance(block.get("text"), str):
        return _as_block(Shape("thinking") if block.get("thought") is True else TEXT, block)  # Gemini's
    field = next((field for field, value in block.items() if field in UNTYPED and isinstance(value, dict)), "")
    return _as_block(UNTYPED[field] if field else OPAQUE, block, field)


def read_call(call: Mapping[str, Any]) -> Block:
    """Return a listed call as a block: it says what it says in a field of its own, or stands by itself."""
    field = next((key for key in ("function", "custom") if isinstance(call.get(key), dict)), "")
    return _as_block(Shape("call", ("arguments", "input", "args"), ("id",), "host"), call, field)


def _as_block(shape: Shape, whole: Mapping[str, Any], field: str = "") -> Block:
    inner = whole[field] if field else whole
    said_in = next((name for name in shape.says if name in inner), next(iter(shape.says), ""))
    return Block(shape, whole, field, inner, said_in)


def kind_of(block: object) -> str:
    """Return the type of a block as it says it; empty where it says none."""
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


def shape_of(block: object) -> Shape:
    """Return the shape of whatever stands in a content."""
    return TEXT if isinstance(block, str) else read_block(block).shape if isinstance(block, dict) else OPAQUE


def call_id(value: object) -> str:
    """Return the id of a call as text, whatever JSON value it is."""
    return value if isinstance(value, str) else "" if value is None else canonical_json(value)


def is_result(message: Message) -> bool:
    """Return whether the whole content of a message is the result of one call."""
    return message["role"] == "tool" or ("tool_call_id" in message and message["role"] != "assistant")


def content_key(message: Message) -> Literal["content", "parts"]:
    """Return the field that a message's content stands in; Gemini's own is `parts`."""
    return "parts" if not message.get("content") and isinstance(message.get("parts"), list) else "content"


def blocks_of(message: Message) -> list[Any]:
    """Return the blocks of a message's content; none where it is a text."""
    content = message.get(content_key(message))
    return content if isinstance(content, list) else []


def result_message(shape: str, id: str, name: str, content: Any, *, failed: bool = False) -> Message:
    """Return the message that answers a call, in the shape in which the call was made: the type or the field of its
    block, or nothing for a call in `tool_calls`."""
    if shape == "tool_use":
        block = {"type": "tool_result", "tool_use_id": id, "content": content}
        return {"role": "user", "content": [{**block, "is_error": True} if failed else block]}
    if shape == "toolUse":
        said = [{"text": content}] if isinstance(content, str) else content
        result = {"toolUseId": id, "content": said, "status": "error" if failed else "success"}
        return {"role": "user", "content": [{"toolResult": result}]}
    if shape == "functionCall":
        named = {"name": name} if id == name else {"id": id, "name": name}
        response = {**named, "response": {"error" if failed else "output": content}}
        return {"role": "user", "parts": [{"functionResponse": response}]}
    return {"role": "tool", "tool_call_id": id, "content": content}


def text_block(message: Message, text: str) -> Message:
    """Return a text as a block of this message: without a type where its blocks say none, as in Bedrock's and Gemini's
    protocols."""
    key, blocks = content_key(message), blocks_of(message)
    is_plain = all(isinstance(block, dict) and "type" not in block for block in blocks)
    if is_plain and (key == "parts" or any(shape_of(block) is not OPAQUE for block in blocks)):
        return {"text": text}
    return {"type": "text", "text": text}


def state_names(block: object) -> Iterator[str]:
    """Yield what a block changes from there on: the tools that it makes known or takes away, the settings that it
    sets."""
    if isinstance(block, list):
        for each in block:
            yield from state_names(each)
    if not isinstance(block, dict):
        return
    kind, shape = kind_of(block), shape_of(block)
    if shape.kind != "state":
        if shape.kind in ("result", "opaque"):
            for name in ("content", "output", "tool_references", "tool_changes"):
                yield from state_names(block.get(name))
        return
    tools = block.get("tools", [block.get("tool", block)])
    for tool in tools if isinstance(tools, list) else []:
        named = tool.get("definition", tool) if isinstance(tool, dict) else {}
        called = named.get("tool_name", named.get("name")) if isinstance(named, dict) else None
        if isinstance(called, str):
            yield called
    if kind == "configuration_update":
        yield from (f"{kind}.{name}" for name in block if name not in ("type", "id"))


def has_signed_thinking(message: Message) -> bool:
    """Return whether a provider has signed, or encrypted, thinking of this message. OpenAI's state, which no prefix
    binds, has neither a signature nor that type."""
    held = list(blocks_of(message))
    for field in map(message.get, THINKING_FIELDS):
        held += field if isinstance(field, list) else [field]
    return any(
        block.get("type") == "redacted_thinking"
        or (isinstance(block.get("signature"), str) and bool(block["signature"]))
        or ("reasoningContent" in block and shape_of(block).bound == "prefix")
        for block in held
        if isinstance(block, dict)
    )


def needs_thinking(message: Message) -> bool:
    """Return whether a provider wants the thinking of this message back, as long as its turn goes on: a message that
    calls and begins with what was signed, and one with a field of which servers say that calls need it."""
    blocks, listed = blocks_of(message), message.get("tool_calls")
    calls = listed or any(shape_of(block).kind == "call" for block in blocks)
    is_signed = bool(blocks) and shape_of(blocks[0]).bound == "prefix"
    return bool((calls and is_signed) or (listed and message.get("reasoning_content")))


def without_thinking(message: Message) -> Message:
    """Return the message without its thinking, wherever a host keeps it; never without any content."""
    kept = {key: value for key, value in without_wire_content(message).items() if key not in THINKING_FIELDS}
    place = content_key(kept)
    if isinstance(content := kept.get(place), list):
        left_out = text_block(kept, "[thinking left out]")
        kept[place] = [block for block in content if shape_of(block).bound != "prefix"] or [left_out]
    return kept


def without_wire_content(message: Message) -> Message:
    """Return the message without the exact copy of its blocks that a host may keep beside them, and would send
    instead."""
    ours = metadata_of(message).get("anthropic")
    if not isinstance(ours, dict) or not isinstance(ours.get("wire_content"), list):
        return message
    rest = {key: value for key, value in ours.items() if key != "wire_content"}
    return {**message, "metadata": {**message["metadata"], "anthropic": rest}}


def loaded_tools(message: Message) -> Message | None:
    """Return what is left of a covered message that loaded tools: a row that still loads them. None for other
    messages."""
    tools = metadata_of(message).get(LOADED_TOOLS)
    row = {"role": "assistant", "content": "[tools were loaded here]", "metadata": {LOADED_TOOLS: tools}}
    return row if tools else None


def metadata_of(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a host notes of a message or a block."""
    metadata = holder.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def without_metadata(message: Message, name: str) -> Message:
    """Return the message without one of these notes."""
    metadata = metadata_of(message)
    if name not in metadata:
        return message
    return {**message, "metadata": {key: value for key, value in metadata.items() if key != name}}
