"""Log entries: a message's bytes with what was derived from it when it was added.

Pure. The derived facts are stored beside the bytes, so that reopening a long session parses no message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import msgspec

from summarizing_context.extraction.importance import NO_TRAITS, Traits, read_traits
from summarizing_context.log.digests import content_digest
from summarizing_context.log.repairs import Read
from summarizing_context.messages.budget_estimate import estimates
from summarizing_context.messages.estimate import ESTIMATE, MESSAGE_TOKENS, estimate_texts
from summarizing_context.messages.instruction_files import may_hold_files
from summarizing_context.messages.parts import unpaid_frame
from summarizing_context.messages.reading import Reading, human_texts, read_message
from summarizing_context.messages.validation import Message, decode_message, encode_message

_READING = 7  # version of what is read of the user's rows: who typed in them, and their traits

_COUNTING = 4  # version of what is counted in a message, and of the estimate

_LABEL_TOKENS = 4  # what rendering adds to each part


class Role(IntEnum):
    """Roles that the log tells apart. Numbers, because a long session holds one for each message."""

    OTHER, SYSTEM, DEVELOPER, USER, ASSISTANT, TOOL = range(6)


class Facts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the log needs to know of a message without parsing it again."""

    role: Role
    calls: tuple[str, ...]
    answers: tuple[str, ...]
    turn: bool  # begins a turn of the user's
    critical: bool
    hook: bool  # injected by a host's hook
    ephemeral: bool
    size: int  # estimated tokens as rendered, hence of what a model reads; segments are cut by it
    text_tokens: int  # by the session's counter
    media: int
    content: bytes  # digest of what it says
    unused: tuple[object, ...] = ()  # earlier versions kept standing rules here; the place stays, for others follow
    traits: Traits = NO_TRAITS  # what makes it important
    human: bool = False  # holds words that a person typed
    files: bool | None = None  # may hold instruction files; None where an earlier version has not looked


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """Facts as the store keeps them: with the name of the counter that counted their tokens."""

    counter: str
    facts: Facts
    reading: int = 0  # version of what is read of the user's rows
    counting: int = 0  # version of what is counted


class Entry:
    """One message of the log, as bytes; its dict is made anew whenever it is read, but for the newest ones."""

    __slots__ = ("_typed_length", "data", "digest", "facts", "fresh", "rules", "typed", "verdict")

    def __init__(
        self,
        data: bytes,
        facts: Facts,
        fresh: tuple[Message, Reading] | None = None,
        typed: Sequence[str] | None = None,
    ) -> None:
        self.data = data
        self.facts = facts
        self.fresh = fresh  # what it was made of: the next view shows it, and need not parse it again
        self.digest = facts.content  # tied to its group when it joins the log
        self.typed = typed  # what a human typed in it, until its rules are read
        self._typed_length = None if typed is None else sum(map(len, typed))
        self.rules: Any = None  # what cues tell of its rules, and what a model does: kept by what reads them, `rules`
        self.verdict: Any = None

    @property
    def typed_length(self) -> int:
        """Characters that a human typed in it."""
        if self._typed_length is None:  # it was stored
            self._typed_length = sum(map(len, human_texts(self.read(0).reading)))
        return self._typed_length

    def message(self) -> Message:
        """A fresh copy of the message."""
        return decode_message(self.data)

    def read(self, index: int) -> Read:
        """The message with its reading, at its place in the log. To be read only: it may be shared."""
        if (fresh := self.fresh) is not None:
            return Read(index, *fresh)
        message = self.message()
        return Read(index, message, read_message(message))

    def cost(self, image_tokens: int) -> int:
        """Tokens that the message costs when it is sent."""
        return MESSAGE_TOKENS + self.facts.text_tokens + image_tokens * self.facts.media


def make_entry(message: Message, count: Callable[[str], int], counter: str) -> Entry:
    """The entry of a checked message, counted by `count`, whose name is `counter`."""
    reading = read_message(message)
    if counter == ESTIMATE:
        both = [estimates(text) for text in reading.texts]
        estimate, read = sum(cut for cut, _ in both), sum(budget for _, budget in both)
    else:
        estimate, read = estimate_texts(reading.texts), sum(map(count, reading.texts))
    tokens = read + _unread_tokens(message, reading, count)
    typed, data = human_texts(reading), encode_message(message)
    facts = _facts(message, reading, typed, estimate=estimate, text_tokens=tokens, files=may_hold_files(data))
    return Entry(data, facts, (message, reading), typed if facts.human else None)


def encode_facts(facts: Facts, counter: str) -> bytes:
    """Facts as the store keeps them."""
    try:
        return msgspec.msgpack.encode(Kept(counter, facts, _READING, _COUNTING))
    except UnicodeEncodeError:  # an id with lone surrogates: the facts are derived again when reading
        return b""


def decode_entry(data: bytes, kept: bytes, count: Callable[[str], int], counter: str) -> Entry:
    """The entry that was stored, with tokens by `count`."""
    try:
        known = _decoder.decode(kept)
    except msgspec.DecodeError:  # none, or of another version
        return make_entry(decode_message(data), count, counter)
    # Of files of older versions only the user's rows are read again, for who typed in them: opening stays quick.
    facts, is_counted = known.facts, known.counter == counter
    if is_counted and known.counting == _COUNTING and (known.reading == _READING or facts.role != Role.USER):
        return Entry(data, facts)
    message = decode_message(data)
    reading = read_message(message)
    if known.counting != _COUNTING:  # what was sent then but not counted is counted now, and so is every estimate
        is_read_only = not reading.unread and not unpaid_frame(message)
        as_then = is_read_only and content_digest(reading) == facts.content
        is_counted = is_counted and as_then and counter != ESTIMATE
    tokens = facts.text_tokens
    if not is_counted:
        tokens = sum(map(count, reading.texts)) + _unread_tokens(message, reading, count)
    traits = read_traits(reading, human_texts(reading)) if facts.role == Role.USER else facts.traits
    derived = {"unused": (), "traits": traits, "human": reading.human}
    return Entry(data, msgspec.structs.replace(facts, text_tokens=tokens, **derived))


_decoder = msgspec.msgpack.Decoder(Kept)

_ROLES = {role.name.lower(): role for role in Role}


def _unread_tokens(message: Message, reading: Reading, count: Callable[[str], int]) -> int:
    """Tokens of what is sent of a message beside what a model reads."""
    return sum(map(count, reading.unread)) + sum(map(count, unpaid_frame(message)))


def _facts(
    message: Message, reading: Reading, typed: Sequence[str], *, estimate: int, text_tokens: int, files: bool
) -> Facts:
    metadata = message.get("metadata")
    return Facts(
        role=_ROLES.get(reading.role, Role.OTHER),
        calls=reading.calls,
        answers=reading.answers,
        turn=reading.turn,
        critical=reading.critical,
        hook=isinstance(metadata, dict) and metadata.get("source") == "hook",
        ephemeral=reading.ephemeral,
        size=MESSAGE_TOKENS + estimate + _LABEL_TOKENS * len(reading.parts),
        text_tokens=text_tokens,
        media=reading.media,
        content=content_digest(reading),
        traits=read_traits(reading, typed),
        human=reading.human,
        files=files,
    )
