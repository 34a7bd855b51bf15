"""Read messages: their parts, the calls that they make and answer, what a human typed, and what is charged.

Pure. What each block is stands in `shapes`. Anything unknown is read as text of its canonical JSON, so that no word
goes unseen or uncounted.

A provider is sent every field but those named in `NEVER_SENT` and those that begin with an underscore, which are notes
of hosts and programs. Roles, types, ids and short flags are the frame: a message's framing pays for its role and one
type, the rest is charged. What else stands in a field is text that a model reads, or sealed: sent unread.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from summarizing_context.messages.fences import is_put_in, split_pieces, stand_between
from summarizing_context.messages.shapes import (
    BESIDE_CONTENT,
    ID_FIELDS,
    LOADED_TOOLS,
    SEALS,
    THINKING_FIELDS,
    Block,
    Message,
    blocks_of,
    call_id,
    canonical_json,
    check_message,
    content_key,
    is_result,
    kind_of,
    metadata_of,
    read_block,
    read_call,
    shape_of,
    state_names,
    without_metadata,
)

NEVER_SENT = frozenset({"metadata", "critical", "ephemeral", "timestamp", "created", "created_at", "usage"})
_IDS = ID_FIELDS | {"id", "item_id", "file_id"}
_FRAME = _IDS | {
    *("role", "type"),  # without them a message means another thing
    *("filename", "name", "tool", "index", "status", "is_error", "visibility", "caller", "cache_control"),
    *("format", "detail", "media_type", "mime_type", "mimeType"),
}
_BINARY = re.compile(r"[A-Za-z0-9+/=_-]{256,}")  # base64 and the like
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
    def media(self) -> int:
        """How many images, sounds and files it holds."""
        return sum(len(part.media) for part in self.parts)

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
    reading, _ = _read(message)
    parts: Sequence[Part] = reading.parts

    # What a person typed in a row of the user's.
    human, typed = False, tuple[str, ...]()
    if reading.role == "user":
        if sum(part.kind == "text" for part in parts) > 2:  # those between a host's tags in other parts are the host's
            between = stand_between(["\n".join(part.texts) if part.kind == "text" else "" for part in parts])
            parts = [part._replace(put_in=True) if held else part for part, held in zip(parts, between, strict=True)]
        if not is_put_in(message):
            typed = typed_texts(parts)
            human = bool(typed) or any(part.kind == "media" and not part.put_in for part in parts)

    # What it binds: what is answered in the message itself is bound to nothing outside.
    calls, answers, held = list[str](), list[str](), list[str]()
    inside = {part.id for part in parts if part.half == "call"} & {part.id for part in parts if part.half == "result"}
    for part in parts:
        if part.half and part.id not in inside:
            (calls if part.half == "call" else answers).append(part.id)
            if part.half == "call" and part.whole:
                held.append(part.id)
    flags = metadata_of(message)
    passes = message.get("ephemeral") is True or (flags.get("ephemeral") is True and flags.get("persisted") is not True)
    return reading._replace(
        parts=tuple(parts),
        calls=tuple(calls),
        answers=tuple(answers),
        human=human,
        critical=message.get("critical") is True or flags.get("critical") is True or bool(flags.get(LOADED_TOOLS)),
        ephemeral=passes and not (calls or answers),
        typed=typed,
        held=tuple(held),
        state=tuple(dict.fromkeys(state_names(blocks_of(message)))) if any(part.whole for part in parts) else (),
    )


def read_content(message: Message) -> Reading:
    """Return the parts of a checked message alone: what it says, not what it binds, nor whose it is."""
    return _read(message)[0]


def _read(message: Message) -> tuple[Reading, list[_Fields]]:
    """Return the same, and whatever has fields in the message. Of what is opaque, a medium or thinking all is read."""
    content, is_answer = message.get(content_key(message)), is_result(message)
    frame, of_calls, of_blocks, of_results = list[str](), list[_Fields](), list[_Fields](), list[_Fields]()

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
            elif call.name not in ("", same.name) or _parsed(call.texts[0]) != _parsed(same.texts[0]):
                parts.append(Part("extra", tuple(filter(None, (call.name, *call.texts)))))  # another with the same id

    # The other fields: those that are read, and of all that has fields the frame, and fields that no shape knows.
    parts += [_text(message[field]) for field in BESIDE_CONTENT if message.get(field)]
    fields_read = ["content", content_key(message), *BESIDE_CONTENT]
    fields_read += ["tool_call_id"] if is_answer else THINKING_FIELDS
    fields_read += ["tool_calls"] if isinstance(listed, list) or not listed else []  # else a field like any other
    own = _Fields(message, NEVER_SENT.union(fields_read), -1)
    for holder, known, at in (fields := [own, *of_calls, *of_blocks, *of_results]):
        for key, value in holder.items():
            if key in _FRAME and key != "role" and (key in _IDS if key in known else _is_small(key, value)):
                frame += [text for _, text in _leaves(value, "")]
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
            new = tuple(text for text in thought.texts if text not in said)
            again = [text for text in thought.texts if text in said]
            thoughts.append(thought._replace(texts=new, sealed=(*thought.sealed, *again)))

    if loaded := metadata_of(message).get(LOADED_TOOLS):  # the one thing in it that a provider is sent
        parts.append(Part("extra", sealed=(canonical_json(loaded),)))
    for word in frame:
        # for one type of few tokens, and for the role, the framing of a message pays
        if word in ("text", "function", "tool_use", "tool_call", "tool_result", "thinking"):
            frame.remove(word)
            break
    return Reading(message["role"], (*thoughts, *parts), frame=tuple(frame)), fields


def message_text_parts(message: Mapping[str, Any]) -> list[str]:
    """The texts of a message that are charged as tokens, in reading order.

    The cost of a message is 4 + the sum of `count(part)` over these, plus `image_tokens` for each image.
    Raises `MessageError` for what could not enter the log.
    """
    reading = read_content(check_message(message))
    return reading.texts + reading.unread


def content_texts(content: object) -> list[str]:
    """Return the texts that stand in some content, and what is sealed in it."""
    return [text for part in read_content({"role": "user", "content": content}).parts for text in part.sent]


def typed_texts(parts: Iterable[Part]) -> tuple[str, ...]:
    """Return what a person typed of the parts of a row that is no host's."""
    typed = list[str]()
    for part in parts:
        for text in part.texts if part.kind == "text" and not part.put_in else ():
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


class _Fields(NamedTuple):
    """What has fields in a message, the message, a text, a call or a result; the names of those that are read, and the
    place of its block."""

    holder: Any
    known: Collection[str]
    at: int


def _fields_of(block: Block, at: int) -> list[_Fields]:
    name = (block.named_in,) if block.shape.kind == "call" else ()
    fields = [_Fields(block.inner, {block.said_in, *block.shape.id, *name}, at)]
    if block.field:
        fields.append(_Fields(block.whole, {block.field, *block.shape.id, *block.seals}, at))
    return fields


def _block(value: object, at: int, frame: list[str], fields: list[_Fields], inner: list[_Fields]) -> Part:
    """Return the part that a block is. What the frame holds of its thinking is added to `frame`, what has fields in it
    to `fields`, and in a result that it is to `inner`."""
    if not isinstance(value, dict):
        return _text(value)._replace(block=at)
    block = read_block(value)
    kind, name = block.shape.kind, block.field or kind_of(value)
    if kind == "thinking":
        return _thinking(value, at, frame)
    if kind == "media":
        digest = hashlib.sha256(canonical_json(value).encode()).hexdigest()
        return Part("media", _media_words(block.inner), block=at, media=(digest,), put_in=is_put_in(value))
    if block.shape.is_whole or kind in ("opaque", "state"):
        whole, half = block.shape.is_whole, block.half
        return _opaque(value, at)._replace(id=block.id if half else "", shape=name, half=half, whole=whole)
    fields += _fields_of(block, at)
    if kind == "text":
        return Part("text", (block.said,), block=at, put_in=is_put_in(value))
    if kind == "call":
        return _call(block)._replace(block=at, shape=name)
    part = _result(block.said, block.id, block.inner, at, inner)
    tool = str(block.inner.get("name") or "") if "name" in block.shape.id else ""
    return part._replace(name=tool, sealed=(*block.seals.values(), *part.sealed))


def _call(block: Block) -> Part:
    said = block.inner.get(block.said_in, {})
    arguments = said if isinstance(said, str) else canonical_json(said)
    name = str(block.inner.get(block.named_in) or "")
    return Part("call", (arguments,), name, block.id, sealed=tuple(block.seals.values()), half="call")


def _parsed(arguments: str) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(arguments)
    return arguments


def _result(content: object, id: str, holder: Mapping[str, Any], at: int, inner: list[_Fields]) -> Part:
    """Return the result of a call that some content is, whatever its nesting, in a block or a message. What has fields
    in its texts is added to `inner`."""
    blocks = content if isinstance(content, list) else [] if content is None or content == "" else [content]
    texts, media, sealed = list[str](), list[str](), list[str]()
    for value in blocks:
        fields = list[_Fields]()
        part = _block(value, -1, [], fields, [])
        if part.kind not in ("text", "media"):
            part = _opaque(value)
        elif blocks is content:
            inner += [each._replace(at=at) for each in fields]
        texts += part.texts
        media += part.media
        sealed += part.sealed
    return Part(
        "result",
        tuple(texts),
        id=id,
        block=at,
        media=tuple(media),
        failed=holder.get("is_error") is True or holder.get("status") == "error",
        sealed=tuple(sealed),
        half="result",
        whole=blocks is content and any(kind_of(block) and shape_of(block).is_whole for block in blocks),
    )


def _text(value: object) -> Part:
    return Part("text", (value,)) if isinstance(value, str) else _opaque(value)


def _opaque(value: object, at: int = -1) -> Part:
    """Return a JSON value as one text, itself or its canonical JSON, with `…` for each run of base64; these sealed."""
    text = value if isinstance(value, str) else canonical_json(value)
    sealed = tuple(_BINARY.findall(text))
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
    """Return the words that travel with an image, a sound or a file, which itself is charged as a whole: its title, its
    context, its text if it is a text document, and whatever else is no payload."""
    source = block.get("source")
    is_text = isinstance(source, dict) and source.get("type") == "text"
    meant = ("title", "context", "data") if is_text else ("title", "context")
    return tuple(
        text
        for key, text in _leaves(block, "")
        if key in meant or not (_NO_WORDS.fullmatch(text) or _is_small(key, text))
    )


def _odd_fields(holder: Message, known: Collection[str]) -> list[str]:
    """Return the fields beside the known ones in which there is anything to charge, in one order."""
    return sorted(
        key for key in holder if key not in known and not key.startswith("_") and not _is_small(key, holder[key])
    )


def _leaves(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield the texts inside a value, each with the name that it stands under, in one order; of a long list of numbers
    its JSON."""
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
