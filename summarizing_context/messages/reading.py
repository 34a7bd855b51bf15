"""Reading messages: role, parts, calls made, calls answered, what a human typed, and what is charged.

Pure. The shapes that parts stand in are known in `parts`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from summarizing_context.messages.authorship import is_injected, is_put_in, split_words, stand_between
from summarizing_context.messages.parts import (
    CALL_TYPES,
    FRAME,
    IDS,
    KNOWN,
    MEDIA_TYPES,
    THINKING_TYPES,
    Part,
    call_places,
    is_result,
    is_short,
    is_told,
    kind_of,
    known_keys,
    message_parts,
    odd_keys,
    read_media,
    text_key,
)
from summarizing_context.messages.provider_bindings import LOADED_TOOLS, THINKING_FIELDS
from summarizing_context.messages.validation import Message, check_message

_PAID = frozenset({"text", "function", "tool_use", "tool_call", "tool_result", "thinking"})  # types of few tokens


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
        """The reading without what nobody reads."""
        if not self.unread:
            return self
        return self._replace(parts=tuple(part._replace(sealed=()) for part in self.parts), again=())


def read_message(message: Message) -> Reading:
    """Read a checked message. Never raises, whatever its shape."""
    return read_parts(message, *message_parts(message))


def read_parts(message: Message, parts: tuple[Part, ...], again: tuple[str, ...]) -> Reading:
    """Read a checked message of which the parts are known, and what its fields say once more."""
    role: str = message["role"]
    turn = human = False
    typed: tuple[str, ...] = ()
    if role == "user":
        if sum(part.kind == "text" for part in parts) > 2:  # those between a host's tags in other parts are the host's
            between = stand_between(["\n".join(part.texts) if part.kind == "text" else "" for part in parts])
            parts = tuple(
                part._replace(put_in=True) if held else part for part, held in zip(parts, between, strict=True)
            )
        if not is_injected(message):
            words = (part for part in parts if part.kind in ("text", "media"))
            turn = any(not any(map(is_reminder, part.texts)) for part in words)
            if not is_put_in(message):
                typed = typed_texts(parts)
                human = bool(typed) or any(part.kind == "media" and not part.put_in for part in parts)
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
    critical = message.get("critical") is True or flags.get("critical") is True or bool(flags.get(LOADED_TOOLS))
    ephemeral = passing and not calls and not answers
    return Reading(role, parts, calls, answers, turn, human, critical, ephemeral, again, typed)


def read_content(message: Message) -> Reading:
    """Return the parts of a checked message alone: what it says, not what it binds, nor whose it is."""
    parts, again = message_parts(message)
    return Reading(message["role"], parts, (), (), False, False, False, False, again)


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


def typed_texts(parts: Iterable[Part]) -> tuple[str, ...]:
    """Return what a person typed of the parts of a row that is no host's."""
    texts = (text for part in parts if part.kind == "text" and not part.put_in for text in part.texts)
    return tuple(said for text in texts if (said := split_words(text).typed) and not said.isspace())


def is_reminder(text: str) -> bool:
    """Return whether a text is a host's reminder rather than somebody's words."""
    return text.lstrip().startswith("<system-reminder")


def unpaid_frame(message: Message) -> tuple[str, ...]:
    """Types, short ids and short flags that stand in no part and that the framing does not pay for."""
    content = message.get("content") or message.get("parts")
    calls = message.get("tool_calls")
    words = frame_words(message, KNOWN)
    for block in content if isinstance(content, list) else ():
        words += _block_frame(block)
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            holder, inner, name, arguments = call_places(call)
            words += frame_words(inner, {"id", name, arguments})
            words += frame_words(call, {holder}) if holder else ()
    if not message.keys().isdisjoint(THINKING_FIELDS) and not is_result(message):
        words += [word for field in THINKING_FIELDS for word in frame_leaves(message.get(field))]
    if (paid := next((word for word in words if word in _PAID), None)) is not None:
        words.remove(paid)  # for one type, and for the role, the framing of a message pays
    return tuple(words)


def _block_frame(block: object) -> Iterator[str]:
    if not isinstance(block, dict):
        return
    kind = kind_of(block)
    if text_key(block) or kind in CALL_TYPES or kind == "tool_result":
        yield from frame_words(block, known_keys(block))
    if kind == "tool_result":
        inner = block.get("content", block.get("output"))
        for one in inner if isinstance(inner, list) else ():
            yield from _block_frame(one)
    elif kind in THINKING_TYPES:  # an image, a sound or a file is charged as a whole
        yield from frame_leaves(block)


def frame_words(holder: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return type, short ids and short flags of a holder, which stand in no part. `known` flags do; ids never."""
    words: list[str] = []
    for key, value in holder.items():
        if key in FRAME and key != "role" and (key in IDS or key not in known):
            if not isinstance(value, str):
                words += () if is_told(key, value) else (text for _, text in _strings(value, ""))
            elif value and is_short(key, value):
                words.append(value)
    return words


def frame_leaves(value: object) -> Iterator[str]:
    """Return the same of all that is inside a value."""
    return (text for key, text in _strings(value, "") if key in FRAME and is_short(key, text))


def _strings(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield the strings inside a value, each with the name that it stands under."""
    if isinstance(value, str):
        if value:
            yield key, value
    elif isinstance(value, list | dict):
        for name, item in value.items() if isinstance(value, dict) else ((key, item) for item in value):
            yield from _strings(item, name)


def as_blocks(message: Message) -> Message:
    """Return a message of Gemini's, whose content is in `parts`, with blocks as `content`."""
    blocks = [{"type": "text", **part} if part and _is_text(part) else part for part in message["parts"]]
    return {key: value for key, value in message.items() if key != "parts"} | {"content": blocks}


def as_parts(message: Message) -> Message:
    """Return what `as_blocks` has made, as it was."""
    content = message["content"]
    blocks = [{"text": content}] if isinstance(content, str) else content
    parts = [
        {key: value for key, value in block.items() if key != "type"} if _is_text(block) else block for block in blocks
    ]
    return {key: value for key, value in message.items() if key != "content"} | {"parts": parts}


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and text_key(block) == "text"


def is_wordless_media(block: object) -> bool:
    """Return whether a content block is an image, a sound or a file without words beside it."""
    return isinstance(block, dict) and kind_of(block) in MEDIA_TYPES and not any(read_media(block))


def bare_call(call: Mapping[str, Any]) -> Message:
    """Return a call of the list without the fields that no call has."""
    holder, inner, name, arguments = call_places(call)
    bare = without_odd(inner, {"id", name, arguments})
    return {**without_odd(call, {"id", holder}), holder: bare} if holder else bare


def without_odd(holder: Mapping[str, Any], known: Collection[str]) -> Message:
    """Return the holder without these fields; who speaks stays, however long."""
    odd = set(odd_keys(holder, known)) - {"role"}
    return {key: value for key, value in holder.items() if key not in odd}
