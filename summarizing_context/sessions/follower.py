"""Keeps a log in step with a host that hands over its whole history each time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import anyio
import msgspec

from summarizing_context.concurrency import finish_despite_cancellation
from summarizing_context.errors import MessageError, SettingsError, briefly
from summarizing_context.log.entries import Entry
from summarizing_context.messages.shapes import (
    Message,
    canonical_json,
    check_message,
    decode_message,
    encode_message,
)
from summarizing_context.sessions.session import Session

_BREATH = 1_000  # messages compared between two turns of the event loop
_ADDED_BREATH = 250  # new messages read between two

_encoder = msgspec.json.Encoder()

_NO_BYTES = (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError)


class FollowReport(NamedTuple):
    """What `follow` found, in messages; a given system prompt counts as the first of them."""

    appended: int  # messages that stand behind those that were kept
    kept: int
    replaced_from: int | None  # the first message of the log that the host rewrote or took back; None where none was


class Follower:
    """Follows one host. All methods belong to the session's event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn = anyio.Lock(fast_acquire=True)  # one history after the other
        self._keys: list[str] = []  # of the history that was followed last
        self._name: tuple[int, int, int] | None = None  # of the log that held just that

    async def follow(self, messages: object, keys: Sequence[str] | None, prompt: object) -> FollowReport:
        """Bring the log in step. Raises `MessageError` and `SettingsError`; then nothing is changed."""
        history = _listed(messages)
        named = None if keys is None else _listed_keys(keys)
        if prompt is not None:
            leading = check_message({"role": "system", "content": prompt})
            history = [leading, *history]
            named = None if named is None else [canonical_json(leading), *named]
        async with self._turn:
            return await self._follow(history, named)

    async def _follow(self, history: list[object], keys: list[str] | None) -> FollowReport:
        """Both lists are the host's own: they are read anew after each wait, and never written to."""
        log = self._session.log
        while True:
            name = log.name
            if keys is not None:
                followed = list(keys)
                same = _same_keys(followed, self._keys, len(history))
            if keys is not None and self._name == name:
                kept, rest = same, history[same:]
            else:
                whole = list(history)
                kept = await self._kept(whole, log.in_order())
                rest = whole[kept:]
            new = []
            for at, message in enumerate(rest, kept):
                try:
                    new.append(await self._session.intake.one(message))
                except MessageError as error:
                    raise MessageError(f"message {at}: {error}") from error
                if len(new) % _ADDED_BREATH == 0:
                    await asyncio.sleep(0)
            if log.name == name:
                break  # else somebody else changed the log meanwhile
        self._name = None
        lost = len(log) + len(log.ephemeral) > kept
        if lost:
            await finish_despite_cancellation(self._session.replace([*log.in_order()[:kept], *new]))
        elif new:
            await finish_despite_cancellation(self._session.append(new))
        if keys is not None and len(log) + len(log.ephemeral) == kept + len(new):
            self._keys, self._name = followed, log.name
        return FollowReport(len(new), kept, kept if lost else None)

    async def _kept(self, history: list[object], present: Sequence[Entry]) -> int:
        """How many messages from the first on the host has left as they are, by their content."""
        for at, (message, entry) in enumerate(zip(history, present, strict=False)):
            if not _is_same(message, entry, at):
                return at
            if at % _BREATH == _BREATH - 1:
                await asyncio.sleep(0)
        return min(len(history), len(present))


def _listed(messages: object) -> list[object]:
    """Messages as a list. A list is not copied: of thousands that were followed before, only the new ones are read."""
    if isinstance(messages, list):
        return messages
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise MessageError(f"messages are a list of messages, not {type(messages).__name__}")
    return list(messages)


def _listed_keys(keys: Sequence[str]) -> list[str]:
    if isinstance(keys, list):
        return keys
    if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Iterable):
        raise SettingsError(f"keys is {briefly(keys)}; it is a list of strings, one for each message")
    return list(keys)


def _same_keys(keys: list[str], before: list[str], messages: int) -> int:
    """How many keys from the first on are those of `before`. Raises `SettingsError` for one that is no string, and
    where they are not as many as the messages."""
    if len(keys) != messages:
        raise SettingsError(f"keys has {len(keys)} of them for {messages} messages; give one for each")
    for at, key in enumerate(keys):
        if type(key) is not str:
            raise SettingsError(f"keys[{at}] is {briefly(key)}; a key is a string")
    differing = (at for at, (key, other) in enumerate(zip(keys, before, strict=False)) if key != other)
    return next(differing, min(len(keys), len(before)))


def _is_same(message: object, entry: Entry, at: int) -> bool:
    """Whether a host's message is what the log holds, but for what `_plain` leaves out.

    What is written alike is not checked again. Raises `MessageError`.
    """
    try:
        if type(message) is dict and _encoder.encode(message) == entry.data:
            return True
    except _NO_BYTES:
        pass  # it is checked now, which says what is wrong, or writes it in another way
    try:
        checked = check_message(message)
    except MessageError as error:
        raise MessageError(f"message {at}: {error}") from error
    if encode_message(checked) == entry.data:
        return True
    return canonical_json(_plain(checked)) == canonical_json(_plain(decode_message(entry.data)))


def _plain(message: Message) -> Message:
    """A message without cache marks, a single block of nothing but text written as a string."""
    plain = {name: value for name, value in message.items() if name != "cache_control"}
    if isinstance(blocks := plain.get("content"), list):
        blocks = [_unmarked(block) for block in blocks]
        is_text = len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].keys() == {"type", "text"}
        plain["content"] = blocks[0]["text"] if is_text and blocks[0]["type"] == "text" else blocks
    return plain


def _unmarked(block: object) -> object:
    if not isinstance(block, dict):
        return block
    return {name: value for name, value in block.items() if name != "cache_control"}
