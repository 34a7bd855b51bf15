"""Log entries: a message's bytes with what was derived from it when it was added.

Pure. The derived facts are stored beside the bytes, so that reopening a long session parses no message.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from summarizing_context.core.door import Message, decode_message, encode_message
from summarizing_context.core.estimate import MESSAGE_TOKENS, estimate_text
from summarizing_context.core.keys import content_digest
from summarizing_context.core.messages import Reading, read_message
from summarizing_context.core.repairs import Read

_LABEL_TOKENS = 4  # what rendering adds to each part


class Facts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the log needs to know of a message without parsing it again."""

    role: str
    calls: tuple[str, ...]
    answers: tuple[str, ...]
    human: bool
    critical: bool
    hook: bool  # injected by a host's hook
    ephemeral: bool
    size: int  # estimated tokens as rendered; segments are cut by it
    text_tokens: int  # by the counter named next
    counter: str
    media: int
    content: bytes  # digest of what it says


class Entry:
    """One message of the log, as bytes; its dict is made anew whenever it is read."""

    __slots__ = ("data", "digest", "facts")

    def __init__(self, data: bytes, facts: Facts) -> None:
        self.data = data
        self.facts = facts
        self.digest = facts.content  # tied to its group when it joins the log

    def message(self) -> Message:
        """A fresh copy of the message."""
        return decode_message(self.data)

    def read(self, index: int) -> Read:
        """The message with its reading, at its place in the log."""
        message = self.message()
        return Read(index, message, read_message(message))

    def cost(self, image_tokens: int) -> int:
        """Tokens that the message costs when it is sent."""
        return MESSAGE_TOKENS + self.facts.text_tokens + image_tokens * self.facts.media


def make_entry(message: Message, count: Callable[[str], int], counter: str) -> Entry:
    """The entry of a checked message, counted by `count`, whose name is `counter`."""
    reading = read_message(message)
    return Entry(encode_message(message), _facts(message, reading, sum(map(count, reading.texts)), counter))


def recounted(entry: Entry, count: Callable[[str], int], counter: str) -> Entry:
    """The entry with its tokens by another counter."""
    tokens = sum(map(count, read_message(entry.message()).texts))
    return Entry(entry.data, msgspec.structs.replace(entry.facts, text_tokens=tokens, counter=counter))


def encode_facts(facts: Facts) -> bytes:
    """Facts as the store keeps them."""
    try:
        return msgspec.msgpack.encode(facts)
    except UnicodeEncodeError:  # an id or a role with lone surrogates: derive them again when reading
        return b""


def decode_entry(data: bytes, facts: bytes, count: Callable[[str], int], counter: str) -> Entry:
    """The entry that was stored, with tokens by `count`."""
    try:
        known = _decoder.decode(facts)
    except msgspec.DecodeError:  # none, or of another version
        return make_entry(decode_message(data), count, counter)
    entry = Entry(data, known)
    return entry if known.counter == counter else recounted(entry, count, counter)


_decoder = msgspec.msgpack.Decoder(Facts)


def _facts(message: Message, reading: Reading, text_tokens: int, counter: str) -> Facts:
    metadata = message.get("metadata")
    size = MESSAGE_TOKENS + sum(map(estimate_text, reading.texts)) + _LABEL_TOKENS * len(reading.parts)
    return Facts(
        reading.role,
        reading.calls,
        reading.answers,
        reading.human,
        reading.critical,
        isinstance(metadata, dict) and metadata.get("source") == "hook",
        reading.ephemeral,
        size,
        text_tokens,
        counter,
        reading.media,
        content_digest(reading),
    )
