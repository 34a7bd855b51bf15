"""Searching a session, its project or a whole store in plain words.

The index is the store's; what it lacks of the scope is caught up with before a search, in slices between which
others may write. With an embedding (see `embeddings`), what is near in meaning is found too. Memories are found beside
messages and summaries: those that the session shares, or, with the scope `all`, those of the whole store.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice

from summarizing_context.errors import SettingsError, briefly
from summarizing_context.messages.search_terms import UNSPACED, query_terms, stem
from summarizing_context.retrieval.embeddings import NEAR, EmbeddingSearch
from summarizing_context.retrieval.memory import Memory, check_query
from summarizing_context.settings.values import Settings
from summarizing_context.stores.base import Match, Scope, SearchHit, SearchIndex

_SCOPES = ("session", "project", "all")
_SNIPPET = 200  # characters of a hit
_SPARE = 3  # times as many matches are looked at as hits are asked for


class Search:
    """Searches for one session."""

    def __init__(
        self, settings: Settings, index: SearchIndex, embedding_search: EmbeddingSearch | None, memory: Memory
    ) -> None:
        self._settings, self._index, self._embedding_search, self._memory = settings, index, embedding_search, memory
        self.own = scope_of("session", settings.session_id, None)  # the session's messages

    async def find(self, query: str, scope: str, limit: int) -> list[SearchHit]:
        """Return the best hits, the best first."""
        check_query(query, limit, "hits")
        where = scope_of(scope, self._settings.session_id, self._settings.project)
        terms = query_terms(query)
        found = await self.matches(query, terms, where, _SPARE * limit, by_terms=True)
        memories = await self._memory.matches(query, limit, everywhere=scope == "all")
        return best_hits(terms, fused(found, memories) if memories else found, limit)

    async def matches(
        self, query: str, terms: Sequence[str], where: Scope, limit: int, *, by_terms: bool = False
    ) -> list[Match]:
        """Return what holds any of the terms, and what is near in meaning where there is an embedding, as one ranking.
        `by_terms`: what holds more of the terms first."""
        by_words = await self._index.find(terms, where, limit)
        by_words = best_matches(terms, by_words) if by_terms else by_words
        if self._embedding_search is None or not query.strip():
            return by_words
        threshold = self._settings.similarity_threshold
        near = await self._embedding_search.matches(query, where, NEAR if threshold is None else threshold, limit)
        return fused(by_words, near)


def scope_of(scope: str, session_id: str, project: str | None) -> Scope:
    """Return where to search. Raise `SettingsError` for anything but `session`, `project` and `all`."""
    if scope not in _SCOPES:
        raise SettingsError(f"scope is {briefly(scope)}; it is one of {', '.join(_SCOPES)}")
    if scope == "project" and project is None:
        raise SettingsError("scope is 'project' but the session has none; set project, or search 'session' or 'all'")
    return Scope(session_id, session_id if scope == "session" else None, project if scope == "project" else None)


def best_matches(terms: Sequence[str], matches: Sequence[Match]) -> list[Match]:
    """Return matches by words, those that hold more of the terms first."""
    scored = []
    for match in matches:
        lowered = match.text.lower()
        coverage = sum(_stands_in(lowered, term) for term in terms) / max(1, len(terms))
        scored.append(match._replace(score=match.score * (0.5 + coverage)))
    return sorted(scored, key=lambda match: -match.score)


def fused(*rankings: Sequence[Match]) -> list[Match]:
    """Return several rankings as one, by reciprocal rank: what stands high in any of them, or in all, comes first."""
    scores: dict[tuple[bool, int], float] = {}
    matches: dict[tuple[bool, int], Match] = {}
    for ranking in rankings:
        for rank, match in enumerate(ranking, 1):
            known = match.kind == "memory", match.row
            scores[known] = scores.get(known, 0.0) + 1 / (60 + rank)
            matches.setdefault(known, match)
    best = sorted(matches, key=lambda known: -scores[known])
    return [matches[known]._replace(score=scores[known]) for known in best]


def best_hits(terms: Sequence[str], matches: Sequence[Match], limit: int) -> list[SearchHit]:
    """Return hits, in the order of the matches; what several sessions hold is a hit in each of them.

    A summary is told only where nothing in it is.
    """
    hits: list[SearchHit] = []
    for match in matches:
        words, id = _snippet(terms, match.text), f"m{match.row}" if match.kind == "memory" else None
        found = (SearchHit(*place, match.score, words, match.kind, id) for place in match.places)
        for hit in found:
            within = (
                known.session_id == hit.session_id and hit.start <= known.start and known.stop <= hit.stop
                for known in hits
                if known.kind != "memory"
            )
            if hit.kind != "summary" or not any(within):
                hits.append(hit)
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
        found = sorted(place for term in terms for place in _places(term, lowered))
        within = {at: bisect_left(found, at + _SNIPPET * 3 // 4) - bisect_left(found, at) for at in found}
        best = max(found, key=within.__getitem__, default=0)  # the first of several
        start = max(0, best - _SNIPPET // 4)
        start = max(start, text.find(" ", start, best) + 1) if start else 0  # at the beginning of a word
    flat = " ".join(text[start : start + widest].split())
    has_more = len(flat) > _SNIPPET or start + widest < len(text)
    return ("…" if start else "") + flat[:_SNIPPET].strip() + ("…" if has_more else "")


def _stands_in(lowered: str, term: str) -> bool:
    """Return whether a text holds a term: its words one after another, with anything but words between them, or nothing
    between unspaced letters."""
    *words, last = term.split(" ")
    if not words:
        return stem(last) in lowered
    gaps = [r"[\W_]*" if UNSPACED.match(word) else r"[\W_]+" for word in words]
    phrase = "".join(re.escape(word) + gap for word, gap in zip(words, gaps, strict=True)) + re.escape(stem(last))
    return re.search(phrase, lowered) is not None


def _places(term: str, lowered: str) -> list[int]:
    """Return where words begin as the term does, or its first word; the first places."""
    if UNSPACED.match(term):
        begins = re.escape(term.replace(" ", ""))
    else:
        begins = r"(?<![^\W_])" + re.escape(stem(term.split(" ", 1)[0]))
    return [found.start() for found in islice(re.finditer(begins, lowered), 50)]
