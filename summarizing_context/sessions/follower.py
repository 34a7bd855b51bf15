"""Keeps a log in step with a host that hands over its whole history each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, NamedTuple

import anyio
import msgspec

from summarizing_context.concurrency import finish_despite_cancellation, in_turns
from summarizing_context.errors import MessageError, SettingsError, briefly
from summarizing_context.log.entries import Entry
from summarizing_context.messages.reading import Message, canonical_json, check_message, decode_message, encode_message
from summarizing_context.sessions.session import Session


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
        # a list is not copied: of thousands of messages that were followed before, only the new ones are read
        history = _listed(messages, MessageError(f"messages are a list of messages, not {type(messages).__name__}"))
        wrong = SettingsError(f"keys is {briefly(keys)}; it is a list of strings, one for each message")
        named = None if keys is None else _listed(keys, wrong)
        if prompt is not None:
            leading = check_message({"role": "system", "content": prompt})
            history = [leading, *history]
            named = None if named is None else [canonical_json(leading), *named]
        session, log = self._session, self._session.log
        async with self._turn:
            name = None
            while name != log.name:  # again where another call has changed the log meanwhile
                name = log.name

                # how many messages from the first on the host has left as they are: by keys, else by content
                followed = None if named is None else list(named)
                if followed is not None and len(followed) != len(history):
                    short = f"keys has {len(followed)} of them for {len(history)} messages"
                    raise SettingsError(f"{short}; give one for each")
                for at, key in enumerate(followed or ()):
                    if type(key) is not str:
                        raise SettingsError(f"keys[{at}] is {briefly(key)}; a key is a string")
                kept = 0
                if followed is not None and self._name == name:
                    both = zip(followed, self._keys, strict=False)
                    kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))
                    rest = history[kept:]
                else:
                    whole = list(history)
                    async for message, entry in in_turns(zip(whole, log.in_order(), strict=False), 1_000):
                        if not _is_same(message, entry, kept):
                            break
                        kept += 1
                    rest = whole[kept:]

                # what is new
                new = []
                async for message in in_turns(rest):
                    try:
                        new.append(await session.intake.one(message))
                    except MessageError as error:
                        raise MessageError(f"message {kept + len(new)}: {error}") from error

            self._name = None
            lost = log.messages > kept
            if lost:
                await finish_despite_cancellation(session.replace([*log.in_order()[:kept], *new]))
            elif new:
                await finish_despite_cancellation(session.append(new))
            if followed is not None and log.messages == kept + len(new):
                self._keys, self._name = followed, log.name
            return FollowReport(len(new), kept, kept if lost else None)


def _listed(values: object, wrong: Exception) -> list[Any]:
    if isinstance(values, list):
        return values
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise wrong
    return list(values)


def _is_same(message: object, entry: Entry, at: int) -> bool:
    """Return whether a host's message is what the log holds, but for what `_plain` leaves out.

    What is written alike is not checked again. Raises `MessageError`.
    """
    with suppress(TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError):  # of what is checked now
        if type(message) is dict and msgspec.json.encode(message) == entry.data:
            return True
    try:
        checked = check_message(message)
    except MessageError as error:
        raise MessageError(f"message {at}: {error}") from error
    if encode_message(checked) == entry.data:
        return True
    return canonical_json(_plain(checked)) == canonical_json(_plain(decode_message(entry.data)))


def _plain(message: Message) -> Message:
    """Return a message without cache marks, a single block of nothing but text written as a string."""

    def unmarked(value: dict[str, Any]) -> dict[str, Any]:
        return {name: part for name, part in value.items() if name != "cache_control"}

    plain: Message = unmarked(message)
    if isinstance(blocks := plain.get("content"), list):
        blocks = [unmarked(block) if isinstance(block, dict) else block for block in blocks]
        is_text = len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].keys() == {"type", "text"}
        plain["content"] = blocks[0]["text"] if is_text and blocks[0]["type"] == "text" else blocks
    return plain
