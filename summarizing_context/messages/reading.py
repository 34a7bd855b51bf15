"""Reading messages: role, parts, calls made, calls answered, whether a human speaks, and what is charged.

Pure. The shapes that parts stand in are known in `parts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from summarizing_context.messages.authorship import is_injected, is_put_in, stand_between, typed_words
from summarizing_context.messages.parts import (
    BESIDE_CONTENT,
    Part,
    as_blocks,
    as_parts,
    call_id,
    content_key,
    is_result,
    is_wordless_media,
    message_parts,
    unpaid_frame,
)
from summarizing_context.messages.provider_bindings import LOADED_TOOLS
from summarizing_context.messages.validation import Message, check_message

__all__ = [
    "BESIDE_CONTENT",
    "Part",
    "Reading",
    "as_blocks",
    "as_parts",
    "call_id",
    "charged_texts",
    "content_key",
    "human_texts",
    "is_reminder",
    "is_result",
    "is_wordless_media",
    "message_text_parts",
    "read_content",
    "read_message",
    "read_parts",
]

_REMINDER = "<system-reminder"


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
    parts = _put_in_between(parts) if role == "user" else parts
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
    turn = role == "user" and not is_injected(message) and any(map(_may_be_human, parts))
    return Reading(
        role,
        parts,
        calls,
        answers,
        turn,
        role == "user" and not is_injected(message) and not is_put_in(message) and any(map(_is_human, parts)),
        message.get("critical") is True or flags.get("critical") is True or bool(flags.get(LOADED_TOOLS)),
        passing and not calls and not answers,
        again,
    )


def read_content(message: Message) -> Reading:
    """The parts of a checked message alone: what it says, not what it binds, nor whose it is."""
    parts, again = message_parts(message)
    return Reading(message["role"], parts, (), (), False, False, False, False, again)


def charged_texts(message: Message, reading: Reading) -> list[str]:
    """All that is charged as text in a message that is read so: what its parts send, and the frame around them."""
    return [*reading.sent, *unpaid_frame(message)]


def message_text_parts(message: Mapping[str, Any]) -> list[str]:
    """The texts of a message that are charged as tokens, in reading order.

    The cost of a message is 4 + the sum of `count(part)` over these, plus `image_tokens` for each image.
    Raises `MessageError` for what could not enter the log.
    """
    checked = check_message(message)
    return charged_texts(checked, read_content(checked))


def content_texts(content: object) -> list[str]:
    """The texts that stand in some content, and what is sealed in it."""
    return read_content({"role": "user", "content": content}).sent


def human_texts(reading: Reading) -> list[str]:
    """What a person typed in a message: no result, nothing that a host put in, no words of a file."""
    parts = [part for part in reading.parts if part.kind == "text" and not part.put_in] if reading.human else []
    return [said for part in parts for text in part.texts if not is_blank(said := typed_words(text))]


def is_blank(text: str) -> bool:
    """Whether a text holds white space only. Quick, where to strip megabytes would hold every other thread up."""
    return not text or text.isspace()


def is_reminder(text: str) -> bool:
    """Whether a text is a host's reminder rather than somebody's words."""
    return text.lstrip().startswith(_REMINDER)


def _put_in_between(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Parts of which those that stand between a host's tags in other parts are the host's."""
    if sum(part.kind == "text" for part in parts) < 3:
        return parts
    between = stand_between(["\n".join(part.texts) if part.kind == "text" else "" for part in parts])
    return tuple(part._replace(put_in=True) if held else part for part, held in zip(parts, between, strict=True))


def _may_be_human(part: Part) -> bool:
    return part.kind in ("text", "media") and not any(is_reminder(text) for text in part.texts)


def _is_human(part: Part) -> bool:
    if part.put_in:
        return False
    return part.kind == "media" or (part.kind == "text" and not all(is_blank(typed_words(text)) for text in part.texts))
