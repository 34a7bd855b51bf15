"""Search by words in SQLite: which rows of the index match a query. The index is written with the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from summarizing_context.messages.search_terms import indexed_words, searchable
from summarizing_context.stores.relational.log import readable
from summarizing_context.stores.sqlite.schema import Database


class Fts5:
    """The `Words` of a file."""

    def __init__(self, connection: Database) -> None:
        self._connection = connection

    def count(self, term: str, most: int) -> int:
        values = {"match": _any([term]), "most": most}
        return int(self._connection.run("count_matches", values).fetchone()[0])

    def best(self, terms: Sequence[str]) -> Iterable[tuple[int, float]]:
        return self._connection.run("best_matches", {"match": _any(terms)})

    def best_within(self, terms: Sequence[str], first: int, last: int) -> Iterable[tuple[int, float]]:
        return self._connection.run("best_matches_within", {"match": _any(terms), "first": first, "last": last})

    def newest(self, terms: Sequence[str], first: int, last: int, *, all_of_them: bool) -> Iterator[int]:
        match = " AND ".join(map(_phrase, terms)) if all_of_them else _any(terms)
        found = self._connection.run("newest_matches", {"match": match, "first": first, "last": last})
        return (row for (row,) in found)


def _any(terms: Sequence[str]) -> str:
    return " OR ".join(map(_phrase, terms))


def _phrase(term: str) -> str:
    return f'"{term}"'  # letters, digits and spaces: see `query_terms`


def add_functions(connection: Database) -> None:
    """What the queries call; on every connection that forgets what is indexed."""
    connection.create_function("indexed", 1, lambda message: indexed_words(searchable(message)), deterministic=True)
    connection.create_function("spaced", 1, lambda text: indexed_words(_text(text)), deterministic=True)


def _text(text: str | bytes) -> str:
    return text if isinstance(text, str) else readable(text)


def forget_entries(connection: Database, branch: int, stop: int) -> None:
    """A branch is about to lose its entries from `stop` on."""
    values = {"branch": branch, "stop": stop}
    connection.run("unindex_entries", values)
    connection.run("remove_row_vectors", values)
