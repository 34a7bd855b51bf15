"""The history of activations in a relational store: what each was, and for the newest the state before it.

Functions on a connection run within the transaction of their caller.
"""

from __future__ import annotations

import zlib
from itertools import starmap

from summarizing_context.stores.base import NewActivation, StoredActivation
from summarizing_context.stores.relational.database import Access, Connection

KEPT_STATES = 64  # of a session


class RelationalActivations:
    """The activations of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def listed(self, session_id: str) -> list[StoredActivation]:
        """All of a session, oldest first."""

        def work(connection: Connection) -> list[StoredActivation]:
            rows = connection.run("history", {"session_id": session_id})
            return list(starmap(StoredActivation, rows))

        return await self._access.read(work)

    async def before(self, session_id: str, number: int) -> bytes | None:
        """The provider's state until an activation; None where it is not kept, or not any longer."""

        def work(connection: Connection) -> bytes | None:
            values = {"session_id": session_id, "number": number}
            row = connection.run("state_before", values).fetchone()
            return None if row is None or row[0] is None else zlib.decompress(row[0])

        return await self._access.read(work)


def add_to_history(connection: Connection, session_id: str, provider_key: str, made: NewActivation) -> None:
    """Keep what an activation was, and drop the state before the oldest beyond 64."""
    before = None if made.before is None else zlib.compress(made.before, 9)
    known = {"session_id": session_id, "number": made.number}
    values = {**known, "provider_key": provider_key, "figures": made.figures, "before": before}
    connection.run("add_to_history", values)
    connection.run("thin_history", {**known, "keep": KEPT_STATES})
    if made.undoes is not None:
        connection.run("note_undone", {**known, "number": made.undoes})


def forget_history(connection: Connection, session_id: str) -> None:
    """A session is about to go."""
    connection.run("remove_history", {"session_id": session_id})


def forget_replaced_states(connection: Connection) -> None:
    """No activation of a log that was replaced is taken back."""
    connection.run("forget_replaced_states")
