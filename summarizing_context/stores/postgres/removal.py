"""Remove what nobody needs. Those on a connection run their own transactions.

None locks what other hosts write: appends, activations and forks of other sessions go on.

A row is gone for every reader with the commit. Its bytes stay in the table's file until a VACUUM has made the space
free and the server has used it again; what it wrote ahead, and its backups, are the operator's matter.
"""

from __future__ import annotations

import logging

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
    """Remove a session with the entries and summaries that only it needs; False if there is none.

    States of its checkpoints are left to `forget_states`.
    """
    known = {"session_id": session_id}
    connection.begin_work()
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
    _trim(connection, everything=False)
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
    freed = _trim(connection, everything=True)
    connection.commit_work()
    connection.begin_work()
    connection.run("remove_failed_requests")
    connection.run("remove_stale_uses")
    row = connection.run("remove_unused_summaries").fetchone()
    freed += int(row[0]) if row else 0
    connection.run("remove_unnamed_vectors")
    connection.commit_work()
    connection.begin_work()
    forget_replaced_states(connection)
    connection.commit_work()
    forget_states(connection)
    return freed


def _trim(connection: PostgresConnection, *, everything: bool) -> int:
    """Remove what is unneeded of all branches, or of those of deleted sessions; the bytes of the messages.

    One statement removes, so it sees one state: what others append meanwhile is not in it. What it finds unneeded there
    nobody can need later, for a fork holds its checkpoint until it is committed.
    """
    values: dict[str, object] = {"everything": everything}
    branches = [number for (number,) in connection.run("lock_trimmed", values)]
    if not branches:
        return 0
    row = connection.run("trim", {**values, "branches": branches}).fetchone()
    return int(row[0]) if row else 0


def forget_states(connection: PostgresConnection) -> None:
    """Remove the states that no checkpoint has; only meanwhile nobody keeps one."""
    connection.begin_work()
    if connection.run("has_unused_states").fetchone() is not None:
        connection.run("guard_removal")
        forget_unused_states(connection)
    connection.commit_work()


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
