"""Reading messages: their parts, the calls that they make and answer, what a human typed, and what is charged.

Pure. What each block is stands in `shapes`. Anything unknown is read as text of its canonical JSON, so that no word
goes unseen or uncounted.

A provider is sent every field but those named in `NEVER_SENT` and those that begin with an underscore, which are notes
of hosts and programs. Roles, types and short ids and flags are the frame: a message's framing pays for its role and one
type, the rest is charged. What else stands in a field is text that a model reads, or sealed: sent unread.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from summarizing_context.messages.authorship import is_injected, is_put_in, split_words, stand_between
from summarizing_context.messages.shapes import (
    BESIDE_CONTENT,
    ID_FIELDS,
    LOADED_TOOLS,
    SEALS,
    TEXT,
    THINKING_FIELDS,
    Message,
    blocks_of,
    call_id,
    call_places,
    canonical_json,
    check_message,
    content_key,
    is_result,
    kind_of,
    metadata_of,
    read_block,
    shape_of,
    state_names,
)

NEVER_SENT = frozenset({"metadata", "critical", "ephemeral", "timestamp", "created", "created_at", "usage"})
_IDS = ID_FIELDS | {"id", "item_id", "file_id"}
_FRAME = _IDS | {
    *("role", "type"),  # without them a message means another thing
    *("filename", "name", "tool", "index", "status", "is_error", "visibility", "caller", "cache_control"),
    *("format", "detail", "media_type", "mime_type", "mimeType"),
}
_FEW = 32  # fields of small numbers, or of nothing, that the framing pays for
_BINARY = re.compile(r"[A-Za-z0-9+/=_-]{256,}")  # base64 and the like
_CODED = re.compile(r"[A-Za-z0-9+/=_.:-]+")
_WORDS = frozenset({"thinking", "text", "summary", "reasoning"})  # of thinking, what is meant to be read
_NAMES = _FRAME | _WORDS | SEALS | {"title", "context", "source", "url", "image_url", "file_data"}
_PAID = frozenset({"text", "function", "tool_use", "tool_call", "tool_result", "thinking"})  # types of few tokens

Sent = tuple[tuple[str, ...], tuple[str, ...]]  # texts that a model reads, and what travels along unread


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
    turn: bool = False  # begins a turn of the user's; enters keys and cuts, so it stays as it was first defined
    human: bool = False  # holds words that a person typed, or a file
    critical: bool = False
    ephemeral: bool = False
    again: tuple[str, ...] = ()  # thinking that stands in one more field, and what is sealed beside it
    typed: tuple[str, ...] = ()  # what a person typed: no result, nothing that a host put in, no words of a file
    held: tuple[str, ...] = ()  # of the calls, those that no host answers: the turn goes on until their results come
    state: tuple[str, ...] = ()  # names of what holds from there on
    frame: tuple[str, ...] = ()  # types, short ids and short flags that the framing does not pay for

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
        """What its parts send beside what a model reads."""
        return [*(text for part in self.parts for text in part.sealed), *self.again]

    @property
    def sent(self) -> list[str]:
        """What a model reads, and what travels along unread."""
        return [*self.texts, *self.unread]

    @property
    def charged(self) -> list[str]:
        """All that is charged as text: what its parts send, and the frame around them."""
        return [*self.sent, *self.frame]

    @property
    def said(self) -> Reading:
        """Return the reading without sealed fields and frame."""
        if not (self.unread or self.frame):
            return self
        return self._replace(parts=tuple(part._replace(sealed=()) for part in self.parts), again=(), frame=())


def read_message(message: Message) -> Reading:
    """Read a checked message. Never raises, whatever its shape."""
    reading = read_content(message)
    parts: Sequence[Part] = reading.parts
    turn = human = False
    typed: tuple[str, ...] = ()
    if reading.role == "user":
        if sum(part.kind == "text" for part in parts) > 2:  # those between a host's tags in other parts are the host's
            between = stand_between(["\n".join(part.texts) if part.kind == "text" else "" for part in parts])
            parts = [part._replace(put_in=True) if held else part for part, held in zip(parts, between, strict=True)]
        if not is_injected(message):
            words = (part for part in parts if part.kind in ("text", "media"))
            turn = any(not any(map(is_reminder, part.texts)) for part in words)
            if not is_put_in(message):
                typed = typed_texts(parts)
                human = bool(typed) or any(part.kind == "media" and not part.put_in for part in parts)
    calls = [part.id for part in parts if part.half == "call"]
    answers = [part.id for part in parts if part.half == "result"]
    if inside := set(calls) & set(answers):  # answered in the message itself: bound to nothing outside
        calls, answers = ([id for id in ids if id not in inside] for ids in (calls, answers))
    flags = metadata_of(message)
    passing = message.get("ephemeral") is True or (
        flags.get("ephemeral") is True and flags.get("persisted") is not True
    )
    return reading._replace(
        parts=tuple(parts),
        calls=tuple(calls),
        answers=tuple(answers),
        turn=turn,
        human=human,
        critical=message.get("critical") is True or flags.get("critical") is True or bool(flags.get(LOADED_TOOLS)),
        ephemeral=passing and not calls and not answers,
        typed=typed,
        held=tuple(part.id for part in parts if part.half == "call" and part.whole and part.id not in inside),
        state=tuple(dict.fromkeys(state_names(blocks_of(message)))) if any(part.whole for part in parts) else (),
    )


def read_content(message: Message) -> Reading:
    """Return the parts of a checked message alone: what it says, not what it binds, nor whose it is."""
    content = message.get(content_key(message))
    parts: list[Part] = []
    again: list[str] = []
    frame: list[str] = []
    if is_result(message):
        parts.append(_result(content, call_id(message.get("tool_call_id")), message, -1, frame))
    elif isinstance(content, list):
        for index, block in enumerate(content):
            parts += _block_parts(block, index, frame)
    elif isinstance(content, str):
        parts += [Part("text", (content,))] if content else []
    elif content is not None:
        parts.append(_opaque(content))
    if isinstance(calls := message.get("tool_calls"), list):
        shown = {part.id: part for part in parts if part.kind == "call"}
        for call in calls:
            parts += _listed_call(call, shown, frame)
    for field in BESIDE_CONTENT:
        if value := message.get(field):
            parts.append(Part("text", (value,)) if isinstance(value, str) else _opaque(value))
    parts += _extra(message, known_fields(message), -1, frame)
    if not is_result(message) and not message.keys().isdisjoint(THINKING_FIELDS):
        thoughts, again = _thinking_fields(message, parts, frame)
        parts = [*thoughts, *parts]
    if loaded := metadata_of(message).get(LOADED_TOOLS):  # the one thing in it that a provider is sent
        again.append(canonical_json(loaded))
    if (paid := next((word for word in frame if word in _PAID), None)) is not None:
        frame.remove(paid)  # for one type, and for the role, the framing of a message pays
    return Reading(message["role"], tuple(parts), again=tuple(again), frame=tuple(frame))


def message_text_parts(message: Mapping[str, Any]) -> list[str]:
    """The texts of a message that are charged as tokens, in reading order.

    The cost of a message is 4 + the sum of `count(part)` over these, plus `image_tokens` for each image.
    Raises `MessageError` for what could not enter the log.
    """
    return read_content(check_message(message)).charged


def content_texts(content: object) -> list[str]:
    """Return the texts that stand in some content, and what is sealed in it."""
    return read_content({"role": "user", "content": content}).sent


def texts_to_quote(message: Message, part: Part) -> Sequence[str]:
    """Return what a note may quote of a part: of one that travels whole, the texts that stand in its result."""
    if not part.whole:
        return part.texts
    content = message.get("content") if part.block < 0 else read_block(blocks_of(message)[part.block]).said
    inner = content if part.kind == "result" and isinstance(content, list) else []
    return [block if isinstance(block, str) else read_block(block).said for block in inner if shape_of(block) is TEXT]


def typed_texts(parts: Iterable[Part]) -> tuple[str, ...]:
    """Return what a person typed of the parts of a row that is no host's."""
    texts = (text for part in parts if part.kind == "text" and not part.put_in for text in part.texts)
    return tuple(said for text in texts if (said := split_words(text)[0]) and not said.isspace())


def is_reminder(text: str) -> bool:
    """Return whether a text is a host's reminder rather than a person's words."""
    return text.lstrip().startswith("<system-reminder")


def known_fields(message: Message) -> frozenset[str]:
    """Return the fields that the parts of a message hold. A list of calls that is no list is a field like any unknown
    one."""
    known = NEVER_SENT.union(BESIDE_CONTENT, ["content", content_key(message), "tool_calls"])
    known = known.union(["tool_call_id"] if is_result(message) else THINKING_FIELDS)
    calls = message.get("tool_calls")
    return known if isinstance(calls, list) or not calls else known - {"tool_calls"}


def _block_parts(value: object, index: int, frame: list[str]) -> Iterator[Part]:
    """Yield the part that a block is, and what else stands in its fields; what the frame holds is added to `frame`."""
    if isinstance(value, str):
        yield Part("text", (value,), block=index)
        return
    if not isinstance(value, dict):
        yield _opaque(value, index)
        return
    block = read_block(value)
    shape, name = block.shape, block.field or kind_of(value)
    if shape.kind == "thinking":
        texts, sealed = _read_thinking(value, frame)
        yield Part("thinking", texts, block=index, sealed=sealed)
    elif shape.kind == "media":
        texts, sealed, media = _flat_texts([value], frame)
        yield Part("media", texts, block=index, media=media, sealed=sealed, put_in=is_put_in(value))
    elif shape.is_whole or shape.kind == "opaque":
        id = block.id if (half := block.half) else ""
        yield _opaque(value, index)._replace(id=id, shape=name, half=half, whole=shape.is_whole)
    else:
        if shape.kind == "text":
            part = Part("text", (block.said,), block=index, put_in=is_put_in(value))
        elif shape.kind == "result":
            part = _result(block.said, block.id, block.inner, index, frame)
        else:
            said, id = block.inner.get(block.said_in, {}), block.id
            arguments = said if isinstance(said, str) else canonical_json(said)
            tool = str(block.inner.get("name") or "")
            part = Part("call", (arguments,), tool, id, index, shape=name, sealed=long_id(id), half="call")
        outer: Iterable[Part] = ()
        if block.field:
            beside = {field: each for field, each in value.items() if field in SEALS and isinstance(each, str)}
            seals = (*beside.values(), *(part.id,) * (not long_id(part.id)))  # no frame is charged for its id
            part = part._replace(sealed=(*seals, *part.sealed))
            outer = _extra(value, {block.field, *beside}, index, frame)
        yield part
        yield from outer
        yield from _extra(block.inner, block.known, index, frame)


def _result(content: object, id: str, holder: Mapping[str, Any], index: int, frame: list[str]) -> Part:
    """Return the result of a call that some content is, in a block or a message."""
    texts, sealed, media = _flat_texts(content, frame)
    failed = holder.get("is_error") is True or holder.get("status") == "error"
    inner = content if isinstance(content, list) else ()
    whole = any(kind_of(block) and shape_of(block).is_whole for block in inner)
    sealed = (*sealed, *long_id(id))
    return Part("result", texts, "", id, index, media, failed, sealed=sealed, half="result", whole=whole)


def _flat_texts(content: object, frame: list[str]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return texts of a result's content, whatever its nesting; what is sealed in it; and digests of its media."""
    if content is None or content == "":
        return (), (), ()
    if isinstance(content, str):
        return (content,), (), ()
    texts: list[str] = []
    sealed: list[str] = []
    media: list[str] = []
    for value in content if isinstance(content, list) else [content]:
        block = read_block(value) if isinstance(value, dict) else None
        if block is not None and block.shape.kind == "media":
            more, unread = _read_media(block.inner)
            media.append(hashlib.sha256(canonical_json(value).encode()).hexdigest())
        elif block is not None and block.shape.kind == "text":
            texts.append(block.said)
            more, unread = _odd_fields(block.whole, block.known, frame)
        else:
            more, unread = ((value,), ()) if isinstance(value, str) else _read_value(value)
        texts += more
        sealed += unread
    return tuple(texts), tuple(sealed), tuple(media)


def _listed_call(call: object, shown: Mapping[str, Part], frame: list[str]) -> Iterator[Part]:
    """Yield a call in `tool_calls`; a host may list there once more what already stands as a block."""
    if not isinstance(call, dict):
        yield _opaque(call)
        return
    holder, inner, named, argued = call_places(call)
    id, name, said = call_id(call.get("id")), str(inner.get(named) or ""), inner.get(argued, {})
    arguments = said if isinstance(said, str) else canonical_json(said)
    if (same := shown.get(id)) is None:
        yield Part("call", (arguments,), name, id, sealed=long_id(id), half="call")
    else:
        other = (name,) if name not in ("", same.name) else ()  # another call under the same id
        if other or (arguments != same.texts[0] and not _is_same_json(arguments, same.texts[0])):
            yield Part("extra", (*other, arguments))
    texts, sealed = _odd_fields(inner, {"id", named, argued}, frame)
    if holder:
        outer = _odd_fields(call, {"id", holder}, frame)
        texts, sealed = outer[0] + texts, outer[1] + sealed
    if texts or sealed:
        yield Part("extra", texts, sealed=sealed)


def _is_same_json(one: str, other: str) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))  # whatever the spelling
    except (ValueError, RecursionError):
        return False


def _thinking_fields(message: Message, beside: list[Part], frame: list[str]) -> tuple[list[Part], list[str]]:
    """Return thinking that stands beside the content, each word of it once, and what is said or sealed again there."""
    said = {text for part in beside if part.kind == "thinking" for text in part.texts}
    parts: list[Part] = []
    again: list[str] = []
    for key in THINKING_FIELDS:
        texts, sealed = _read_thinking(message[key], frame) if message.get(key) else ((), ())
        new = tuple(text for text in texts if text not in said)
        again += [text for text in texts if text in said]
        said.update(new)
        if new:
            parts.append(Part("thinking", new, sealed=sealed))
        else:
            again += sealed
    return parts, again


def _opaque(value: object, index: int = -1) -> Part:
    """Return what no shape knows as a part."""
    texts, sealed = _read_value(value)
    return Part("opaque", texts, block=index, sealed=sealed)


def _read_value(value: object) -> Sent:
    """Return a JSON value as one text, itself or its canonical JSON, with `…` for each run of base64; and these."""
    text = value if isinstance(value, str) else canonical_json(value)
    sealed = tuple(_BINARY.findall(text))
    rest = _BINARY.sub("…", text) if sealed else text
    return (rest,) if rest != "…" else (), sealed


def _read_thinking(value: object, frame: list[str]) -> Sent:
    """Return readable thinking, of a block, a list of them or a text; and what is sealed: signatures and encrypted
    data."""
    texts: list[str] = []
    sealed: list[str] = []
    rest: list[str] = []
    for key, text in _leaves(value, "text", rest):
        if key in _FRAME and _is_short(key, text):
            frame.append(text)
        else:
            is_sealed = key in SEALS or (key not in _WORDS and _CODED.fullmatch(text) is not None)
            (sealed if is_sealed else texts).append(text)
    return tuple(texts), (*sealed, *_many(rest))


def _read_media(block: Mapping[str, Any]) -> Sent:
    """Return words that travel with an image, a sound or a file, and what is sealed; itself it is charged as a whole.

    They are its title, its context, its text if it is a text document, and whatever else is no payload.
    """
    source = block.get("source")
    inside = source.get("data") if isinstance(source, dict) and source.get("type") == "text" else None
    texts = [text for text in (block.get("title"), block.get("context"), inside) if isinstance(text, str) and text]
    first = frozenset(texts)
    sealed: list[str] = []
    rest: list[str] = []
    for key, text in _leaves(block, "", rest):
        if text not in first and not (key in _FRAME and _is_short(key, text)) and not _is_payload(text):
            (texts if _CODED.fullmatch(text) is None else sealed).append(text)
    return tuple(texts), (*sealed, *_many(rest))


def _leaves(value: object, key: str, rest: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the texts inside a value, each with the name that it stands under, in one order. What else stands there is
    added to `rest`: numbers, flags, nothing, and names that no shape knows."""
    if value and isinstance(value, str):
        yield key, value
    elif value and isinstance(value, list):
        for item in value:
            yield from _leaves(item, key, rest)
    elif value and isinstance(value, dict):
        for name in sorted(value, key=lambda name: (name == "summary", name != "thinking", name)):
            if not name.startswith("_"):
                if not _is_short("", name):
                    yield "", name
                elif name not in _NAMES:
                    rest.append(name)
                yield from _leaves(value[name], name, rest)
    else:
        rest.append(canonical_json(value))


def _many(rest: Sequence[str]) -> tuple[str, ...]:
    """Return small things as one text, where they are so many that no frame pays for them."""
    return (",".join(rest),) if len(rest) > _FEW else ()


def _extra(holder: Mapping[str, Any], known: Collection[str], index: int, frame: list[str]) -> list[Part]:
    texts, sealed = _odd_fields(holder, known, frame)
    return [Part("extra", texts, block=index, sealed=sealed)] if texts or sealed else []


def _odd_fields(holder: Mapping[str, Any], known: Collection[str], frame: list[str]) -> Sent:
    """Return what stands in the fields beside those that a shape knows, each with its name. Type, short ids and short
    flags are added to `frame`: flags that are known are in no part, nor is any id."""
    for key, value in holder.items():
        if key in _FRAME and key != "role" and (key in _IDS or key not in known):
            if not isinstance(value, str):
                frame += [text for _, text in _leaves(value, "", [])] if _is_small(key, value) else ()
            elif value and _is_short(key, value):
                frame.append(value)
    if not (odd := _odd_keys(holder, known)):
        return (), ()
    texts: list[str] = []
    sealed: list[str] = []
    for key in odd:
        said, unread = _read_value(holder[key])
        if key in _IDS:  # nobody reads it: what a message says is the same under another id
            said, unread = (), (*said, *unread)
        (texts if said else sealed).append(key)
        texts += said
        sealed += unread
    return tuple(texts), tuple(sealed)


def _odd_keys(holder: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return the fields beside those that a shape knows in which there is anything to send, in one order. Small
    numbers and empty fields are none, but where there are many."""
    odd = [key for key in holder if key not in known and not key.startswith("_")]
    told = [key for key in odd if not _is_small(key, holder[key])]
    return sorted(told if len(odd) - len(told) <= _FEW else odd)


def _is_small(key: str, value: object) -> bool:
    """Return whether a field is nothing, a flag, a number or a part of the frame that is no text of its own."""
    if not _is_short("", key):
        return False
    if not value or value is True:
        return True
    is_frame = key in _FRAME or isinstance(value, int | float)
    return is_frame and _is_short(key, value if isinstance(value, str) else canonical_json(value))


def _is_short(key: str, text: str) -> bool:
    """Return whether a part of the frame is no text of its own."""
    return len(text) <= (8 if key in _IDS else 24) and text.isascii()


def long_id(id: str) -> tuple[str, ...]:
    """Return an id, where it is too long to be paid for by the framing."""
    return () if _is_short("id", id) else (id,)


def _is_payload(text: str) -> bool:
    """Return whether a text is a medium itself: encoded, or its address."""
    if text.startswith(("http://", "https://")):
        return len(text) <= 2_000
    head, found, _ = text[:200].partition(";base64,")
    data = text[len(head) + len(found) :] if found else text
    return _CODED.fullmatch(data.translate(str.maketrans("", "", "\r\n"))) is not None


def is_wordless_media(block: object) -> bool:
    """Return whether a content block is an image, a sound or a file without words beside it."""
    return isinstance(block, dict) and shape_of(block).kind == "media" and not any(_read_media(block))


def without_extras(message: Message) -> Message:
    """Return the message without its extras, wherever they stand; who speaks stays."""

    def bare(holder: Mapping[str, Any], known: Collection[str]) -> Message:
        odd = set(_odd_keys(holder, known)) - {"role"}
        return {key: value for key, value in holder.items() if key not in odd}

    def bare_block(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        block = read_block(value)
        inner = bare(block.inner, block.known)
        return bare(value, {block.field, *SEALS}) | {block.field: inner} if block.field else inner

    def bare_call(call: Any) -> Any:
        if not isinstance(call, dict):
            return call
        holder, inner, name, arguments = call_places(call)
        inner = bare(inner, {"id", name, arguments})
        return bare(call, {"id", holder}) | {holder: inner} if holder else inner

    kept = bare(message, known_fields(message))
    if not is_result(message) and (blocks := blocks_of(message)):
        kept[content_key(message)] = list(map(bare_block, blocks))
    if isinstance(calls := message.get("tool_calls"), list):
        kept["tool_calls"] = list(map(bare_call, calls))
    return kept
