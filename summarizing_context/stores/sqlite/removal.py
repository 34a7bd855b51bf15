"""Remove what nobody needs, and its bytes with it.

Each function runs its own transaction: the space can be given back only outside of one.
"""

from __future__ import annotations

import sqlite3

from summarizing_context.errors import StoreLockedError
from summarizing_context.stores.sqlite.checkpoints import forget_unused_states
from summarizing_context.stores.sqlite.faults import translate
from summarizing_context.stores.sqlite.memories import remove_of_session
from summarizing_context.stores.sqlite.rules import forget_rules
from summarizing_context.stores.sqlite.schema import SQL, transaction
from summarizing_context.stores.sqlite.search import forget_entries


def remove_session(connection: sqlite3.Connection, session_id: str, path: str) -> None:
    """Remove a session with the entries and summaries that only it needs."""
    known = {"session_id": session_id}
    with transaction(connection):
        connection.execute(SQL["disown_branches"], known)
        connection.execute(SQL["remove_session"], known)
        connection.execute(SQL["remove_checkpoints"], known)
        remove_of_session(connection, session_id)
        forget_rules(connection, session_id)
        forget_unused_states(connection)
        _trim(connection, connection.execute(SQL["needed_of_disowned"]).fetchall())
        connection.execute(SQL["forget_activations"], {**known, "keep": 0})
        connection.execute(SQL["unindex_own_summaries"], known)
        connection.execute(SQL["remove_own_summaries"], known)
        connection.execute(SQL["remove_uses"], known)
        connection.execute(SQL["tidy_index"])
        connection.execute(SQL["tidy_memories"])
    _give_back_space(connection, path)


def remove_unneeded(connection: sqlite3.Connection, path: str) -> int:
    """Remove everything that no session's log reaches and no session uses; bytes freed."""
    before = _size(connection)
    with transaction(connection):
        _trim(connection, connection.execute(SQL["needed_by_heads"]).fetchall())
        connection.execute(SQL["remove_stale_uses"])
        connection.execute(SQL["unindex_unused_summaries"])
        connection.execute(SQL["remove_unused_summaries"])
        connection.execute(SQL["remove_unnamed_vectors"])
        connection.execute(SQL["tidy_index"])
        connection.execute(SQL["tidy_memories"])
    _give_back_space(connection, path)
    return max(0, before - _size(connection))


def _trim(connection: sqlite3.Connection, needs: list[tuple[int, int | None]]) -> None:
    for branch, stop in needs:
        forget_entries(connection, branch, stop or 0)
        connection.execute(SQL["remove_entries"], {"branch": branch, "stop": stop or 0})
        if stop is None:
            connection.execute(SQL["remove_branch"], {"branch": branch})


def _give_back_space(connection: sqlite3.Connection, path: str) -> None:
    """Write the file anew and empty the log beside it, so that no byte of what was removed is left."""
    try:
        connection.execute("vacuum")
        is_busy, *_ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        if is_busy:
            raise StoreLockedError(f"{path}: another process is reading the file")
    except (sqlite3.Error, StoreLockedError) as error:
        fault = translate(error, path)
        raise type(fault)(
            f"{fault}. What was removed is no longer to be found by the store, but its bytes may still be in the "
            "file: call purge when the cause is gone"
        ) from error


def _size(connection: sqlite3.Connection) -> int:
    pages, page_size = (connection.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * page_size)
