"""Messages on their way into the log: checked, counted, made into entries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from summarizing_context.log.entries import Entry, RuleReader, content_digest, make_entry, stored_entry
from summarizing_context.log.host_history import HostRow
from summarizing_context.messages.counters import TokenCounter
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.validation import LONG_TEXT, Message, parse_message, parse_messages
from summarizing_context.stores.base import StoredEntry

_BREATH = 100  # messages between two turns of the event loop

InThread = Callable[[Callable[[], Entry]], Awaitable[Entry]]


class Intake:
    """Makes entries, counted by the session's counter, and has their rules read."""

    def __init__(self, counter: TokenCounter, in_thread: InThread, reader: RuleReader) -> None:
        self._counter = counter
        self._reader = reader
        self._in_thread = in_thread

    async def one(self, message: object) -> Entry:
        """The entry of a message. Raises `MessageError`."""
        return await self._entry(*parse_message(message))

    async def all(self, messages: object, known: Sequence[Entry]) -> list[Entry]:
        """The entries of a whole log; those of `known` that stand at the same place are taken as they are."""
        entries: list[Entry] = []
        durable = 0
        for message, data in parse_messages(messages):
            same = known[durable] if durable < len(known) else None
            entry = same if same is not None and same.data == data else await self._entry(message, data)
            entry.fresh = None  # of a whole log few messages are shown
            entries.append(entry)
            durable += not entry.facts.ephemeral
            if len(entries) % _BREATH == 0:
                await asyncio.sleep(0)
        return entries

    async def host_rows(self, messages: object) -> list[HostRow]:
        """The messages of a host's transcript. Raises `MessageError`."""
        found: list[HostRow] = []
        for message, _ in parse_messages(messages):
            reading = read_message(message)
            found.append(HostRow(content_digest(reading), reading.calls, reading.answers, reading.ephemeral))
            if len(found) % _BREATH == 0:
                await asyncio.sleep(0)
        return found

    def stored(self, entries: Iterable[Entry]) -> list[StoredEntry]:
        """Entries as the store keeps them."""
        return [stored_entry(entry, self._counter.name, self._reader) for entry in entries]

    async def all_stored(self, entries: Sequence[Entry]) -> list[StoredEntry]:
        """Like `stored`, but let the event loop turn meanwhile."""
        found: list[StoredEntry] = []
        for at in range(0, len(entries), _BREATH):
            found += self.stored(entries[at : at + _BREATH])
            await asyncio.sleep(0)
        return found

    async def _entry(self, message: Message, data: bytes) -> Entry:
        """The entry of a checked message and its bytes; a long one is read and counted off the event loop."""
        if len(data) > LONG_TEXT:
            return await self._in_thread(lambda: self._made(message, data))
        return self._made(message, data)

    def _made(self, message: Message, data: bytes) -> Entry:
        entry = make_entry(message, self._counter.count, self._counter.name, data)
        if entry.facts.human:
            self._reader.of(entry)  # here, for a long message is read in a thread
        return entry
