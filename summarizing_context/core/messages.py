"""Reading messages: role, texts, calls made, calls answered, thinking, media.

Pure, and the only place that knows the shapes: OpenAI chat, Anthropic blocks and Amplifier blocks may stand
side by side. Anything unknown is read as text of its canonical JSON, so that no word of it goes unseen.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from summarizing_context.core.bindings import LOADED_TOOLS
from summarizing_context.core.door import Message, canonical_json, check_message

PartKind = Literal["text", "call", "result", "thinking", "media", "opaque"]

_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_CALL_TYPES = frozenset({"tool_use", "tool_call"})
_MEDIA_TYPES = frozenset(
    {
        *("image", "image_url", "input_image", "audio", "input_audio"),
        *("document", "file", "input_file", "video", "video_url"),
    }
)
_THINKING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning"})
_BINARY = re.compile(r"[A-Za-z0-9+/=_-]{256,}")  # base64 and the like; no provider charges it as text
_REMINDER = "<system-reminder"
_REMINDERS = re.compile(r"<system-reminder\b[^\0]*?(?:</system-reminder>|\Z)")

BESIDE_CONTENT = ("refusal", "function_call", "audio")  # fields that a model reads after all else


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


class Reading(NamedTuple):
    """What a message says, and what it binds."""

    role: str
    parts: tuple[Part, ...]
    calls: tuple[str, ...]  # ids of the calls it makes, in order; an id may occur twice
    answers: tuple[str, ...]  # ids of the calls it answers, in order
    human: bool  # written by a person: not a result, a reminder or a hook's row
    critical: bool
    ephemeral: bool

    @property
    def media(self) -> int:
        """How many images, sounds and files it holds."""
        return sum(len(part.media) for part in self.parts)

    @property
    def texts(self) -> list[str]:
        """All that is charged as text: texts, tool names, arguments, result texts, thinking."""
        return [text for part in self.parts for text in ((part.name, *part.texts) if part.name else part.texts)]


def read_message(message: Message) -> Reading:
    """Read a checked message. Never raises, whatever its shape."""
    role: str = message["role"]
    parts = tuple(_message_parts(message))
    made = [part.id for part in parts if part.kind == "call"]
    given = [part.id for part in parts if part.kind == "result"]
    inside = set(made) & set(given)  # answered in the message itself: bound to nothing outside
    calls = tuple(id for id in made if id not in inside)
    answers = tuple(id for id in given if id not in inside)
    metadata = message.get("metadata")
    flags: Mapping[str, Any] = metadata if isinstance(metadata, dict) else {}
    passing = message.get("ephemeral") is True or (
        flags.get("ephemeral") is True and flags.get("persisted") is not True
    )
    return Reading(
        role,
        parts,
        calls,
        answers,
        role == "user" and flags.get("source") != "hook" and any(_is_human_text(part) for part in parts),
        message.get("critical") is True or flags.get("critical") is True or bool(flags.get(LOADED_TOOLS)),
        passing and not calls and not answers,
    )


def message_text_parts(message: Mapping[str, Any]) -> list[str]:
    """The texts of a message that are charged as tokens, in reading order.

    The cost of a message is 4 + the sum of `count(part)` over these, plus `image_tokens` for each image.
    Raises `MessageError` for what could not enter the log.
    """
    return read_message(check_message(message)).texts


def human_texts(reading: Reading) -> list[str]:
    """What a person says in a message: no result, no reminder, no words of a file."""
    said = [text for part in reading.parts if part.kind == "text" and _is_human_text(part) for text in part.texts]
    return [_REMINDERS.sub("\n", text) if _REMINDER in text else text for text in said]


def is_result(message: Message) -> bool:
    """Whether the whole content of a message is the result of one call."""
    return message["role"] == "tool" or ("tool_call_id" in message and message["role"] != "assistant")


def call_id(value: object) -> str:
    """The id of a call as text, whatever JSON value it is."""
    return value if isinstance(value, str) else "" if value is None else canonical_json(value)


def is_wordless_media(block: object) -> bool:
    """Whether a content block is an image, a sound or a file without words beside it."""
    return isinstance(block, dict) and _kind(block) in _MEDIA_TYPES and "text" not in block and not _media_texts(block)


def is_reminder(text: str) -> bool:
    """Whether a text is a host's reminder rather than somebody's words."""
    return text.lstrip().startswith(_REMINDER)


def _is_human_text(part: Part) -> bool:
    return part.kind in ("text", "media") and not any(is_reminder(text) for text in part.texts)


def _message_parts(message: Message) -> Iterator[Part]:
    content = message.get("content")
    if is_result(message):
        texts, media = _flat_texts(content)
        yield Part(
            "result", tuple(texts), id=call_id(message.get("tool_call_id")), media=tuple(media), failed=_failed(message)
        )
    else:
        yield from _thinking_fields(message, content)
        yield from _content_parts(content)
    yield from _listed_calls(message, content)
    for key in BESIDE_CONTENT:
        if value := message.get(key):
            yield Part("text", (value,)) if isinstance(value, str) else _opaque(value, -1)


def _content_parts(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield Part("text", (content,))
    elif isinstance(content, list):
        for index, block in enumerate(content):
            yield _block_part(block, index)
    elif content is not None:
        yield _opaque(content, -1)


def _block_part(block: object, index: int) -> Part:
    if isinstance(block, str):
        return Part("text", (block,), block=index)
    if not isinstance(block, dict):
        return _opaque(block, index)
    kind = _kind(block)
    if kind in _TEXT_TYPES and isinstance(block.get("text"), str):
        return Part("text", (block["text"],), block=index)
    if kind == "refusal" and isinstance(block.get("refusal"), str):
        return Part("text", (block["refusal"],), block=index)
    if kind in _CALL_TYPES:
        arguments = block.get("input", block.get("arguments", {}))
        return Part(
            "call", (_arguments(arguments),), str(block.get("name") or ""), call_id(block.get("id")), index, shape=kind
        )
    if kind == "tool_result":
        texts, media = _flat_texts(block.get("content", block.get("output")))
        id = call_id(block.get("tool_use_id", block.get("tool_call_id")))
        return Part("result", tuple(texts), "", id, index, tuple(media), _failed(block))
    if kind in _THINKING_TYPES:
        return Part("thinking", tuple(_thinking_texts(block)), block=index)
    if kind in _MEDIA_TYPES:
        texts, media = _flat_texts([block])
        return Part("media", tuple(texts), block=index, media=tuple(media))
    return _opaque(block, index)


def _listed_calls(message: Message, content: object) -> Iterator[Part]:
    """Calls in `tool_calls`; a host may list there once more what already stands as blocks."""
    listed = message.get("tool_calls")
    if not isinstance(listed, list):
        return
    blocks = content if isinstance(content, list) else []
    shown = {call_id(b.get("id")) for b in blocks if _kind(b) in _CALL_TYPES}
    for call in listed:
        if not isinstance(call, dict):
            yield _opaque(call, -1)
        elif call_id(call.get("id")) not in shown:
            inner = call.get("function") or call.get("custom") or call
            inner = inner if isinstance(inner, dict) else call
            name = inner.get("name") or inner.get("tool") or ""
            arguments = inner.get("arguments", inner.get("input", inner.get("args", {})))
            yield Part("call", (_arguments(arguments),), str(name), call_id(call.get("id")))


def _thinking_fields(message: Message, content: object) -> Iterator[Part]:
    """Thinking that stands beside the content, unless the content shows it as a block too."""
    blocks = content if isinstance(content, list) else []
    if any(_kind(block) in _THINKING_TYPES for block in blocks):
        return
    for key in ("reasoning_content", "thinking", "thinking_block"):
        value = message.get(key)
        texts = [value] if isinstance(value, str) else _thinking_texts(value) if isinstance(value, dict) else []
        if any(texts):
            yield Part("thinking", tuple(texts))
            return


def _thinking_texts(block: Mapping[str, Any]) -> list[str]:
    """Readable thinking; signatures and encrypted data are not text."""
    found = [block[key] for key in ("thinking", "text") if isinstance(block.get(key), str)]
    summary = block.get("summary")
    for item in summary if isinstance(summary, list) else [summary]:
        text = item.get("text") if isinstance(item, dict) else item
        if isinstance(text, str):
            found.append(text)
    return [text for text in found if text]


def _flat_texts(content: object) -> tuple[list[str], list[str]]:
    """Texts and media digests of a result's content, whatever its nesting."""
    if content is None or content == "":
        return [], []
    if isinstance(content, str):
        return [content], []
    texts: list[str] = []
    media: list[str] = []
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict) and isinstance(block.get("text"), str) and _kind(block) in _TEXT_TYPES:
            texts.append(block["text"])
        elif isinstance(block, dict) and _kind(block) in _MEDIA_TYPES:
            texts += _media_texts(block)
            media.append(hashlib.sha256(canonical_json(block).encode()).hexdigest())
        else:
            texts += _opaque(block, -1).texts
    return texts, media


def _media_texts(block: Mapping[str, Any]) -> list[str]:
    """Words that travel with a file: its title, its context, and its text if it is a text document."""
    source = block.get("source")
    inside = source.get("data") if isinstance(source, dict) and source.get("type") == "text" else None
    return [text for text in (block.get("title"), block.get("context"), inside) if isinstance(text, str) and text]


def _opaque(value: object, index: int) -> Part:
    return Part("opaque", (_BINARY.sub("…", canonical_json(value)),), block=index)


def _arguments(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else canonical_json(arguments)


def _kind(block: object) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else ""


def _failed(holder: Mapping[str, Any]) -> bool:
    return holder.get("is_error") is True or holder.get("status") == "error"
