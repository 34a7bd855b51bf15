"""Searching a session, its project or a whole store in plain words.

The index is the store's; what is missing in it is caught up with before a search, in slices between which others
may write. With an embedding (see `vectors`), what is near in meaning is found too.
"""

from __future__ import annotations

from collections.abc import Sequence

from summarizing_context.core.searching import coverage, query_terms, snippet
from summarizing_context.errors import SettingsError
from summarizing_context.session import Session
from summarizing_context.shelves import Indexer, Match, Scope, SearchHit

_SCOPES = ("session", "project", "all")
_MOST = 1_000  # hits
_SPARE = 3  # times as many matches are looked at as hits are asked for


class Search:
    """Searches for one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._index: Indexer = session.parts.store.index

    async def find(self, query: str, scope: str, limit: int) -> list[SearchHit]:
        """The best hits, the best first."""
        if not isinstance(query, str):
            raise SettingsError(f"a query is a text, not {type(query).__name__}")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
            raise SettingsError(f"limit is {limit!r:.40}; it is a number of hits from 1 to {_MOST}")
        settings = self._session.parts.settings
        where = scope_of(scope, settings.session_id, settings.project)
        terms = query_terms(query)
        while await self._index.catch_up():
            pass
        return best_hits(terms, await self._index.find(terms, where, _SPARE * limit), limit)


def scope_of(scope: str, session_id: str, project: str | None) -> Scope:
    """Where to search. Raises `SettingsError` for anything but `session`, `project` and `all`."""
    if scope not in _SCOPES:
        raise SettingsError(f"scope is {scope!r:.40}; it is one of {', '.join(_SCOPES)}")
    if scope == "project" and project is None:
        raise SettingsError("scope is 'project' but the session has none; set project, or search 'session' or 'all'")
    return Scope(session_id, session_id if scope == "session" else None, project if scope == "project" else None)


def best_hits(terms: Sequence[str], matches: Sequence[Match], limit: int) -> list[SearchHit]:
    """Hits, those that hold more of the terms first; a summary is told only where nothing in it is."""
    scored = [(match.score * (0.5 + coverage(terms, match.text)), match) for match in matches]
    scored.sort(key=lambda one: -one[0])
    hits: list[SearchHit] = []
    for score, match in scored:
        if len(hits) == limit:
            break
        if match.kind == "message" or not any(_holds(match, hit) for hit in hits):
            words = snippet(terms, match.text)
            hits.append(SearchHit(match.session_id, match.start, match.stop, score, words, match.kind))
    return hits


def _holds(match: Match, hit: SearchHit) -> bool:
    return match.session_id == hit.session_id and match.start <= hit.start and hit.stop <= match.stop
