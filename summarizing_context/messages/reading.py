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
    Block,
    blocks_of,
    call_id,
    call_places,
    content_key,
    is_result,
    kind_of,
    read_block,
    shape_of,
    state_names,
)
from summarizing_context.messages.validation import Message, canonical_json, check_message

NEVER_SENT = frozenset({"metadata", "critical", "ephemeral", "timestamp", "created", "created_at", "usage"})
_IDS = ID_FIELDS | {"id", "item_id", "file_id"}

_FRAME = _IDS | {
    *("role", "type"),  # without them a message means another thing
    *("filename", "name", "tool", "index", "status", "is_error", "visibility", "caller", "cache_control"),
    *("format", "detail", "media_type", "mime_type", "mimeType"),
}

_LONG_ID, _LONG_WORD = 8, 24  # characters from which a part of the frame counts
_FEW = 32  # fields of small numbers, or of nothing, that the framing pays for
_BINARY = re.compile(r"[A-Za-z0-9+/=_-]{256,}")  # base64 and the like
_CODED = re.compile(r"[A-Za-z0-9+/=_.:-]+")
_WORDS = frozenset({"thinking", "text", "summary", "reasoning"})  # of thinking, what is meant to be read
_NAMES = _FRAME | _WORDS | SEALS | {"title", "context", "source", "url", "image_url", "file_data"}
_KNOWN = NEVER_SENT | {"content", "tool_calls", *BESIDE_CONTENT}
_PAID = frozenset({"text", "function", "tool_use", "tool_call", "tool_result", "thinking"})  # types of few tokens


class Sent(NamedTuple):
    """What stands in a value: texts that a model reads, and what travels along unread."""

    texts: tuple[str, ...] = ()
    sealed: tuple[str, ...] = ()


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
    calls: tuple[str, ...]  # ids of the calls it makes, in order; an id may occur twice
    answers: tuple[str, ...]  # ids of the calls it answers, in order
    turn: bool  # begins a turn of the user's; enters keys and cuts, so it stays as it was first defined
    human: bool  # holds words that a person typed, or a file
    critical: bool
    ephemeral: bool
    again: tuple[str, ...] = ()  # thinking that stands in one more field, and what is sealed beside it
    typed: tuple[str, ...] = ()  # what a person typed: no result, nothing that a host put in, no words of a file
    held: tuple[str, ...] = ()  # of the calls, those that no host answers: the turn goes on until their results come
    state: tuple[str, ...] = ()  # names of what holds from there on

    @property
    def media(self) -> int:
        """How many images, sounds and files it holds."""
        return sum(len(part.media) for part in self.parts)

    @property
    def texts(self) -> list[str]:
        """All that a model reads as text: texts, tool names, arguments, result texts, thinking."""
        return [text for part in self.parts for text in ((part.name, *part.texts) if part.name else part.texts)]

    @property
    def sent(self) -> list[str]:
        """What a model reads, and what travels along unread."""
        return [*self.texts, *self.unread]

    @property
    def unread(self) -> list[str]:
        """What its parts send beside what a model reads."""
        return [*(text for part in self.parts for text in part.sealed), *self.again]

    @property
    def said(self) -> Reading:
        """Return the reading without sealed fields."""
        if not self.unread:
            return self
        return self._replace(parts=tuple(part._replace(sealed=()) for part in self.parts), again=())


def read_message(message: Message) -> Reading:
    """Read a checked message. Never raises, whatever its shape."""
    parts, again = _message_parts(message)
    role: str = message["role"]
    turn = human = False
    typed: tuple[str, ...] = ()
    if role == "user":
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
    held = tuple(part.id for part in parts if part.half == "call" and part.whole and part.id not in inside)
    state = tuple(dict.fromkeys(state_names(blocks_of(message)))) if any(part.whole for part in parts) else ()
    metadata = message.get("metadata")
    flags: Mapping[str, Any] = metadata if isinstance(metadata, dict) else {}
    passing = message.get("ephemeral") is True or (
        flags.get("ephemeral") is True and flags.get("persisted") is not True
    )
    critical = message.get("critical") is True or flags.get("critical") is True or bool(flags.get(LOADED_TOOLS))
    ephemeral = passing and not calls and not answers
    bound = (tuple(calls), tuple(answers))
    return Reading(
        role, tuple(parts), *bound, turn, human, critical, ephemeral, tuple(again), typed, held=held, state=state
    )


def read_content(message: Message) -> Reading:
    """Return the parts of a checked message alone: what it says, not what it binds, nor whose it is."""
    parts, again = _message_parts(message)
    return Reading(message["role"], tuple(parts), (), (), False, False, False, False, tuple(again))


def charged_texts(message: Message, reading: Reading) -> list[str]:
    """Return all that is charged as text in a message that is read so: what its parts send, and the frame around
    them."""
    return [*reading.sent, *unpaid_frame(message)]


def message_text_parts(message: Mapping[str, Any]) -> list[str]:
    """The texts of a message that are charged as tokens, in reading order.

    The cost of a message is 4 + the sum of `count(part)` over these, plus `image_tokens` for each image.
    Raises `MessageError` for what could not enter the log.
    """
    checked = check_message(message)
    return charged_texts(checked, read_content(checked))


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
    return tuple(said for text in texts if (said := split_words(text).typed) and not said.isspace())


def is_reminder(text: str) -> bool:
    """Return whether a text is a host's reminder rather than a person's words."""
    return text.lstrip().startswith("<system-reminder")


def _message_parts(message: Message) -> tuple[list[Part], list[str]]:
    """Return the parts of a message, and what its fields say once more."""
    content, metadata = message.get(content_key(message)), message.get("metadata")
    parts: list[Part] = []
    again: list[str] = []
    if is_result(message):
        parts.append(_result(content, call_id(message.get("tool_call_id")), message, -1))
    else:
        if not message.keys().isdisjoint(THINKING_FIELDS):
            parts, again = _thinking_fields(message, content)
        if isinstance(content, list):
            for index, block in enumerate(content):
                parts += _block_parts(block, index)
        elif isinstance(content, str):
            parts += [Part("text", (content,))] if content else []
        elif content is not None:
            texts, sealed = _read_value(content)
            parts.append(Part("opaque", texts, sealed=sealed))
    if isinstance(message.get("tool_calls"), list):
        parts += _listed_calls(message, content)
    for field in BESIDE_CONTENT:
        if value := message.get(field):
            texts, sealed = Sent((value,)) if isinstance(value, str) else _read_value(value)
            parts.append(Part("text" if isinstance(value, str) else "opaque", texts, sealed=sealed))
    parts += _extra(_odd_fields(message, known_fields(message)), -1)
    if isinstance(metadata, dict) and metadata.get(LOADED_TOOLS):  # the one thing in it that a provider is sent
        again.append(canonical_json(metadata[LOADED_TOOLS]))
    return parts, again


def known_fields(message: Message) -> frozenset[str]:
    """Return the fields that the parts of a message hold. A list of calls that is no list is a field like any unknown
    one."""
    known = _KNOWN.union([content_key(message)], ["tool_call_id"] if is_result(message) else THINKING_FIELDS)
    calls = message.get("tool_calls")
    return known if isinstance(calls, list) or not calls else known - {"tool_calls"}


def _block_parts(value: object, index: int) -> list[Part]:
    """Return the part that a block is, and what else stands in its fields."""
    if isinstance(value, str):
        return [Part("text", (value,), block=index)]
    if not isinstance(value, dict):
        texts, sealed = _read_value(value)
        return [Part("opaque", texts, block=index, sealed=sealed)]
    block = read_block(value)
    shape, name = block.shape, block.field or kind_of(value)
    if shape.kind == "text":
        part = Part("text", (block.said,), block=index, put_in=is_put_in(value))
    elif shape.kind == "thinking":
        thoughts = _read_thinking(value)
        return [Part("thinking", thoughts.texts, block=index, sealed=thoughts.sealed)]
    elif shape.kind == "media":
        texts, sealed, media = _flat_texts([value])
        return [Part("media", texts, block=index, media=media, sealed=sealed, put_in=is_put_in(value))]
    elif shape.is_whole or shape.kind == "opaque":
        texts, sealed = _read_value(value)
        half, whole = block.half, shape.is_whole
        id = block.id if half else ""
        return [Part("opaque", texts, "", id, index, shape=name, sealed=sealed, half=half, whole=whole)]
    elif shape.kind == "result":
        part = _result(block.said, block.id, block.inner, index)
    else:
        said, id = block.said, block.id
        arguments = said if isinstance(said, str) else canonical_json({} if block.said_in not in block.inner else said)
        tool = str(block.inner.get("name") or "")
        part = Part("call", (arguments,), tool, id, index, shape=name, sealed=long_frame(id), half="call")
    if block.field:
        beside = {field: each for field, each in value.items() if field in SEALS and isinstance(each, str)}
        sealed = (*beside.values(), *(part.id,) * (not long_frame(part.id)))  # no frame is charged for its id
        part = part._replace(sealed=(*sealed, *part.sealed))
        outer = _odd_fields(value, {block.field, *beside})
        return [part, *_extra(outer, index), *_extra(_odd_fields(block.inner, block.known), index)]
    return [part, *_extra(_odd_fields(value, block.known), index)]


def _result(content: object, id: str, holder: Mapping[str, Any], index: int) -> Part:
    """Return the result of a call that some content is, in a block or a message."""
    texts, sealed, media = _flat_texts(content)
    failed = holder.get("is_error") is True or holder.get("status") == "error"
    inner = content if isinstance(content, list) else ()
    whole = any(kind_of(block) and shape_of(block).is_whole for block in inner)
    part = Part("result", texts, "", id, index, media, failed, sealed=(*sealed, *long_frame(id)), half="result")
    return part._replace(whole=True) if whole else part


def _extra(odd: Sent, index: int) -> list[Part]:
    return [Part("extra", odd.texts, block=index, sealed=odd.sealed)] if any(odd) else []


def _listed_calls(message: Message, content: object) -> Iterator[Part]:
    """Yield calls in `tool_calls`; a host may list there once more what already stands as blocks."""
    blocks = content if isinstance(content, list) else []
    stand = [block for block in blocks if isinstance(block, dict) and shape_of(block).bound == "host"]
    shown = {part.id: part for block in stand for part in _block_parts(block, -1) if part.kind == "call"}
    for call in message["tool_calls"]:
        if not isinstance(call, dict):
            texts, sealed = _read_value(call)
            yield Part("opaque", texts, sealed=sealed)
            continue
        holder, inner, named, argued = call_places(call)
        id, name, said = call_id(call.get("id")), str(inner.get(named) or ""), inner.get(argued, {})
        arguments = said if isinstance(said, str) else canonical_json(said)
        if id not in shown:
            yield Part("call", (arguments,), name, id, sealed=long_frame(id), half="call")
        elif name and name != shown[id].name:
            yield Part("extra", (name, arguments))  # another call under the same id
        elif arguments != (other := shown[id].texts[0]):
            try:
                is_same = bool(json.loads(arguments) == json.loads(other))  # whatever the spelling
            except (ValueError, RecursionError):
                is_same = False
            if not is_same:
                yield Part("extra", (arguments,))
        odd = _odd_fields(inner, {"id", named, argued})
        if holder:
            outer = _odd_fields(call, {"id", holder})
            odd = Sent(outer.texts + odd.texts, outer.sealed + odd.sealed)
        yield from _extra(odd, -1)


def _thinking_fields(message: Message, content: object) -> tuple[list[Part], list[str]]:
    """Return thinking that stands beside the content, each word of it once, and what is said or sealed again there."""
    thoughts = [block for block in content if shape_of(block).kind == "thinking"] if isinstance(content, list) else []
    said = {text for block in thoughts for text in _read_thinking(block).texts}
    parts: list[Part] = []
    again: list[str] = []
    for key in THINKING_FIELDS:
        texts, sealed = _read_thinking(message[key]) if message.get(key) else Sent()
        new = tuple(text for text in texts if text not in said)
        again += [text for text in texts if text in said]
        said.update(new)
        if new:
            parts.append(Part("thinking", new, sealed=sealed))
        else:
            again += sealed
    return parts, again


def _flat_texts(content: object) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return texts of a result's content, whatever its nesting; what is sealed in it; and digests of its media."""
    if content is None or content == "":
        return (), (), ()
    if isinstance(content, str):
        return (content,), (), ()
    found: list[Sent] = []
    media: list[str] = []
    for value in content if isinstance(content, list) else [content]:
        if isinstance(value, str):
            found.append(Sent((value,)))
            continue
        block = read_block(value) if isinstance(value, dict) else None
        if block is not None and block.shape.kind == "media":
            found.append(_read_media(block.inner))
            media.append(hashlib.sha256(canonical_json(value).encode()).hexdigest())
        elif block is not None and block.shape.kind == "text":
            found += [Sent((block.said,)), _odd_fields(block.whole, block.known)]
        else:
            found.append(_read_value(value))
    texts = tuple(text for each in found for text in each.texts)
    return texts, tuple(text for each in found for text in each.sealed), tuple(media)


def _odd_keys(holder: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return the fields beside those that a shape knows in which there is anything to send, in one order. Small
    numbers and empty fields are none, but where there are many."""
    told: list[str] = []
    small: list[str] = []
    for key, value in holder.items():
        if key not in known and not key.startswith("_"):
            (told if _is_told(key, value) else small).append(key)
    return sorted(told + small if len(small) > _FEW else told)


def _odd_fields(holder: Mapping[str, Any], known: Collection[str]) -> Sent:
    """Return what stands in the fields beside those that a shape knows, each with its name."""
    if not (odd := _odd_keys(holder, known)):
        return Sent()
    texts: list[str] = []
    sealed: list[str] = []
    for key in odd:
        value = _read_value(holder[key])
        if key in _IDS:  # nobody reads it: what a message says is the same under another id
            value = Sent((), (*value.texts, *value.sealed))
        (texts if value.texts else sealed).append(key)
        texts += value.texts
        sealed += value.sealed
    return Sent(tuple(texts), tuple(sealed))


def _read_value(value: object) -> Sent:
    """Return a JSON value as one text, itself or its canonical JSON, with `…` for each run of base64."""
    text = value if isinstance(value, str) else canonical_json(value)
    sealed = tuple(_BINARY.findall(text))
    rest = _BINARY.sub("…", text) if sealed else text
    return Sent((rest,) if rest != "…" else (), sealed)


def _read_thinking(value: object) -> Sent:
    """Return readable thinking, of a block, a list of them or a text; signatures and encrypted data are sealed."""
    texts: list[str] = []
    sealed: list[str] = []
    for key, text in _leaves(value, "text"):
        is_sealed = key in SEALS or (key not in _WORDS and _CODED.fullmatch(text) is not None)
        (sealed if is_sealed else texts).append(text)
    return Sent(tuple(texts), (*sealed, *_numbers(value)))


def _read_media(block: Mapping[str, Any]) -> Sent:
    """Return words that travel with an image, a sound or a file; itself it is charged as a whole.

    They are its title, its context, its text if it is a text document, and whatever else is no payload.
    """
    source = block.get("source")
    inside = source.get("data") if isinstance(source, dict) and source.get("type") == "text" else None
    first = [text for text in (block.get("title"), block.get("context"), inside) if isinstance(text, str) and text]
    rest = [text for _, text in _leaves(block, "") if text not in first and not _is_payload(text)]
    words = [text for text in rest if _CODED.fullmatch(text) is None]
    return Sent((*first, *words), (*(text for text in rest if _CODED.fullmatch(text)), *_numbers(block)))


def long_frame(id: str) -> tuple[str, ...]:
    """Return an id, where it is too long to be paid for by the framing."""
    return () if _is_short("id", id) else (id,)


def long_word(text: str) -> tuple[str, ...]:
    """Return a role, or the name of a field, where it is too long to be paid for by the framing."""
    return (text,) if len(text) > _LONG_WORD or not text.isascii() else ()


def _is_short(key: str, text: str) -> bool:
    """Return whether a part of the frame is no text of its own."""
    most = _LONG_ID if key in _IDS else _LONG_WORD
    return len(text) <= most and text.isascii()


def _is_told(key: str, value: object) -> bool:
    if long_word(key):
        return True
    if not value or value is True:
        return False
    is_frame = key in _FRAME or isinstance(value, int | float)
    return not is_frame or not _is_short(key, value if isinstance(value, str) else canonical_json(value))


def _leaves(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield the strings inside a value that are no part of a frame, each with the key that it stands under."""
    if isinstance(value, str):
        if value and not (key in _FRAME and _is_short(key, value)):
            yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, key)
    elif isinstance(value, dict):
        for name in sorted(value, key=lambda name: (name == "summary", name != "thinking", name)):
            if not name.startswith("_"):
                yield from (("", name) for name in long_word(name))
                yield from _leaves(value[name], name)


def _numbers(value: object) -> tuple[str, ...]:
    """Return what is no text inside a value, with its names, as one text: numbers, and where there are many, flags,
    nothing, numbers of a frame, and names that no shape knows."""
    found: list[str] = []
    small: list[str] = []

    def walk(value: object, key: str) -> None:
        if value and isinstance(value, list):
            for at, item in enumerate(value):
                walk(item, "" if at else key)
        elif value and isinstance(value, dict):
            for name, item in value.items():
                if not name.startswith("_"):
                    walk(item, name)
        elif value and isinstance(value, str):
            small.extend([key] if key and key not in _NAMES else [])
        else:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            said = f'"{key}":{canonical_json(value)}' if key else canonical_json(value)
            (found if is_number and key not in _FRAME else small).append(said)

    walk(value, "")
    if len(small) > _FEW:
        found += small
    return (",".join(found),) if found else ()


def _is_payload(text: str) -> bool:
    """Return whether a text is a medium itself: encoded, or its address."""
    if text.startswith(("http://", "https://")):
        return len(text) <= 2_000
    head, found, _ = text[:200].partition(";base64,")
    data = text[len(head) + len(found) :] if found else text
    return _CODED.fullmatch(data.translate(str.maketrans("", "", "\r\n"))) is not None


def unpaid_frame(message: Message) -> tuple[str, ...]:
    """Types, short ids and short flags that stand in no part and that the framing does not pay for."""
    calls = message.get("tool_calls")
    words = _frame_words(message, _KNOWN)
    for block in blocks_of(message):
        words += _block_frame(block)
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            holder, inner, name, arguments = call_places(call)
            words += _frame_words(inner, {"id", name, arguments})
            words += _frame_words(call, {holder}) if holder else ()
    if not message.keys().isdisjoint(THINKING_FIELDS) and not is_result(message):
        words += [word for field in THINKING_FIELDS for word in _frame_leaves(message.get(field))]
    if (paid := next((word for word in words if word in _PAID), None)) is not None:
        words.remove(paid)  # for one type, and for the role, the framing of a message pays
    return tuple(words)


def _block_frame(value: object) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    block = read_block(value)
    kind = block.shape.kind
    if kind == "text" or block.shape.bound == "host":
        yield from _frame_words(block.inner, block.known)
        inner = block.said if kind == "result" else None
        for each in inner if isinstance(inner, list) else ():
            yield from _block_frame(each)
    elif kind == "thinking":  # an image, a sound or a file is charged as a whole
        yield from _frame_leaves(value)


def _frame_words(holder: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return type, short ids and short flags of a holder, which stand in no part. `known` flags do; ids never."""
    words: list[str] = []
    for key, value in holder.items():
        if key in _FRAME and key != "role" and (key in _IDS or key not in known):
            if not isinstance(value, str):
                words += () if _is_told(key, value) else (text for _, text in _strings(value, ""))
            elif value and _is_short(key, value):
                words.append(value)
    return words


def _frame_leaves(value: object) -> Iterator[str]:
    """Return the same of all that is inside a value."""
    return (text for key, text in _strings(value, "") if key in _FRAME and _is_short(key, text))


def _strings(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield the strings inside a value, each with the name that it stands under."""
    if isinstance(value, str):
        if value:
            yield key, value
    elif isinstance(value, list | dict):
        for name, item in value.items() if isinstance(value, dict) else ((key, item) for item in value):
            yield from _strings(item, name)


def is_wordless_media(block: object) -> bool:
    """Return whether a content block is an image, a sound or a file without words beside it."""
    return isinstance(block, dict) and shape_of(block).kind == "media" and not any(_read_media(block))


def without_extras(message: Message) -> Message:
    """Return the message without its extras, wherever they stand; who speaks stays, however long."""

    def kept(holder: Mapping[str, Any], known: Collection[str]) -> Message:
        odd = set(_odd_keys(holder, known)) - {"role"}
        return {key: value for key, value in holder.items() if key not in odd}

    def kept_block(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        block: Block = read_block(value)
        if block.field:
            return kept(value, {block.field, *SEALS}) | {block.field: kept(block.inner, block.known)}
        return kept(value, block.known)

    bare = kept(message, known_fields(message))
    if not is_result(message) and (blocks := blocks_of(message)):
        bare[content_key(message)] = list(map(kept_block, blocks))
    if isinstance(calls := message.get("tool_calls"), list):
        bare["tool_calls"] = []
        for call in calls:
            if isinstance(call, dict):
                holder, inner, name, arguments = call_places(call)
                call = kept(inner, {"id", name, arguments})
                call = {**kept(calls[len(bare["tool_calls"])], {"id", holder}), holder: call} if holder else call
            bare["tool_calls"].append(call)
    return bare
