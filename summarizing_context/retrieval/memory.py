"""Memory across sessions: what is kept of them, found again by likeness, and brought into the view.

Memories belong to the project, or to the session where it has none. Which of them enter a view is settled before an
activation, from the newest human message; how they stand there is in `views.sections`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from summarizing_context.errors import MessageError, SettingsError, StoreError, briefly
from summarizing_context.messages.search_terms import distinctive_words, query_terms, stems
from summarizing_context.messages.shapes import check_message
from summarizing_context.retrieval.definitions import normal_subject
from summarizing_context.retrieval.embeddings import NEAR, EmbeddingSearch
from summarizing_context.retrieval.memory_extraction import notify_of_memory
from summarizing_context.sessions.session import Session
from summarizing_context.stores.base import KeptMemory, Match, MemoryScope, MemoryStore, NewMemory, StoredMemory
from summarizing_context.views.sections import memory_text

_MOST = 1_000  # memories, or hits, that one call returns
_OFFERED = 20  # memories offered to a view, at most
_LONGEST = 20_000  # characters
_READ = 8_000  # characters of each end of a message, or of a query, that are looked at
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """A memory that was found."""

    id: str
    content: str
    metadata: Mapping[str, Any]
    score: float  # how near it is to the query, from 0 to 1
    created_at: str  # ISO 8601, UTC
    updated_at: str


class Memory:
    """The memories of a session's project. All methods belong to the session's event loop."""

    def __init__(self, session: Session, memory_store: MemoryStore, embedding_search: EmbeddingSearch | None) -> None:
        self._session, self._memory_store, self._embedding_search = session, memory_store, embedding_search
        self._scope = MemoryScope(session.settings.project, session.settings.session_id)
        self._answered: int | None = None  # human message that the present choice was made for
        self._looking: asyncio.Task[None] | None = None
        self._store_error: str | None = None
        self.chosen: Sequence[str] = ()  # for the next activation, the most relevant first

    @property
    def last_error(self) -> str | None:
        """Why memories, or what is near in meaning, could not be found of late."""
        return (None if self._embedding_search is None else self._embedding_search.last_error) or self._store_error

    async def store(self, content: str, metadata: Mapping[str, Any] = NOTHING) -> str:
        """Keep a memory and return its id. What is there word for word keeps its id, and gets the metadata if given.

        Metadata may say in `about` what it is about: it then takes the place, and the id, of an older memory about the
        same, whose text is kept in the metadata as `replaces`."""
        return (await self.keep(content, metadata, renew=True)).id

    async def keep(self, content: str, metadata: Mapping[str, Any], *, renew: bool = False) -> KeptMemory:
        """Keep a memory and return what became of it; metadata of what is there stay, unless they are renewed."""
        self._session.check(writes=True)
        given = _checked_metadata(metadata)
        if isinstance(about := given.get("about"), str) and (subject := normal_subject(about)):
            given["subject"] = subject
        memory = NewMemory(_checked(content), given)
        kept = await self._memory_store.add(self._scope, memory, renew=renew and bool(given))
        notify_of_memory(self._session.notify, kept, given)
        return kept

    async def retrieve(self, query: str, limit: int = 5) -> list[MemoryEntry]:
        """Return the memories nearest to a query in plain words, the nearest first; none whose score is below
        `similarity_threshold`, where that is set."""
        self._session.check()
        check_query(query, limit, "memories")
        least = self._session.settings.similarity_threshold or 0.0
        found, _ = await self._found(query, limit)
        return [memory for memory in found if memory.score >= least][:limit]

    async def matches(self, query: str, limit: int, *, everywhere: bool = False) -> list[Match]:
        """Return memories that hold a word of the query, or come near to its meaning; with `everywhere` of the whole
        store."""
        least = self._session.settings.similarity_threshold
        found, by_meaning = await self._found(query, limit, everywhere=everywhere)
        near = [one for one in found if one.score >= (NEAR if least is None and one.id in by_meaning else least or 0.0)]
        return [_match(one, self._session.id) for one in near[:limit]]

    async def update(self, id: str, content: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Replace what a memory says, and its metadata if given. Raises `MemoryNotFoundError`."""
        self._session.check(writes=True)
        given = None if metadata is None else _checked_metadata(metadata)
        await self._memory_store.update(self._scope, _checked_id(id), _checked(content), given)

    async def forget(self, id: str) -> None:
        """Remove a memory; its bytes leave the file with the store's next `purge`. Raises `MemoryNotFoundError`."""
        self._session.check(writes=True)
        await self._memory_store.forget(self._scope, _checked_id(id))

    async def close(self) -> None:
        """End what is looked for in the background."""
        if self._looking is not None:
            self._looking.cancel()
        if self._embedding_search is not None:
            await self._embedding_search.close()

    async def _found(
        self, query: str, limit: int, *, everywhere: bool = False, message: bytes | None = None
    ) -> tuple[list[MemoryEntry], set[str]]:
        """Return the nearest memories, and which of them were found by meaning: all but those of which the embedding
        makes no vector. Where a message asks, its meaning is that of the whole message."""
        scope = None if everywhere else self._scope
        if self._embedding_search is None:
            return await _found_by_words(self._memory_store, query, limit, scope), set()
        kept = {int(one.id[1:]): one for one in await self._memory_store.all(scope)}
        texts = {number: one.content for number, one in kept.items()}
        near = await self._embedding_search.near(query if message is None else message, "memory", texts)
        found = [_entry(one, near[number]) for number, one in kept.items() if number in near]
        by_meaning = {one.id for one in found}
        if len(found) < len(kept):
            by_words = await _found_by_words(self._memory_store, query, limit, scope)
            found += [one for one in by_words if one.id not in by_meaning]
        return sorted(found, key=lambda one: -one.score), by_meaning

    async def choose(self, *, for_now: bool = False) -> Sequence[str]:
        """Settle which memories the next activation shows: those near to the newest human message. By words at once; a
        model that embeds is asked meanwhile, and what it finds is shown by an activation after that. `for_now` asks no
        model, and the next view chooses again."""
        newest = self._session.log.newest_human
        if self._session.settings.memory_include != "auto" or newest is None or newest == self._answered:
            return self.chosen
        entry = self._session.log.entries[newest]
        parts = entry.read(newest).reading.parts
        said = "\n".join(text for part in parts if part.kind == "text" for text in part.texts)
        try:
            self._offer(await _found_by_words(self._memory_store, said, _OFFERED, self._scope))
        except StoreError as error:  # a view is due in any case
            self._store_error = str(error)
        if not for_now:
            self._answered = newest
            if self._embedding_search is not None:
                if self._looking is not None:
                    self._looking.cancel()
                self._looking = asyncio.create_task(self._look(said, entry.data), name="looking for memories")
        return self.chosen

    async def _look(self, said: str, message: bytes) -> None:
        try:
            self._offer((await self._found(said, _OFFERED, message=message))[0])
        except StoreError as error:
            self._store_error = str(error)

    def _offer(self, found: Sequence[MemoryEntry]) -> None:
        threshold = self._session.settings.similarity_threshold
        near = [one for one in found if one.score >= (NEAR if threshold is None else threshold)]
        self.chosen = [memory_text(one.content, one.metadata) for one in near[:_OFFERED]]


def check_query(query: object, limit: object = 1, things: str = "", most: int = _MOST) -> None:
    """Raise `SettingsError` unless the query is a text, and the limit a number of things up to the most."""
    if not isinstance(query, str):
        raise SettingsError(f"a query is a text, not {type(query).__name__}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= most:
        raise SettingsError(f"limit is {briefly(limit)}; it is a number of {things} from 1 to {most}")


async def matches_by_words(memory_store: MemoryStore, scope: MemoryScope | None, query: str, limit: int) -> list[Match]:
    """Return memories in scope, or of the whole store, that hold a word of the query, the nearest first."""
    found = await _found_by_words(memory_store, query, limit, scope)
    return [_match(one, "" if scope is None else scope.session_id) for one in found[:limit]]


async def _found_by_words(
    memory_store: MemoryStore, query: str, limit: int, scope: MemoryScope | None
) -> list[MemoryEntry]:
    read = query if len(query) <= 2 * _READ else f"{query[:_READ]} {query[-_READ:]}"
    terms = distinctive_words(read, 200) or query_terms(read)
    found = await memory_store.find(scope, terms, max(limit, 50))
    query_stems = stems(read)
    scored = []
    for one in found:
        # the share of the shorter one's words that both have, by their stems, on the scale of cosines between
        # embeddings: one word of four is 0.71, two are 0.84; of two words, one alike says little
        held = stems(one.content)
        fewest = min(len(query_stems), len(held))
        scored.append(_entry(one, (len(query_stems & held) / max(fewest, 4)) ** 0.25))
    return sorted(scored, key=lambda one: -one.score)


def _match(memory: MemoryEntry, session_id: str) -> Match:
    """Return a memory as search finds it: at the message that taught it, else in the session named."""
    said_in, message = memory.metadata.get("session_id"), memory.metadata.get("message")
    place = (message, message + 1) if isinstance(message, int) and not isinstance(message, bool) else (0, 0)
    whose = said_in if isinstance(said_in, str) else session_id
    return Match("memory", whose, *place, memory.score, memory.content, int(memory.id[1:]))


def _entry(stored: StoredMemory, score: float) -> MemoryEntry:
    return MemoryEntry(stored.id, stored.content, stored.metadata, score, stored.created_at, stored.updated_at)


def _checked(content: object) -> str:
    if not isinstance(content, str) or not content.strip() or len(content) > _LONGEST:
        raise SettingsError(f"a memory is a text of 1-{_LONGEST:,} characters, not {type(content).__name__}")
    try:
        content.encode()
    except UnicodeEncodeError:
        raise SettingsError("a memory holds half a character (a lone surrogate); leave it out") from None
    return content


def _checked_id(id: object) -> str:
    if not isinstance(id, str):
        raise SettingsError(f"a memory's id is a string, as store() and retrieve() tell it; not {type(id).__name__}")
    return id


def _checked_metadata(metadata: object) -> dict[str, Any]:
    """Return a copy, made of JSON values."""
    if not isinstance(metadata, Mapping):
        raise SettingsError(f"a memory's metadata is a mapping of JSON values, not {type(metadata).__name__}")
    try:
        copied: dict[str, Any] = check_message({"role": "user", "content": "", "metadata": dict(metadata)})["metadata"]
    except MessageError as error:
        raise SettingsError(f"a memory's metadata is a mapping of JSON values; {error}") from error
    return copied
