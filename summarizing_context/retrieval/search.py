"""Search in plain words for messages, summaries and memories: of a session, its project or a whole store.

Memories are kept across sessions: they belong to the project, or to the session where it has none. With an embedding
(see `embeddings`), those that are near in meaning are found too. Which of them enter a view is settled before an
activation, from the newest human message; how they stand there is in `views.header`.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any

import anyio.to_thread

from summarizing_context.errors import MemoryNotFoundError, SettingsError, StoreError, briefly
from summarizing_context.log.entries import PlacedMessage
from summarizing_context.messages.reading import Reading, check_message, encodable
from summarizing_context.messages.text import UNSPACED, query_terms, search_words, stem, stems
from summarizing_context.retrieval.embeddings import NEAR, EmbeddingSearch
from summarizing_context.retrieval.memory_extraction import normal_subject, notify_of_memory
from summarizing_context.sessions.session import Session
from summarizing_context.stores import base
from summarizing_context.stores.base import Match, MemoryScope, SearchHit, keep_memories
from summarizing_context.views.header import memory_text

_SCOPES = ("session", "project", "all")
_SNIPPET = 200  # characters of a hit
_MOST = 1_000  # memories, or hits, that one call returns
_LONGEST = 20_000  # characters


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

    def __init__(self, session: Session, embedding_search: EmbeddingSearch | None) -> None:
        self._session, self._embedding_search = session, embedding_search
        self._scope = MemoryScope(session.settings.project, session.settings.session_id)
        self._answered: int | None = None  # human message that the present choice was made for
        self._looking: asyncio.Task[None] | None = None
        self._store_error: str | None = None
        self.chosen: Sequence[str] = ()  # for the next activation, the most relevant first

    @property
    def last_error(self) -> str | None:
        """Why memories could not be found, or not by meaning, of late."""
        return (None if self._embedding_search is None else self._embedding_search.last_error) or self._store_error

    async def store(self, content: str, metadata: Mapping[str, Any] = MappingProxyType({})) -> str:
        """Keep a memory and return its id. What is there word for word keeps its id, and gets the metadata if given.

        Metadata may say in `about` what it is about: it then takes the place, and the id, of an older memory about the
        same, whose text is kept in the metadata as `replaces`."""
        return (await self.keep(content, metadata, renew=True)).id

    async def keep(self, content: str, metadata: Mapping[str, Any], *, renew: bool = False) -> base.KeptMemory:
        """Keep a memory and return what became of it; metadata of what is there stay, unless they are renewed."""
        self._session.check(writes=True)
        given = _checked_metadata(metadata)
        if isinstance(about := given.get("about"), str) and (subject := normal_subject(about)):
            given["subject"] = subject
        memory = base.NewMemory(_checked(content), given)
        (kept,) = await keep_memories(self._session.store, self._scope, [memory], renew=renew and bool(given))
        notify_of_memory(self._session.notify, kept, given)
        return kept

    async def retrieve(self, query: str, limit: int = 5) -> list[MemoryEntry]:
        """Return the memories nearest to a query in plain words, the nearest first; none whose score is below
        `similarity_threshold`, where that is set."""
        self._session.check()
        check_query(query, limit, "memories")
        least = self._session.settings.similarity_threshold or 0.0
        found, _ = await self._found(query, self._scope)
        return [memory for memory in found if memory.score >= least][:limit]

    async def update(self, id: str, content: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Replace what a memory says, and its metadata if given. Raises `MemoryNotFoundError`."""
        await self._change(id, _checked(content), None if metadata is None else _checked_metadata(metadata))

    async def forget(self, id: str) -> None:
        """Remove a memory; its bytes leave the file with the store's next `purge`. Raises `MemoryNotFoundError`."""
        await self._change(id, None)

    async def _change(self, id: object, content: str | None, metadata: Mapping[str, Any] | None = None) -> None:
        self._session.check(writes=True)
        if not isinstance(id, str):
            kind = type(id).__name__
            raise SettingsError(f"a memory's id is a string, as store() and retrieve() return it; not {kind}")

        def decide(held: dict[str, base.StoredMemory], _: object) -> None:
            if (old := held.pop(id, None)) is None:
                raise MemoryNotFoundError("there is no memory of this id here; retrieve() and store() return the ids")
            if content is not None:
                held[id] = replace(old, content=content, metadata=old.metadata if metadata is None else metadata)

        await self._session.store.edit_memories(self._scope, decide)

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self._embedding_search is not None:
            await self._embedding_search.close()

    async def _found(
        self, query: str, scope: MemoryScope | None, *, by_meaning: bool = True
    ) -> tuple[list[MemoryEntry], Mapping[str, float]]:
        """Return the nearest memories, and those that were found by meaning: all but those of which the embedding makes
        no vector. Of the others those with words of the query are found; of equals, first those with more of its words
        whole.

        By words a score is the share of the shorter one's words that both have, by their stems, on the scale of cosines
        between embeddings: one word of four is 0.71, two are 0.84; of two words, one alike says little.
        """
        kept, near = await self._session.store.memories(scope), dict[str, float]()
        if by_meaning and self._embedding_search is not None:
            scores = await self._embedding_search.near(query, {int(one.id[1:]): one.content for one in kept})
            near = {f"m{number}": score for number, score in scores.items()}
        read = query if len(query) <= 16_000 else f"{query[:8_000]} {query[-8_000:]}"

        def ranked() -> list[MemoryEntry]:
            (asked, words), found = _families(read), []
            for one in kept:
                held, whole = _families(one.content)
                if (score := near.get(one.id)) is None:
                    score = (len(asked & held) / max(min(len(asked), len(held)), 4)) ** 0.25
                if score or one.id in near:
                    entry = MemoryEntry(one.id, one.content, one.metadata, score, one.created_at, one.updated_at)
                    found.append((-score, -len(words & whole), entry))
            return [entry for *_, entry in sorted(found, key=lambda one: one[:2])]

        return (await anyio.to_thread.run_sync(ranked) if kept else []), near

    async def choose(self, *, for_now: bool = False) -> Sequence[str]:
        """Settle which memories the next activation shows: those near to the newest human message, by words at once. A
        model that embeds is asked meanwhile, for later ones; `for_now` asks none, and the next view chooses again."""
        humans = self._session.log.humans
        newest = humans[-1] if humans else None
        if self._session.settings.memory_include != "auto" or newest is None or newest == self._answered:
            return self.chosen
        read = self._session.log.entries[newest].read(newest)
        await self._offer(_said(read.reading), by_meaning=False)
        if not for_now:
            self._answered = newest
            if self._embedding_search is not None:
                if self._looking is not None:
                    self._looking.cancel()
                self._looking = asyncio.create_task(self._look(self._embedding_search, read), name="memories")
        return self.chosen

    async def _look(self, embedding_search: EmbeddingSearch, read: PlacedMessage) -> None:
        """Choose by meaning. A secret may cross the texts of the message: joined, they would hide it from `redact`."""
        reading = await embedding_search.redacted(read.message, read.reading)
        if reading is not None:
            await self._offer(_said(reading), by_meaning=True)

    async def _offer(self, said: str, *, by_meaning: bool) -> None:
        try:
            found, _ = await self._found(said, self._scope, by_meaning=by_meaning)
        except StoreError as error:  # a view is due in any case
            self._store_error = str(error)
            return
        threshold = self._session.settings.similarity_threshold
        near = [one for one in found if one.score >= (NEAR if threshold is None else threshold)]
        self.chosen = [memory_text(one.content, one.metadata) for one in near[:20]]


def _said(reading: Reading) -> str:
    return "\n".join(text for part in reading.parts if part.kind == "text" for text in part.texts)


def check_query(query: object, limit: object = 1, things: str = "") -> None:
    """Raise `SettingsError` unless the query is a text, and the limit a number of things that is allowed."""
    if not isinstance(query, str):
        raise SettingsError(f"a query is a text, not {type(query).__name__}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise SettingsError(f"limit is {briefly(limit)}; it is a number of {things} from 1 to {_MOST}")


@lru_cache(10_000)  # memories are read again for each choice
def _families(text: str) -> tuple[frozenset[str], frozenset[str]]:
    return stems(text), frozenset(search_words(text))


def _checked(content: object) -> str:
    if not isinstance(content, str) or not content.strip() or len(content) > _LONGEST:
        raise SettingsError(f"a memory is a text of 1-{_LONGEST:,} characters, not {type(content).__name__}")
    if encodable(content) != content or "\0" in content:
        raise SettingsError("a memory holds a NUL or half a character (a lone surrogate); leave it out")
    return content


def _checked_metadata(metadata: Any) -> dict[str, Any]:
    """Return a copy, made of JSON values."""
    try:
        return dict(check_message({"role": "user", "content": "", "metadata": dict(metadata)})["metadata"])
    except (TypeError, ValueError) as error:
        raise SettingsError(f"a memory's metadata is a mapping of JSON values; {error}") from error


async def find_hits(session: Session, memory: Memory, query: str, scope: str, limit: int) -> list[SearchHit]:
    """Return the best hits in scope: `session`, `project` or `all`; the best first.

    They hold words of the query, or are memories found by it; what several sessions hold is a hit in each of them. A
    summary is a hit only where nothing in it is.
    """
    check_query(query, limit, "hits")
    if scope not in _SCOPES:
        raise SettingsError(f"scope is {briefly(scope)}; it is one of {', '.join(_SCOPES)}")
    project, least = session.settings.project, session.settings.similarity_threshold
    if scope == "project" and project is None:
        raise SettingsError("scope is 'project' but the session has none; set project, or search 'session' or 'all'")

    # memories that hold a word of the query or come near its meaning: at the message that taught them, else here
    memories = list[Match]()
    found, by_meaning = await memory._found(query, None if scope == "all" else memory._scope)
    for one in found:
        if one.score >= (NEAR if least is None and one.id in by_meaning else least or 0.0):
            said_in, message = one.metadata.get("session_id"), one.metadata.get("message")
            place = (message, message + 1) if type(message) is int else (0, 0)
            places = [(said_in if isinstance(said_in, str) else session.id, *place)]
            memories.append(Match("memory", places, one.score, one.content, one.id))

    # of matches by words those that hold more of the terms come first
    terms, scored = query_terms(query), list[Match]()
    only = (session.id if scope == "session" else None, project if scope == "project" else None)
    for match in await session.store.search(terms, base.Scope(session.id, *only), 3 * limit):
        lowered = match.text.lower()
        coverage = sum(re.search(_pattern(term), lowered) is not None for term in terms) / max(1, len(terms))
        scored.append(match._replace(score=match.score * (0.5 + coverage)))
    scored.sort(key=lambda match: -match.score)

    # both rankings as one, by reciprocal rank: what stands high in either comes first
    rankings = scored, memories[:limit]
    ranked = [(match, 1 / (60 + rank)) for ranking in rankings for rank, match in enumerate(ranking, 1)]
    hits: list[SearchHit] = []
    for match, score in sorted(ranked, key=lambda one: -one[1]):
        words = _snippet(terms, match.text)
        for session_id, start, stop in match.places:
            within = (
                known.session_id == session_id and start <= known.start and known.stop <= stop
                for known in hits
                if known.kind != "memory"
            )
            if match.kind != "summary" or not any(within):
                hits.append(SearchHit(session_id, start, stop, score, words, match.kind, match.id))
        if len(hits) >= limit:
            break
    return hits[:limit]


def _snippet(terms: Sequence[str], text: str) -> str:
    """Return where a text holds most of the terms, on one line."""
    widest = 4 * _SNIPPET  # of a text, what is shown of it without its spaces
    if len(text) <= widest and len(whole := " ".join(text.split())) <= _SNIPPET:
        return whole
    lowered = text.lower()
    start = 0
    if len(lowered) == len(text):  # else places in one are none in the other
        begins = (("" if UNSPACED.match(term) else r"(?<![^\W_])") + _pattern(term) for term in terms)
        found = sorted(place.start() for each in begins for place in islice(re.finditer(each, lowered), 50))
        within = {at: bisect_left(found, at + _SNIPPET * 3 // 4) - bisect_left(found, at) for at in found}
        best = max(found, key=within.__getitem__, default=0)  # the first of several
        start = max(0, best - _SNIPPET // 4)
        start = max(start, text.find(" ", start, best) + 1) if start else 0  # at the beginning of a word
    flat = " ".join(text[start : start + widest].split())
    has_more = len(flat) > _SNIPPET or start + widest < len(text)
    return ("…" if start else "") + flat[:_SNIPPET].strip() + ("…" if has_more else "")


def _pattern(term: str) -> str:
    """Return what finds a term in small letters: its words one after another, with anything but words between them, or
    nothing between unspaced letters; the last word may end otherwise."""
    *words, last = term.split(" ")
    gaps = (re.escape(word) + (r"[\W_]*" if UNSPACED.match(word) else r"[\W_]+") for word in words)
    return "".join(gaps) + re.escape(stem(last))
