"""The parts of a message: each thing that a model reads in it, and what is sent along with it.

Pure, and the only module that knows the shapes: OpenAI chat, Anthropic blocks, Amplifier blocks and Gemini parts may
stand side by side. Anything unknown is read as text of its canonical JSON, so that no word goes unseen or uncounted.

A provider is sent every field but those named in `NEVER_SENT` and those that begin with an underscore, which are notes
of hosts and programs. Roles, types and short ids and flags are the frame: a message's framing pays for its role and one
type, the rest is charged. What else stands in a field is text that a model reads, or sealed: sent unread.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from summarizing_context.messages.authorship import is_put_in
from summarizing_context.messages.provider_bindings import LOADED_TOOLS, THINKING_FIELDS
from summarizing_context.messages.validation import Message, canonical_json

NEVER_SENT = frozenset({"metadata", "critical", "ephemeral", "timestamp", "created", "created_at", "usage"})
IDS = frozenset({"id", "tool_call_id", "tool_use_id", "call_id", "item_id", "file_id"})

FRAME = IDS | {
    *("role", "type"),  # without them a message means another thing
    *("filename", "name", "tool", "index", "status", "is_error", "visibility", "caller", "cache_control"),
    *("format", "detail", "media_type", "mime_type", "mimeType"),
}

_LONG_ID, _LONG_WORD = 8, 24  # characters from which a part of the frame counts
_FEW = 32  # fields of small numbers, or of nothing, that the framing pays for
_BINARY = re.compile(r"[A-Za-z0-9+/=_-]{256,}")  # base64 and the like
_CODED = re.compile(r"[A-Za-z0-9+/=_.:-]+")
_WORDS = frozenset({"thinking", "text", "summary", "reasoning"})  # of thinking, what is meant to be read
_SEALS = frozenset({"signature", "data", "encrypted_content"})
_NAMES = FRAME | _WORDS | _SEALS | {"title", "context", "source", "url", "image_url", "file_data"}
_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
CALL_TYPES = frozenset({"tool_use", "tool_call"})

MEDIA_TYPES = frozenset(
    {
        *("image", "image_url", "input_image", "audio", "input_audio"),
        *("document", "file", "input_file", "video", "video_url"),
    }
)

THINKING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning"})
BESIDE_CONTENT = ("refusal", "function_call", "audio")  # fields that a model reads after all else
KNOWN = NEVER_SENT | {"content", "tool_calls", *BESIDE_CONTENT}


class Sent(NamedTuple):
    """What stands in a value: texts that a model reads, and what travels along unread."""

    texts: tuple[str, ...] = ()
    sealed: tuple[str, ...] = ()


class Part(NamedTuple):
    """One thing that a model reads in a message."""

    kind: Literal["text", "call", "result", "thinking", "media", "opaque", "extra"]
    texts: tuple[str, ...] = ()
    name: str = ""  # of the tool, for calls
    id: str = ""  # of the call, for calls and results
    block: int = -1  # index in `content`; -1 where the part is not a content block
    media: tuple[str, ...] = ()  # a digest for each image, sound or file
    failed: bool = False  # a result that reports an error
    shape: str = ""  # the type of the block that it stands in, for calls
    sealed: tuple[str, ...] = ()  # sent along for nobody to read: signatures, encrypted thinking, base64
    put_in: bool = False  # in a block that its host marks as its own

    @property
    def sent(self) -> tuple[str, ...]:
        """Its texts, and what is sealed in it."""
        return self.texts + self.sealed


def arguments_text(arguments: object) -> str:
    """Return arguments as a model wrote them, or as JSON."""
    return arguments if isinstance(arguments, str) else canonical_json(arguments)


def mean_the_same(one: str, other: str) -> bool:
    """Return whether two texts of arguments hold the same, whatever the spelling of their JSON."""
    try:
        return one == other or bool(json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return False


def call_places(call: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], str, str]:
    """Return where a listed call says what it says, whatever its shape: the field that holds it, empty where it
    stands by itself, and what that holds; and the fields of its name and its arguments in there."""
    holder = next((key for key in ("function", "custom") if call.get(key) and isinstance(call[key], dict)), "")
    inner = call[holder] if holder else call
    arguments = next((key for key in ("arguments", "input", "args") if key in inner), "arguments")
    return holder, inner, "name" if inner.get("name") else "tool", arguments


def is_result(message: Message) -> bool:
    """Return whether the whole content of a message is the result of one call."""
    return message["role"] == "tool" or ("tool_call_id" in message and message["role"] != "assistant")


def call_id(value: object) -> str:
    """Return the id of a call as text, whatever JSON value it is."""
    return value if isinstance(value, str) else "" if value is None else canonical_json(value)


def content_key(message: Message) -> Literal["content", "parts"]:
    """Return the field that a message's content stands in; Gemini's own is `parts`."""
    return "parts" if not message.get("content") and isinstance(message.get("parts"), list) else "content"


def message_parts(message: Message) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """Return the parts of a message, and what its fields say once more."""
    content, metadata = message.get(content_key(message)), message.get("metadata")
    parts: list[Part] = []
    again: list[str] = []
    if is_result(message):
        parts.append(_result(content, message.get("tool_call_id"), message, -1))
    else:
        parts, again = _thinking_fields(message, content)
        if isinstance(content, list):
            for index, block in enumerate(content):
                parts.append(_block_part(block, index))
                if isinstance(block, dict):
                    parts += _extra(odd_fields(block, known_keys(block)), index)
        elif isinstance(content, str):
            parts += [Part("text", (content,))] if content else []
        elif content is not None:
            parts.append(_opaque(content, -1))
    parts += _listed_calls(message, content)
    for field in BESIDE_CONTENT:
        if value := message.get(field):
            parts.append(Part("text", (value,)) if isinstance(value, str) else _opaque(value, -1))
    parts += _extra(odd_fields(message, known_fields(message)), -1)
    if isinstance(metadata, dict) and metadata.get(LOADED_TOOLS):  # the one thing in it that a provider is sent
        again.append(canonical_json(metadata[LOADED_TOOLS]))
    return tuple(parts), tuple(again)


def known_fields(message: Message) -> frozenset[str]:
    """Return the fields that the parts of a message hold. A list of calls that is no list is a field like any unknown
    one."""
    known = KNOWN.union([content_key(message)], ["tool_call_id"] if is_result(message) else THINKING_FIELDS)
    calls = message.get("tool_calls")
    return known if isinstance(calls, list) or not calls else known - {"tool_calls"}


def _block_part(block: object, index: int) -> Part:
    if isinstance(block, str):
        return Part("text", (block,), block=index)
    if not isinstance(block, dict):
        return _opaque(block, index)
    kind = kind_of(block)
    if key := text_key(block):
        return Part("text", (block[key],), block=index, put_in=is_put_in(block))
    if kind in CALL_TYPES:
        arguments, id = arguments_text(block.get("input", block.get("arguments", {}))), call_id(block.get("id"))
        name = str(block.get("name") or "")
        return Part("call", (arguments,), name, id, index, shape=kind, sealed=long_frame(id))
    if kind == "tool_result":
        content = block.get("content", block.get("output"))
        return _result(content, block.get("tool_use_id", block.get("tool_call_id")), block, index)
    if kind in THINKING_TYPES:
        thoughts = read_thinking(block)
        return Part("thinking", thoughts.texts, block=index, sealed=thoughts.sealed)
    if kind in MEDIA_TYPES:
        texts, sealed, media = _flat_texts([block])
        return Part("media", texts, block=index, media=media, sealed=sealed, put_in=is_put_in(block))
    return _opaque(block, index)


def _result(content: object, answered: object, holder: Mapping[str, Any], index: int) -> Part:
    """Return the result of a call that some content is, in a block or a message."""
    texts, sealed, media = _flat_texts(content)
    id = call_id(answered)
    failed = holder.get("is_error") is True or holder.get("status") == "error"
    return Part("result", texts, "", id, index, media, failed, sealed=(*sealed, *long_frame(id)))


def known_keys(block: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields of a block that its part holds; all of them, but for texts, calls and results."""
    kind = kind_of(block)
    if key := text_key(block):
        return frozenset({key})
    if kind in CALL_TYPES:
        return frozenset({"id", "name", "input" if "input" in block else "arguments"})
    if kind == "tool_result":
        answered = "tool_use_id" if "tool_use_id" in block else "tool_call_id"
        return frozenset({answered, "content" if "content" in block else "output"})
    return frozenset(block)


def text_key(block: Mapping[str, Any]) -> str:
    """Return the field of a text block that holds its text; empty for other blocks. Gemini's have no type."""
    kind = kind_of(block)
    key = "refusal" if kind == "refusal" else "text" if kind in _TEXT_TYPES or "type" not in block else ""
    return key if isinstance(block.get(key), str) else ""


def _extra(odd: Sent, index: int) -> list[Part]:
    return [Part("extra", odd.texts, block=index, sealed=odd.sealed)] if any(odd) else []


def _listed_calls(message: Message, content: object) -> Iterator[Part]:
    """Yield calls in `tool_calls`; a host may list there once more what already stands as blocks."""
    listed = message.get("tool_calls")
    if not isinstance(listed, list):
        return
    blocks = content if isinstance(content, list) else []
    shown = {call_id(b.get("id")): _block_part(b, -1) for b in blocks if kind_of(b) in CALL_TYPES}
    for call in listed:
        if not isinstance(call, dict):
            yield _opaque(call, -1)
            continue
        holder, inner, named, argued = call_places(call)
        id, name = call_id(call.get("id")), str(inner.get(named) or "")
        arguments = arguments_text(inner.get(argued, {}))
        if id not in shown:
            yield Part("call", (arguments,), name, id, sealed=long_frame(id))
        elif name and name != shown[id].name:
            yield Part("extra", (name, arguments))  # another call under the same id
        elif not mean_the_same(arguments, shown[id].texts[0]):
            yield Part("extra", (arguments,))
        odd = odd_fields(inner, {"id", named, argued})
        if holder:
            outer = odd_fields(call, {"id", holder})
            odd = Sent(outer.texts + odd.texts, outer.sealed + odd.sealed)
        yield from _extra(odd, -1)


def _thinking_fields(message: Message, content: object) -> tuple[list[Part], list[str]]:
    """Return thinking that stands beside the content, each word of it once, and what is said or sealed again there."""
    if message.keys().isdisjoint(THINKING_FIELDS):
        return [], []
    blocks = content if isinstance(content, list) else []
    said = {text for block in blocks if kind_of(block) in THINKING_TYPES for text in read_thinking(block).texts}
    parts: list[Part] = []
    again: list[str] = []
    for key in THINKING_FIELDS:
        texts, sealed = read_thinking(message[key]) if message.get(key) else Sent()
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
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            found.append(Sent((block,)))
        elif isinstance(block, dict) and kind_of(block) in MEDIA_TYPES:
            found.append(read_media(block))
            media.append(hashlib.sha256(canonical_json(block).encode()).hexdigest())
        elif isinstance(block, dict) and (key := text_key(block)):
            found += [Sent((block[key],)), odd_fields(block, {key})]
        else:
            found.append(read_value(block))
    texts = tuple(text for each in found for text in each.texts)
    return texts, tuple(text for each in found for text in each.sealed), tuple(media)


def _opaque(value: object, index: int) -> Part:
    texts, sealed = read_value(value)
    return Part("opaque", texts, block=index, sealed=sealed)


def kind_of(block: object) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


def odd_keys(holder: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return the fields beside those that a shape knows in which there is anything to send, in one order. Small
    numbers and empty fields are none, but where there are many."""
    told: list[str] = []
    small: list[str] = []
    for key, value in holder.items():
        if key not in known and not key.startswith("_"):
            (told if is_told(key, value) else small).append(key)
    return sorted(told + small if len(small) > _FEW else told)


def odd_fields(holder: Mapping[str, Any], known: Collection[str]) -> Sent:
    """Return what stands in the fields beside those that a shape knows, each with its name."""
    if not (odd := odd_keys(holder, known)):
        return Sent()
    texts: list[str] = []
    sealed: list[str] = []
    for key in odd:
        value = read_value(holder[key])
        if key in IDS:  # nobody reads it: what a message says is the same under another id
            value = Sent((), (*value.texts, *value.sealed))
        (texts if value.texts else sealed).append(key)
        texts += value.texts
        sealed += value.sealed
    return Sent(tuple(texts), tuple(sealed))


def read_value(value: object) -> Sent:
    """Return a JSON value as one text, itself or its canonical JSON, with `…` for each run of base64."""
    text = value if isinstance(value, str) else canonical_json(value)
    sealed = tuple(_BINARY.findall(text))
    rest = _BINARY.sub("…", text) if sealed else text
    return Sent((rest,) if rest != "…" else (), sealed)


def read_thinking(value: object) -> Sent:
    """Return readable thinking, of a block, a list of them or a text; signatures and encrypted data are sealed."""
    texts: list[str] = []
    sealed: list[str] = []
    for key, text in _leaves(value, "text"):
        is_sealed = key in _SEALS or (key not in _WORDS and _CODED.fullmatch(text) is not None)
        (sealed if is_sealed else texts).append(text)
    return Sent(tuple(texts), (*sealed, *_numbers(value)))


def read_media(block: Mapping[str, Any]) -> Sent:
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
    return () if is_short("id", id) else (id,)


def long_word(text: str) -> tuple[str, ...]:
    """Return a role, or the name of a field, where it is too long to be paid for by the framing."""
    return (text,) if len(text) > _LONG_WORD or not text.isascii() else ()


def is_short(key: str, text: str) -> bool:
    """Return whether a part of the frame is no text of its own."""
    most = _LONG_ID if key in IDS else _LONG_WORD
    return len(text) <= most and text.isascii()


def is_told(key: str, value: object) -> bool:
    if long_word(key):
        return True
    if not value or value is True:
        return False
    is_frame = key in FRAME or isinstance(value, int | float)
    return not is_frame or not is_short(key, value if isinstance(value, str) else canonical_json(value))


def _leaves(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield the strings inside a value that are no part of a frame, each with the key that it stands under."""
    if isinstance(value, str):
        if value and not (key in FRAME and is_short(key, value)):
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
            (found if is_number and key not in FRAME else small).append(said)

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
