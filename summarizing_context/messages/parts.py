"""The parts of a message: each thing that a model reads in it, and what is sent along with it.

Pure, and the only module that knows the shapes: OpenAI chat, Anthropic blocks, Amplifier blocks and Gemini parts may
stand side by side. Anything unknown is read as text of its canonical JSON, so that no word goes unseen or uncounted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from summarizing_context.messages.authorship import is_put_in
from summarizing_context.messages.fields import (
    NEVER_SENT,
    Sent,
    beyond_framing,
    frame_leaves,
    frame_words,
    long_frame,
    odd_fields,
    read_media,
    read_thinking,
    read_value,
    without_odd,
)
from summarizing_context.messages.provider_bindings import LOADED_TOOLS, THINKING_FIELDS
from summarizing_context.messages.validation import Message, canonical_json


class ListedCall(NamedTuple):
    """What a listed call says."""

    name: str
    arguments: str
    odd: Sent  # what stands in fields that no call has


class _Places(NamedTuple):
    """Where it says it."""

    holder: str  # the field that holds the call; empty where it stands by itself
    inner: Mapping[str, Any]
    known: frozenset[str]
    name: str
    arguments: str


def read_listed_call(call: Mapping[str, Any]) -> ListedCall:
    """A call of the list, whatever its shape."""
    holder, inner, known, name, arguments = _places(call)
    odd = odd_fields(inner, known)
    if holder:
        outer = odd_fields(call, {"id", holder})
        odd = Sent(outer.texts + odd.texts, outer.sealed + odd.sealed)
    return ListedCall(str(inner.get(name) or ""), arguments_text(inner.get(arguments, {})), odd)


def bare_call(call: Mapping[str, Any]) -> Message:
    """A call of the list without the fields that no call has."""
    holder, inner, known, _, _ = _places(call)
    bare = without_odd(inner, known)
    return {**without_odd(call, {"id", holder}), holder: bare} if holder else bare


def arguments_text(arguments: object) -> str:
    """Arguments as a model wrote them, or as JSON."""
    return arguments if isinstance(arguments, str) else canonical_json(arguments)


def mean_the_same(one: str, other: str) -> bool:
    """Whether two texts of arguments hold the same, whatever the spelling of their JSON."""
    try:
        return one == other or bool(json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return False


def _places(call: Mapping[str, Any]) -> _Places:
    holder = next((key for key in ("function", "custom") if call.get(key) and isinstance(call[key], dict)), "")
    inner = call[holder] if holder else call
    name = "name" if inner.get("name") else "tool"
    arguments = next((key for key in ("arguments", "input", "args") if key in inner), "arguments")
    return _Places(holder, inner, frozenset({"id", name, arguments}), name, arguments)


PartKind = Literal["text", "call", "result", "thinking", "media", "opaque", "extra"]

_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})

_CALL_TYPES = frozenset({"tool_use", "tool_call"})

_MEDIA_TYPES = frozenset(
    {
        *("image", "image_url", "input_image", "audio", "input_audio"),
        *("document", "file", "input_file", "video", "video_url"),
    }
)

_THINKING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning"})

BESIDE_CONTENT = ("refusal", "function_call", "audio")  # fields that a model reads after all else

_KNOWN = NEVER_SENT | {"content", "tool_calls", *BESIDE_CONTENT}

_KNOWN_FIELDS = {  # of a message, by the field of its content, and whether it is a result: that has no thinking
    (key, is_result): _KNOWN | {key, *(("tool_call_id",) if is_result else THINKING_FIELDS)}
    for key in ("content", "parts")
    for is_result in (False, True)
}


class Part(NamedTuple):
    """One thing that a model reads in a message."""

    kind: PartKind
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


def is_result(message: Message) -> bool:
    """Whether the whole content of a message is the result of one call."""
    return message["role"] == "tool" or ("tool_call_id" in message and message["role"] != "assistant")


def call_id(value: object) -> str:
    """The id of a call as text, whatever JSON value it is."""
    return value if isinstance(value, str) else "" if value is None else canonical_json(value)


def is_wordless_media(block: object) -> bool:
    """Whether a content block is an image, a sound or a file without words beside it."""
    return isinstance(block, dict) and _kind(block) in _MEDIA_TYPES and not any(read_media(block))


def content_key(message: Message) -> Literal["content", "parts"]:
    """The field that a message's content stands in; Gemini's own is `parts`."""
    return "parts" if not message.get("content") and isinstance(message.get("parts"), list) else "content"


def as_blocks(message: Message) -> Message:
    """A message of Gemini's, whose content is in `parts`, with blocks as `content`."""
    blocks = [{"type": "text", **part} if part and _is_text(part) else part for part in message["parts"]]
    return {key: value for key, value in message.items() if key != "parts"} | {"content": blocks}


def as_parts(message: Message) -> Message:
    """What `as_blocks` has made, as it was."""
    content = message["content"]
    blocks = [{"text": content}] if isinstance(content, str) else content
    parts = [
        {key: value for key, value in block.items() if key != "type"} if _is_text(block) else block for block in blocks
    ]
    return {key: value for key, value in message.items() if key != "content"} | {"parts": parts}


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and _text_key(block) == "text"


def unpaid_frame(message: Message) -> tuple[str, ...]:
    """Types, short ids and short flags that stand in no part and that the framing does not pay for."""
    content = message.get(content_key(message))
    calls = message.get("tool_calls")
    words = frame_words(message, _KNOWN)
    for block in content if isinstance(content, list) else ():
        words += _block_frame(block)
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            holder, inner, known, _, _ = _places(call)
            words += frame_words(inner, known)
            words += frame_words(call, {holder}) if holder else ()
    if not message.keys().isdisjoint(THINKING_FIELDS) and not is_result(message):
        words += [word for field in THINKING_FIELDS for word in frame_leaves(message.get(field))]
    return beyond_framing(words) if words else ()


def _block_frame(block: object) -> Iterator[str]:
    if not isinstance(block, dict):
        return
    kind = _kind(block)
    if _text_key(block) or kind in _CALL_TYPES:
        yield from frame_words(block, known_keys(block))
    elif kind == "tool_result":
        yield from frame_words(block, known_keys(block))
        inner = block.get("content", block.get("output"))
        for one in inner if isinstance(inner, list) else ():
            yield from _block_frame(one)
    elif kind in _THINKING_TYPES:  # an image, a sound or a file is charged as a whole
        yield from frame_leaves(block)


def message_parts(message: Message) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The parts of a message, and what its fields say once more."""
    key = content_key(message)
    content = message.get(key)
    parts: list[Part] = []
    again: tuple[str, ...] = ()
    known = known_fields(message)
    if is_result(message):
        texts, sealed, media = _flat_texts(content)
        id = call_id(message.get("tool_call_id"))
        parts.append(Part("result", texts, "", id, -1, media, _failed(message), sealed=(*sealed, *long_frame(id))))
    else:
        thoughts, again = _thinking_fields(message, content)
        parts += [*thoughts, *_content_parts(content)]
    parts += _listed_calls(message, content)
    for field in BESIDE_CONTENT:
        if value := message.get(field):
            parts.append(Part("text", (value,)) if isinstance(value, str) else _opaque(value, -1))
    return (*parts, *_extra(odd_fields(message, known), -1)), (*again, *_loaded(message))


def known_fields(message: Message) -> frozenset[str]:
    """The fields that the parts of a message hold. A list of calls that is no list is a field like any unknown one."""
    calls = message.get("tool_calls")
    known = _KNOWN_FIELDS[content_key(message), is_result(message)]
    return known if isinstance(calls, list) or not calls else known - {"tool_calls"}


def _loaded(message: Message) -> Iterator[str]:
    """Definitions of tools loaded on the way: the one thing in `metadata` that a provider sends beside the message."""
    metadata = message.get("metadata")
    if isinstance(metadata, dict) and metadata.get(LOADED_TOOLS):
        yield canonical_json(metadata[LOADED_TOOLS])


def _content_parts(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield Part("text", (content,))
    elif isinstance(content, list):
        for index, block in enumerate(content):
            yield _block_part(block, index)
            if isinstance(block, dict):
                yield from _extra(odd_fields(block, known_keys(block)), index)
    elif content is not None:
        yield _opaque(content, -1)


def _block_part(block: object, index: int) -> Part:
    if isinstance(block, str):
        return Part("text", (block,), block=index)
    if not isinstance(block, dict):
        return _opaque(block, index)
    kind = _kind(block)
    if key := _text_key(block):
        return Part("text", (block[key],), block=index, put_in=is_put_in(block))
    if kind in _CALL_TYPES:
        arguments, id = arguments_text(block.get("input", block.get("arguments", {}))), call_id(block.get("id"))
        name = str(block.get("name") or "")
        return Part("call", (arguments,), name, id, index, shape=kind, sealed=long_frame(id))
    if kind == "tool_result":
        texts, sealed, media = _flat_texts(block.get("content", block.get("output")))
        id = call_id(block.get("tool_use_id", block.get("tool_call_id")))
        return Part("result", texts, "", id, index, media, _failed(block), sealed=(*sealed, *long_frame(id)))
    if kind in _THINKING_TYPES:
        thoughts = read_thinking(block)
        return Part("thinking", thoughts.texts, block=index, sealed=thoughts.sealed)
    if kind in _MEDIA_TYPES:
        texts, sealed, media = _flat_texts([block])
        return Part("media", texts, block=index, media=media, sealed=sealed, put_in=is_put_in(block))
    return _opaque(block, index)


def known_keys(block: Mapping[str, Any]) -> frozenset[str]:
    """The fields of a block that its part holds; all of them, but for texts, calls and results."""
    kind = _kind(block)
    if key := _text_key(block):
        return frozenset({key})
    if kind in _CALL_TYPES:
        return frozenset({"id", "name", "input" if "input" in block else "arguments"})
    if kind == "tool_result":
        answered = "tool_use_id" if "tool_use_id" in block else "tool_call_id"
        return frozenset({answered, "content" if "content" in block else "output"})
    return frozenset(block)


def _text_key(block: Mapping[str, Any]) -> str:
    """The field of a text block that holds its text; empty for other blocks. Gemini's have no type."""
    kind = _kind(block)
    key = "refusal" if kind == "refusal" else "text" if kind in _TEXT_TYPES or "type" not in block else ""
    return key if isinstance(block.get(key), str) else ""


def _extra(odd: Sent, index: int) -> Iterator[Part]:
    if any(odd):
        yield Part("extra", odd.texts, block=index, sealed=odd.sealed)


def _listed_calls(message: Message, content: object) -> Iterator[Part]:
    """Calls in `tool_calls`; a host may list there once more what already stands as blocks."""
    listed = message.get("tool_calls")
    if not isinstance(listed, list):
        return
    blocks = content if isinstance(content, list) else []
    shown = {call_id(b.get("id")): _block_part(b, -1) for b in blocks if _kind(b) in _CALL_TYPES}
    for call in listed:
        if not isinstance(call, dict):
            yield _opaque(call, -1)
            continue
        id, listing = call_id(call.get("id")), read_listed_call(call)
        if id not in shown:
            yield Part("call", (listing.arguments,), listing.name, id, sealed=long_frame(id))
        elif listing.name and listing.name != shown[id].name:
            yield Part("extra", (listing.name, listing.arguments))  # another call under the same id
        elif not mean_the_same(listing.arguments, shown[id].texts[0]):
            yield Part("extra", (listing.arguments,))
        yield from _extra(listing.odd, -1)


def _thinking_fields(message: Message, content: object) -> tuple[list[Part], tuple[str, ...]]:
    """Thinking that stands beside the content, each word of it once, and what is said or sealed again there."""
    if message.keys().isdisjoint(THINKING_FIELDS):
        return [], ()
    blocks = content if isinstance(content, list) else []
    said = {text for block in blocks if _kind(block) in _THINKING_TYPES for text in read_thinking(block).texts}
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
    return parts, tuple(again)


def _flat_texts(content: object) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Texts of a result's content, whatever its nesting; what is sealed in it; and digests of its media."""
    if content is None or content == "":
        return (), (), ()
    if isinstance(content, str):
        return (content,), (), ()
    found: list[Sent] = []
    media: list[str] = []
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            found.append(Sent((block,)))
        elif isinstance(block, dict) and _kind(block) in _MEDIA_TYPES:
            found.append(read_media(block))
            media.append(hashlib.sha256(canonical_json(block).encode()).hexdigest())
        elif isinstance(block, dict) and (key := _text_key(block)):
            found += [Sent((block[key],)), odd_fields(block, {key})]
        else:
            found.append(read_value(block))
    texts = tuple(text for each in found for text in each.texts)
    return texts, tuple(text for each in found for text in each.sealed), tuple(media)


def _opaque(value: object, index: int) -> Part:
    texts, sealed = read_value(value)
    return Part("opaque", texts, block=index, sealed=sealed)


def _kind(block: object) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


def _failed(holder: Mapping[str, Any]) -> bool:
    return holder.get("is_error") is True or holder.get("status") == "error"
