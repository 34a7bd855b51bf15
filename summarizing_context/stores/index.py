"""Searching by words in SQLite: an index of messages and summaries that is filled behind the log.

Appending does not touch it; the writer's thread catches up in slices when nothing else is to do. What words a query
asks for is `core.searching`'s matter, what holds them `matching`'s.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Sequence
from functools import partial
from math import inf

from summarizing_context.core.searching import indexed_words, searchable
from summarizing_context.errors import StoreFullError, StoreLockedError
from summarizing_context.shelves import Match, Scope
from summarizing_context.stores.access import Access
from summarizing_context.stores.matching import behind, find, find_unindexed_too, readable
from summarizing_context.stores.queries import SQL, transaction

logger = logging.getLogger(__name__)

_SLICE = 128  # messages or summaries indexed in one transaction
_SLICE_BYTES = 250_000  # of messages; after that many the slice ends
_LEAVING = 0.25  # seconds that closing may spend on the index
_LARGEST_LEAVING = 2_000_000  # bytes of a message that is indexed then


class SearchShelf:
    """The index of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._is_kept_up = not access.read_only

    async def backlog(self) -> int:
        """Messages and summaries that are not indexed yet."""
        return await self._access.read(lambda connection: int(connection.execute(SQL["backlog"]).fetchone()[0]))

    async def catch_up(self) -> int:
        """Index a slice of what is missing; how many rows, 0 when all is indexed."""
        if self._access.read_only:
            return 0
        return await self._access.writer.submit(catch_up)

    async def complete(self, scope: Scope) -> None:
        """Index what a scope holds by now; what is appended meanwhile is left for later. Where the file takes no more,
        what is missing is indexed in memory by each search."""
        if self._access.read_only:
            return
        try:
            await self._catch_up_with(scope)
            self._is_kept_up = True
        except (StoreFullError, StoreLockedError) as error:
            self._is_kept_up = False
            logger.warning("the index could not be kept up", extra={"cause": type(error).__name__})

    async def _catch_up_with(self, scope: Scope) -> None:
        goals = await self._access.read(lambda connection: behind(connection, scope))
        for branch, stop in goals.branches:
            while await self._access.writer.submit_spare(partial(_index_branch_to, branch=branch, stop=stop)):
                pass
        while goals.last_summary and await self._access.writer.submit_spare(
            partial(_index_summaries_to, last=goals.last_summary)
        ):
            pass

    async def find(self, terms: Sequence[str], scope: Scope, limit: int) -> list[Match]:
        """What holds any of the terms, the most relevant first."""
        look = find if self._is_kept_up else find_unindexed_too
        return await self._access.read(lambda connection: look(connection, terms, scope, limit))


def add_functions(connection: sqlite3.Connection) -> None:
    """What the queries call; on every connection that indexes, or forgets what is indexed."""
    connection.create_function("indexed", 1, lambda message: indexed_words(searchable(message)), deterministic=True)
    connection.create_function("spaced", 1, lambda text: indexed_words(readable(text)), deterministic=True)


def index_in_spare_time(connection: sqlite3.Connection) -> bool:
    """Index a slice in a transaction of its own; whether there is more."""
    with transaction(connection):
        return catch_up(connection) > 0


def index_before_leaving(connection: sqlite3.Connection) -> None:
    """Index what came last, so that readers find it; of a long backlog only a part."""
    until = time.monotonic() + _LEAVING
    has_more = True
    while has_more and time.monotonic() < until:
        with transaction(connection):
            has_more = catch_up(connection, largest=_LARGEST_LEAVING) > 0


def catch_up(connection: sqlite3.Connection, *, largest: float = inf) -> int:
    """Index a slice of what is missing; how many rows, 0 when all is indexed, or up to a message of more bytes."""
    row = connection.execute(SQL["branch_behind"]).fetchone()
    if row is None:
        return _index_summaries(connection)
    branch, start = row
    return _index_branch(connection, branch, start, largest)


def forget_entries(connection: sqlite3.Connection, branch: int, stop: int) -> None:
    """A branch is about to lose its entries from `stop` on."""
    values = {"branch": branch, "stop": stop}
    connection.execute(SQL["unindex_entries"], values)
    connection.execute(SQL["note_unindexed"], values)
    connection.execute(SQL["remove_row_vectors"], values)


def _index_branch(connection: sqlite3.Connection, branch: int, start: int, largest: float = inf) -> int:
    stop, size = start, 0
    for position, length in connection.execute(SQL["next_entries"], (branch, start, _SLICE)):
        if length > largest:
            break
        stop, size = position + 1, size + length
        if size >= _SLICE_BYTES:
            break
    values = {"branch": branch, "start": start, "stop": stop}
    connection.execute(SQL["index_entries"], values)
    connection.execute(SQL["note_indexed"], values)
    return stop - start


def _index_branch_to(connection: sqlite3.Connection, branch: int, stop: int) -> bool:
    """Index a slice of a branch, unless it is indexed up to `stop`; whether to go on."""
    row = connection.execute(SQL["indexed_of"], {"branch": branch}).fetchone()
    return row is not None and row[0] < stop and _index_branch(connection, branch, row[0]) > 0


def _index_summaries_to(connection: sqlite3.Connection, last: int) -> bool:
    """Index some summaries, unless all up to `last` are; whether to go on."""
    (indexed,) = connection.execute(SQL["indexed_summaries"]).fetchone()
    return indexed < last and _index_summaries(connection) > 0


def _index_summaries(connection: sqlite3.Connection) -> int:
    count, last = connection.execute(SQL["next_summaries"], {"count": _SLICE}).fetchone()
    if count:
        connection.execute(SQL["index_summaries"], {"stop": last})
        connection.execute(SQL["note_indexed_summaries"], {"stop": last})
    return int(count)
