"""Remove what nobody needs. Those on a connection run their own transaction.

A row is gone for every reader with the commit. Its bytes stay in the table's file until a VACUUM has made the space
free and the server has used it again; what it wrote ahead, and its backups, are the operator's matter.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import psycopg

from summarizing_context.stores.postgres.address import Address
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.postgres.driver import refuse_if_held
from summarizing_context.stores.relational.activations import forget_history, forget_replaced_states
from summarizing_context.stores.relational.checkpoints import forget_unused_states
from summarizing_context.stores.relational.memories import remove_of_session
from summarizing_context.stores.relational.rules import forget_rules

logger = logging.getLogger(__name__)

_TABLES = (
    "entries",
    "words",
    "summaries",
    "summary_uses",
    "activations",
    "activation_history",
    "checkpoints",
    "checkpoint_states",
    "rules",
    "memories",
    "vectors",
    "requests",
)


def remove_session(connection: PostgresConnection, session_id: str, *, is_ours: bool) -> bool:
    """Remove a session with the entries and summaries that only it needs; False if there is none."""
    known = {"session_id": session_id}
    connection.begin_work()
    connection.run("guard_removal")
    row = connection.run("lock_session", known).fetchone()
    if row is None:
        connection.commit_work()
        return False
    if not is_ours:
        refuse_if_held(connection, session_id, row)
    connection.run("disown_branches", known)
    connection.run("remove_session", known)
    connection.run("remove_checkpoints", known)
    connection.run("forget_migrated", known)
    remove_of_session(connection, session_id)
    forget_rules(connection, session_id)
    forget_unused_states(connection)
    _trim(connection, connection.run("needed_of_disowned").fetchall())
    connection.run("forget_activations", {**known, "keep": 0})
    forget_history(connection, session_id)
    connection.run("leave_requests", known)
    connection.run("remove_requests", known)
    connection.run("remove_own_summaries", known)
    connection.run("remove_uses", known)
    connection.commit_work()
    connection.fences.pop(session_id, None)
    connection.forget_head(session_id)
    return True


def remove_unneeded(connection: PostgresConnection) -> int:
    """Remove everything that no session's log reaches and no session uses; the bytes of their texts."""
    connection.begin_work()
    connection.run("guard_removal")
    freed = _trim(connection, connection.run("needed_by_heads").fetchall())
    connection.run("remove_failed_requests")
    connection.run("remove_stale_uses")
    row = connection.run("remove_unused_summaries").fetchone()
    freed += int(row[0]) if row else 0
    connection.run("remove_unnamed_vectors")
    forget_replaced_states(connection)
    connection.commit_work()
    return freed


def _trim(connection: PostgresConnection, needs: Sequence[tuple[int, int | None]]) -> int:
    freed = 0
    for branch, stop in needs:
        values = {"branch": branch, "stop": stop or 0}
        row = connection.run("remove_entries", values).fetchone()
        freed += int(row[0]) if row else 0
        for name in ("remove_entry_words", "note_unindexed", "remove_row_vectors"):
            connection.run(name, values)
        if stop is None:
            connection.run("remove_branch", {"branch": branch})
    return freed


async def make_free(address: Address) -> None:
    """Make the space of removed rows free, on a connection of its own. A table that is locked is left to autovacuum."""
    tables = ", ".join(f"{address.schema}.{table}" for table in _TABLES)
    try:
        async with await psycopg.AsyncConnection.connect(
            address.url, autocommit=True, connect_timeout=5, application_name="summarizing-context"
        ) as connection:
            await connection.execute(f"vacuum (skip_locked) {tables}".encode())
    except psycopg.Error as error:
        logger.warning("the space of removed rows was not made free", extra={"cause": type(error).__name__})
