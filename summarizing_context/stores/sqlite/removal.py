"""Remove what nobody needs, and its bytes with it.

Each function runs its own transaction: the space can be given back only outside of one.
"""

from __future__ import annotations

import sqlite3

from summarizing_context.errors import StoreLockedError
from summarizing_context.stores.relational.activations import forget_history, forget_replaced_states
from summarizing_context.stores.relational.checkpoints import forget_unused_states
from summarizing_context.stores.relational.memories import remove_of_session
from summarizing_context.stores.relational.rules import forget_rules
from summarizing_context.stores.sqlite.faults import translate
from summarizing_context.stores.sqlite.schema import Database, transaction
from summarizing_context.stores.sqlite.search import forget_entries


def remove_session(connection: Database, session_id: str, path: str) -> None:
    """Remove a session with the entries and summaries that only it needs."""
    known = {"session_id": session_id}
    with transaction(connection):
        connection.run("disown_branches", known)
        connection.run("remove_session", known)
        connection.run("remove_checkpoints", known)
        remove_of_session(connection, session_id)
        forget_rules(connection, session_id)
        forget_history(connection, session_id)
        forget_unused_states(connection)
        _trim(connection, connection.run("needed", {"everything": False}).fetchall())
        connection.run("forget_activations", {**known, "keep": 0})
        connection.run("unindex_own_summaries", known)
        connection.run("remove_own_summaries", known)
        connection.run("remove_uses", known)
        connection.run("tidy_index")
        connection.run("tidy_memories")
    _give_back_space(connection, path)


def remove_unneeded(connection: Database, path: str) -> int:
    """Remove everything that no session's log reaches and no session uses; bytes freed."""
    before = _size(connection)
    with transaction(connection):
        _trim(connection, connection.run("needed", {"everything": True}).fetchall())
        forget_replaced_states(connection)
        connection.run("remove_stale_uses")
        connection.run("unindex_unused_summaries")
        connection.run("remove_unused_summaries")
        connection.run("remove_unnamed_vectors")
        connection.run("tidy_index")
        connection.run("tidy_memories")
    _give_back_space(connection, path)
    return max(0, before - _size(connection))


def _trim(connection: Database, needs: list[tuple[int, int | None]]) -> None:
    for branch, stop in needs:
        forget_entries(connection, branch, stop or 0)
        connection.run("remove_entries", {"branch": branch, "stop": stop or 0})
        if stop is None:
            connection.run("remove_branch", {"branch": branch})


def _give_back_space(connection: Database, path: str) -> None:
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


def _size(connection: Database) -> int:
    pages, page_size = (connection.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * page_size)
