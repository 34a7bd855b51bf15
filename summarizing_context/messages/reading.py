"""What may enter the log, the bytes that it becomes, what every block of a message is, and what a message says.

Pure. A message enters as a copy, so that nothing a caller does to it later can change the log. `shapes.toml` tells what
every block and item of a message is, in every protocol, and what it is bound to. What is not in it is opaque: it
travels whole or not at all, and is read as text of its canonical JSON, so that no word goes unseen or uncounted.

A provider is sent every field but those named in `NEVER_SENT` and those that begin with an underscore, which are notes
of hosts and programs. Roles, types, ids and short flags are the frame: a message's framing pays for its role and one
type, the rest is charged. What else stands in a field is text that a model reads, or sealed: sent unread.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import msgspec

from summarizing_context.errors import MessageError, StoreCorruptError
from summarizing_context.messages.media import measure_media
from summarizing_context.messages.text import cleaned, is_put_in, split_pieces, stand_between

# -- what may enter

Message = dict[str, Any]
MAX_DEPTH = 100  # levels of nesting; far above what providers send, far below Python's recursion limit
_MAX_INT_BITS = 14_000  # CPython refuses to print integers of more than 4,300 digits
_FIELDS = frozenset(  # whose names an error may quote
    ["role", "content", "type", "text", "tool_calls", "tool_call_id", "function", "arguments", "input", "metadata"]
)

ROLES = ("system", "developer", "user", "assistant", "model", "tool", "function")
_BARE = frozenset({"role", "type", "id", "name", "metadata", "timestamp"})  # beside these a message says something
_encoder = msgspec.json.Encoder()


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
        if _BARE.issuperset(message):
            raise MessageError(f"the {role} message says nothing; give it 'content', or the calls that it makes")
        return _copy(message, "message", 0)  # type: ignore[no-any-return]
    except MessageError:
        raise
    except Exception as error:  # a mapping or a value with methods of its own
        raise MessageError(f"a message cannot be read: {type(error).__name__} while copying it") from error


def listed(messages: object) -> list[Any]:
    """Return messages as they stand now. Raise `MessageError` for what is no list of any."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise MessageError(f"messages are a list of messages, not {type(messages).__name__}")
    return list(messages)


def parse_messages(messages: object) -> Iterator[tuple[Message, bytes]]:
    """Yield the copies that `check_message` makes of several messages, all as they stand now, each with its JSON bytes;
    the `MessageError` says which one is wrong."""
    given = listed(messages)
    with suppress(Exception):  # a copy without their texts, where all of it is plain: it is parsed as it is asked for
        copies = msgspec.to_builtins(given)
        if copies == given and {dict}.issuperset(map(type, given)):
            return _each_parsed(copies)
    return iter(list(_each_parsed(given)))


def _each_parsed(messages: Iterable[object]) -> Iterator[tuple[Message, bytes]]:
    for at, message in enumerate(messages):
        try:
            yield (checked := check_message(message)), encode_message(checked)
        except MessageError as error:
            raise MessageError(f"message {at}: {error}") from error


def encodable(value: Any) -> Any:
    """Return a JSON value as UTF-8 can hold it: a lone surrogate becomes U+FFFD."""
    try:
        with suppress(OverflowError):  # of an integer, which is no text
            msgspec.msgpack.encode(value)  # has no escapes: of megabytes they would hold every other thread up
            return value
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


def parsed(text: str) -> Any:
    """Return the JSON value that a text is; None where it is none, or huge."""
    with suppress(msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return msgspec.json.decode(text) if len(text) <= 1_000_000 else None
    return None


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
        if value.isascii() or not re.search("[\ud800-\udbff][\udc00-\udfff]", value):
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
OPAQUE, TEXT, _LISTED = Shape("opaque"), SHAPES["text"], Shape("call", ("arguments", "input", "args"), ("id",), "host")

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
        found = [each[name] for name in self.shape.id for each in (self.inner, self.whole) if name in each]
        return call_id(next((id for id in found if id is not None), None))

    @property
    def seals(self) -> dict[str, str]:
        """The other fields of a block, which are not read."""
        beside = self.whole.items() if self.field else ()
        return {key: value for key, value in beside if key in SEALS and isinstance(value, str)}

    def saying(self, said: Any) -> Message:
        """Return the block with another text, other arguments or another result."""
        inner = {**self.inner, self.said_in: said}
        return {**self.whole, self.field: inner} if self.field else inner

    def changed(self, change: Callable[[Any], Any]) -> Message:
        return self.saying(change({} if self.said is None else self.said))


def read_block(block: Mapping[str, Any]) -> Block:
    if "type" in block:
        kind = kind_of(block)
        shape = SHAPES.get(kind) or next((_ENDINGS[end] for end in _ENDINGS if kind.endswith(end)), OPAQUE)
        is_odd = shape.kind == "text" and not isinstance(block.get(shape.says[0]), str)
        return _as_block(OPAQUE if is_odd else shape, block)
    if isinstance(block.get("text"), str):
        return _as_block(Shape("thinking") if block.get("thought") is True else TEXT, block)  # Gemini's
    field = next((field for field, value in block.items() if field in UNTYPED and isinstance(value, dict)), "")
    return _as_block(UNTYPED[field] if field else OPAQUE, block, field)


def read_call(call: Mapping[str, Any]) -> Block:
    """Return a listed call as a block: it says what it says in a field of its own, or stands by itself."""
    fields = [key for key in ("function", "custom") if isinstance(call.get(key), dict)]
    return _as_block(_LISTED, call, fields[0] if fields else "")


def _as_block(shape: Shape, whole: Mapping[str, Any], field: str = "") -> Block:
    inner = whole[field] if field else whole
    names = [name for name in shape.says if name in inner] or shape.says
    return Block(shape, whole, field, inner, names[0] if names else "")


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
    """Return the message that answers a call which was a block of this type or field, or stood in `tool_calls`."""
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
    """Return a text as a block of this message, without a type where its blocks say none (Bedrock, Gemini)."""
    key, blocks = content_key(message), blocks_of(message)
    is_plain = all(isinstance(block, dict) and "type" not in block for block in blocks)
    if is_plain and (key == "parts" or any(shape_of(block) is not OPAQUE for block in blocks)):
        return {"text": text}
    return {"type": "text", "text": text}


def state_names(block: object) -> Iterator[str]:
    """Yield what a block changes from there on: tools that it makes known or takes away, settings that it sets."""
    if isinstance(block, list):
        for each in block:
            yield from state_names(each)
    if not isinstance(block, dict):
        return
    kind = shape_of(block).kind
    if kind in ("result", "opaque"):
        yield from state_names([block.get(name) for name in ("content", "output", "tool_references", "tool_changes")])
    if kind == "state":
        tools = block.get("tools", [block.get("tool", block)])
        for tool in tools if isinstance(tools, list) else []:
            named = tool.get("definition", tool) if isinstance(tool, dict) else {}
            called = named.get("tool_name", named.get("name")) if isinstance(named, dict) else None
            if isinstance(called, str):
                yield called
        if kind_of(block) == "configuration_update":
            yield from (f"configuration_update.{name}" for name in block if name not in ("type", "id"))


def has_signed_thinking(message: Message) -> bool:
    """Return whether a provider has signed, or encrypted, thinking of this message. OpenAI's state, which no prefix
    binds, has neither a signature nor that type."""
    held = list(blocks_of(message))
    for field in map(message.get, message.keys() & THINKING_FIELDS):
        held += field if isinstance(field, list) else [field]
    return any(
        block.get("type") == "redacted_thinking"
        or (isinstance(block.get("signature"), str) and bool(block["signature"]))
        or ("reasoningContent" in block and shape_of(block).bound == "prefix")
        for block in held
        if isinstance(block, dict)
    )


def bound_among(messages: Mapping[int, Message]) -> set[int]:
    """Return which messages hold what a rewritten beginning makes void: signed thinking, or a chain."""
    return {at for at, one in messages.items() if has_signed_thinking(one) or CHAIN in metadata_of(one)}


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
    """Return the message without the exact copy of its blocks that a host may keep, and would send instead."""
    ours = metadata_of(message).get("anthropic")
    if not isinstance(ours, dict) or not isinstance(ours.get("wire_content"), list):
        return message
    rest = {key: value for key, value in ours.items() if key != "wire_content"}
    return {**message, "metadata": {**message["metadata"], "anthropic": rest}}


def loaded_tools(message: Message) -> Message | None:
    """Return a row that still loads the tools which a covered message has loaded; None for other messages."""
    if not (tools := metadata_of(message).get(LOADED_TOOLS)):
        return None
    return {"role": "assistant", "content": "[tools were loaded here]", "metadata": {LOADED_TOOLS: tools}}


def metadata_of(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a host notes of a message or a block."""
    return metadata if isinstance(metadata := holder.get("metadata"), dict) else {}


def without_metadata(message: Message, name: str) -> Message:
    """Return the message without one of these notes."""
    kept = {key: value for key, value in metadata_of(message).items() if key != name}
    return {**message, "metadata": kept} if name in metadata_of(message) else message


NEVER_SENT = frozenset({"metadata", "critical", "ephemeral", "timestamp", "created", "created_at", "usage"})
_IDS = ID_FIELDS | {"id", "item_id", "file_id"}
_FRAME = _IDS | {
    *("role", "type"),  # without them a message means another thing
    *("filename", "name", "tool", "index", "status", "is_error", "visibility", "caller", "cache_control"),
    *("format", "detail", "media_type", "mime_type", "mimeType"),
}
_BINARY = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{256,}")  # base64 and the like
_AS_RUN = bytes(97 if chr(code).isalnum() or chr(code) in "+/=_-" else 32 for code in range(128)) + b" " * 128
_NO_WORDS = re.compile(r"(?s)https?://.{0,1990}|(?:.{0,190};base64,)?[A-Za-z0-9+/=_.:\r\n-]*")  # an address, or encoded


class Part(NamedTuple):
    """One thing that a model reads in a message."""

    kind: Literal["text", "call", "result", "thinking", "media", "opaque", "extra"]
    texts: tuple[str, ...] = ()
    name: str = ""  # of the tool, for calls
    id: str = ""  # by which a call and its result are bound
    block: int = -1  # index in the content; -1 where the part is not a content block
    media: tuple[str, ...] = ()  # a digest for each image, sound or file
    failed: bool = False  # a result that reports an error
    shape: str = ""  # the type, or the field, of the block that it stands in; of calls, and of what is whole
    sealed: tuple[str, ...] = ()  # sent along for nobody to read: signatures, encrypted thinking, base64
    put_in: bool = False  # in a block that its host marks as its own
    half: Literal["call", "result", ""] = ""  # of a pair
    whole: bool = False  # travels as it came, or not at all
    measured: tuple[int, ...] = ()  # its media, as `measure_media` gives them

    @property
    def sent(self) -> tuple[str, ...]:
        """Its texts, and what is sealed in it."""
        return self.texts + self.sealed


class Reading(NamedTuple):
    """What a message says, and what it binds."""

    role: str
    parts: tuple[Part, ...]
    calls: tuple[str, ...] = ()  # ids of the calls it makes, in order; an id may occur twice
    answers: tuple[str, ...] = ()  # ids of the calls it answers, in order
    human: bool = False  # holds words that a person typed, or a file of theirs: begins a turn
    critical: bool = False
    ephemeral: bool = False
    typed: tuple[str, ...] = ()  # what a person typed: no result, nothing that a host put in, no words of a file
    held: tuple[str, ...] = ()  # of the calls, those that no host answers: the turn goes on until their results come
    state: tuple[str, ...] = ()  # names of what holds from there on
    frame: tuple[str, ...] = ()  # types, ids and short flags that the framing does not pay for

    @property
    def media(self) -> tuple[int, ...]:
        """Its images, sounds and files, as `measure_media` gives them."""
        return tuple([one for part in self.parts for one in part.measured])

    @property
    def texts(self) -> list[str]:
        """All that a model reads as text: texts, tool names, arguments, result texts, thinking."""
        return [text for part in self.parts for text in ((part.name, *part.texts) if part.name else part.texts)]

    @property
    def unread(self) -> list[str]:
        """All that is charged beside what a model reads: what is sealed, and the frame."""
        return [*(text for part in self.parts for text in part.sealed), *self.frame]


def read_message(message: Message) -> Reading:
    """Read a checked message. Never raises, whatever its shape."""
    reading = read_content(message)
    parts = reading.parts

    # What a person typed in a row of the user's.
    human = False
    typed: tuple[str, ...] = ()
    if reading.role == "user":
        if len(parts) > 2 and sum(part.kind == "text" for part in parts) > 2:  # those between a host's tags are its
            between = stand_between(["\n".join(part.texts) if part.kind == "text" else "" for part in parts])
            parts = tuple(part._replace(put_in=part.put_in or held) for part, held in zip(parts, between, strict=True))
        if not is_put_in(message):
            typed = typed_texts(parts)
            human = bool(typed) or any(part.kind == "media" and not part.put_in for part in parts)

    # What it binds: what is answered in the message itself is bound to nothing outside.
    inside = {part.id for part in parts if part.half == "call"} & {part.id for part in parts if part.half == "result"}
    calls = [part for part in parts if part.half == "call" and part.id not in inside]
    answers = tuple([part.id for part in parts if part.half == "result" and part.id not in inside])
    flags = metadata_of(message)
    passes = message.get("ephemeral") is True or (flags.get("ephemeral") is True and flags.get("persisted") is not True)
    return reading._replace(
        parts=parts,
        calls=tuple([part.id for part in calls]),
        answers=answers,
        human=human,
        critical=message.get("critical") is True or flags.get("critical") is True or bool(flags.get(LOADED_TOOLS)),
        ephemeral=passes and not (calls or answers),
        typed=typed,
        held=tuple([part.id for part in calls if part.whole]),
        state=tuple(dict.fromkeys(state_names(blocks_of(message)))) if any(part.whole for part in parts) else (),
    )


def read_content(message: Message) -> Reading:
    """Return the parts of a checked message alone: what it says, not what it binds, nor whose it is."""
    return _read(message)[0]


def _read(message: Message) -> tuple[Reading, list[_Fields]]:
    """Return the same, and whatever has fields in the message. Of what is opaque, a medium or thinking all is read."""
    content, is_answer = message.get(content_key(message)), is_result(message)
    if not is_answer and isinstance(content, str) and len(message) == 2:  # a role, and a text alone
        return Reading(message["role"], (_text(content),) if content else ()), []
    frame: list[str] = []  # a display: calling `list[str]` takes fifteen times as long
    of_calls: list[_Fields] = []
    of_blocks: list[_Fields] = []
    of_results: list[_Fields] = []

    # Its content: the result of a call, blocks, or a text.
    if is_answer:
        parts = [_result(content, call_id(message.get("tool_call_id")), message, -1, of_results)]
    elif isinstance(content, list):
        parts = [_block(value, at, frame, of_blocks, of_results) for at, value in enumerate(content)]
    else:
        parts = [] if content is None or content == "" else [_text(content)]

    # The calls that are listed, but for what a block says as well.
    listed = message.get("tool_calls")
    if isinstance(listed, list):
        shown = {part.id: part for part in parts if part.kind == "call"}
        for value in listed:
            if not isinstance(value, dict):
                parts.append(_opaque(value))
                continue
            block = read_call(value)
            of_calls += _fields_of(block, -1)
            call = _call(block)
            if (same := shown.get(call.id)) is None:
                parts.append(call)
                continue
            both = [each.texts if (value := parsed(each.texts[0])) is None else value for each in (call, same)]
            if call.name not in ("", same.name) or both[0] != both[1]:
                parts.append(Part("extra", tuple(filter(None, (call.name, *call.texts)))))  # another with the same id

    # The other fields: those that are read, and of all that has fields the frame, and fields that no shape knows.
    parts += [_text(message[field]) for field in BESIDE_CONTENT if message.get(field)]
    fields_read = ["role", "content", content_key(message), *BESIDE_CONTENT]
    fields_read += ["tool_call_id"] if is_answer else THINKING_FIELDS
    fields_read += ["tool_calls"] if isinstance(listed, list) or not listed else []  # else a field like any other
    fields: list[_Fields] = [(message, NEVER_SENT.union(fields_read), -1), *of_calls, *of_blocks, *of_results]
    for holder, known, at in fields:
        for key in holder:
            if key in _FRAME and key != "role" and (key in _IDS if key in known else _is_small(key, holder[key])):
                frame += [text for _, text in _leaves(holder[key], "")]
        if odd := _odd_fields(holder, known):
            rest = {key: holder[key] for key in odd if key not in _IDS}
            extra = _opaque(rest, at) if rest else Part("extra", block=at)
            ids = [text for key in odd if key in _IDS for _, text in _leaves(holder[key], "")]
            parts.append(extra._replace(kind="extra", sealed=(*extra.sealed, *ids)))

    # Thinking beside the content was there before it: each word of it once, whatever fields repeat it.
    thoughts: list[Part] = []
    for field in () if is_answer else THINKING_FIELDS:
        if value := message.get(field):
            said = {text for part in (*parts, *thoughts) if part.kind == "thinking" for text in part.texts}
            thought = _thinking(value, -1, frame)
            again = tuple(text for text in thought.texts if text in said)
            new = tuple(text for text in thought.texts if text not in said)
            thoughts.append(thought._replace(texts=new, sealed=thought.sealed + again))

    if loaded := metadata_of(message).get(LOADED_TOOLS):  # the one thing in it that a provider is sent
        parts.append(Part("extra", sealed=(canonical_json(loaded),)))
    for word in frame:
        # for one type of few tokens, and for the role, the framing of a message pays
        if word in ("text", "function", "tool_use", "tool_call", "tool_result", "thinking"):
            frame.remove(word)
            break
    return Reading(message["role"], (*thoughts, *parts), frame=tuple(frame)), fields


def searchable(message: bytes) -> str:
    """Return the texts of a stored message, without what colours a terminal; nothing for bytes that hold none.

    The index of a store is written by it, and forgets by it: another one needs another version of the schema.
    """
    try:
        text = cleaned("\n".join(read_content(decode_message(message)).texts))
    except Exception:  # not JSON, or no message: written by other means
        return ""
    if text.isascii():  # known at once, where writing megabytes and reading them again holds up every other thread
        return text
    return text.encode("utf-8", "replace").decode("utf-8")  # SQLite takes no lone surrogates


def message_text_parts(message: Mapping[str, Any]) -> list[str]:
    """The texts of a message that are charged as tokens, in reading order.

    The cost of a message is 4 + the sum of `count(part)` over these, plus what its media cost by their size, or
    `image_tokens` each.
    Raises `MessageError` for what could not enter the log.
    """
    reading = read_content(check_message(message))
    return reading.texts + reading.unread


def content_texts(content: object) -> list[str]:
    """Return the texts that stand in some content, and what is sealed in it."""
    return [text for part in read_content({"role": "user", "content": content}).parts for text in part.sent]


def typed_texts(parts: Iterable[Part]) -> tuple[str, ...]:
    """Return what a person typed of the parts of a row that is no host's."""
    typed: list[str] = []
    for text in [text for part in parts if part.kind == "text" and not part.put_in for text in part.texts]:
        pieces = split_pieces(text)
        said = "\n".join([piece.text for piece in pieces if piece.typed])
        if said and not said.isspace():
            typed.append(said.rstrip("\n") if len(pieces) > 1 else said)
    return tuple(typed)


def is_wordless_media(block: object) -> bool:
    """Return whether a content block is an image, a sound or a file with no text of its own."""
    return isinstance(block, dict) and shape_of(block).kind == "media" and not _media_words(read_block(block).inner)


def without_extras(message: Message) -> Message:
    """Return the message without its extras, wherever they stand; who speaks stays."""
    left = without_metadata(check_message(message), LOADED_TOOLS)
    for holder, known, _ in _read(left)[1]:
        for key in _odd_fields(holder, known):
            del holder[key]
    return left


# What has fields in a message (it, a text, a call, a result), the names of those that are read, the place of its block.
_Fields = tuple[Any, Collection[str], int]


def _fields_of(block: Block, at: int) -> list[_Fields]:
    name = (block.named_in,) if block.shape.kind == "call" else ()
    own = (block.inner, {block.said_in, *block.shape.id, *name}, at)
    return [own, (block.whole, {block.field, *block.shape.id, *block.seals}, at)] if block.field else [own]


def _block(value: object, at: int, frame: list[str], fields: list[_Fields], inner: list[_Fields]) -> Part:
    """Return the part that a block is. What the frame holds of its thinking is added to `frame`, what has fields in it
    to `fields`, and in a result that it is to `inner`."""
    if not isinstance(value, dict):
        return _text(value, at)
    block = read_block(value)
    kind, name = block.shape.kind, block.field or kind_of(value)
    if kind == "thinking":
        return _thinking(value, at, frame)
    if kind == "media":
        text = canonical_json(value)
        part = Part("media", _media_words(block.inner), block=at, put_in=is_put_in(value))
        return part._replace(media=(hashlib.sha256(text.encode()).hexdigest(),), measured=(measure_media(text),))
    if block.shape.is_whole or kind in ("opaque", "state"):
        part = _opaque(value, at)._replace(shape=name, whole=block.shape.is_whole)
        if block.shape.bound != "pair" or not block.id:
            return part
        return part._replace(id=block.id, half="call" if kind == "call" else "result")
    fields += _fields_of(block, at)
    if kind == "text":
        return Part("text", (block.said,), block=at, put_in=is_put_in(value))
    if kind == "call":
        return _call(block, at, name)
    part = _result(block.said, block.id, block.inner, at, inner)
    tool = str(block.inner.get("name") or "") if "name" in block.shape.id else ""
    return part._replace(name=tool, sealed=(*block.seals.values(), *part.sealed))


def _call(block: Block, at: int = -1, shape: str = "") -> Part:
    said = block.inner.get(block.said_in, {})
    arguments = said if isinstance(said, str) else canonical_json(said)
    name = str(block.inner.get(block.named_in) or "")
    return Part("call", (arguments,), name, block.id, at, (), False, shape, tuple(block.seals.values()), half="call")


def _result(content: object, id: str, holder: Mapping[str, Any], at: int, inner: list[_Fields]) -> Part:
    """Return the result of a call, in a block or a message. What has fields in its texts is added to `inner`."""
    texts = [content] if isinstance(content, str) and content else []
    media: list[str] = []
    sealed: list[str] = []
    measured: list[int] = []
    blocks = content if isinstance(content, list) else [] if texts or content is None or content == "" else [content]
    for value in blocks:
        fields: list[_Fields] = []
        part = _block(value, -1, [], fields, [])
        if part.kind not in ("text", "media"):
            part = _opaque(value)
        elif blocks is content:
            inner += [(holder, known, at) for holder, known, _ in fields]
        texts += part.texts
        media += part.media
        measured += part.measured
        sealed += part.sealed
    failed = holder.get("is_error") is True or holder.get("status") == "error"
    whole = blocks is content and any(kind_of(block) and shape_of(block).is_whole for block in blocks)
    part = Part("result", tuple(texts), id=id, block=at, media=tuple(media), failed=failed, half="result", whole=whole)
    return part._replace(sealed=tuple(sealed), measured=tuple(measured)) if sealed or measured else part


def _text(value: object, at: int = -1) -> Part:
    return Part("text", (value,), block=at) if isinstance(value, str) else _opaque(value, at)


def _opaque(value: object, at: int = -1) -> Part:
    """Return a JSON value as one text, itself or its canonical JSON, with `…` for each run of base64; these sealed."""
    text = value if isinstance(value, str) else canonical_json(value)
    has_run = b"a" * 256 in text.encode("utf-8", "surrogatepass").translate(_AS_RUN)  # seen at once, also in megabytes
    sealed = tuple(_BINARY.findall(text)) if has_run else ()
    rest = _BINARY.sub("…", text) if sealed else text
    return Part("opaque", (rest,) if rest != "…" else (), block=at, sealed=sealed)


def _thinking(value: object, at: int, frame: list[str]) -> Part:
    """Return readable thinking, of a block, a list of them or a text; signatures and encrypted data are sealed."""
    texts, sealed = list[str](), list[str]()
    for key, text in _leaves(value, "text"):
        is_meant = key in ("thinking", "text", "summary", "reasoning")
        is_sealed = key in SEALS or (not is_meant and _NO_WORDS.fullmatch(text))
        (frame if _is_small(key, text) else sealed if is_sealed else texts).append(text)
    return Part("thinking", tuple(texts), block=at, sealed=tuple(sealed))


def _media_words(block: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words that travel with a medium: title, context, the text of a document, what else is no payload."""
    source = block.get("source")
    meant = ("title", "context", *(["data"] if kind_of(source) == "text" else ()))
    return tuple(
        text
        for key, text in _leaves(block, "")
        if key in meant or not (_NO_WORDS.fullmatch(text) or _is_small(key, text))
    )


def _odd_fields(holder: Message, known: Collection[str]) -> list[str]:
    """Return the fields beside the known ones in which there is anything to charge, in one order."""
    left = [key for key in holder if key not in known]
    return sorted([key for key in left if not (key.startswith("_") or _is_small(key, holder[key]))]) if left else left


def _leaves(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield the texts inside a value, with the names that they stand under, in one order; long lists of numbers too."""
    if isinstance(value, dict):
        for name in sorted(value, key=lambda name: (name == "summary", name != "thinking", name)):
            if not name.startswith("_"):
                yield from _leaves(value[name], name)
    elif isinstance(value, list):
        inner = [leaf for item in value for leaf in _leaves(item, key)]
        yield from inner or ([(key, canonical_json(value))] if len(value) > 32 else ())
    elif value and isinstance(value, str):
        yield key, value


def _is_small(key: str, value: object) -> bool:
    """Return whether a field is nothing, a flag, a number or a part of the frame: no text of its own."""
    if len(key) > 24 or not key.isascii():
        return False
    if value is True or not value:
        return True
    if key not in _FRAME and not isinstance(value, int | float):
        return False
    text = value if isinstance(value, str) else canonical_json(value)
    return text.isascii() and len(text) <= (8 if key in _IDS else 24)
