"""Activation states of checkpoints in SQLite: equal ones are kept once, the next as what it differs in from the last.

Functions on a connection, within the transaction of their caller. How two states are compared is in `deltas`.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from typing import NamedTuple

from summarizing_context.stores.deltas import pack, unpack
from summarizing_context.stores.queries import SQL

DEEPEST = 96  # states that one may build on
_DIGEST = 16  # bytes
_REMEMBERED = 4  # states, of as many providers


class _Before(NamedTuple):
    """What a provider was shown at the checkpoint before."""

    id: int
    depth: int  # states that it builds on, at least
    digest: bytes


class _Packed(NamedTuple):
    """A state as its row has it."""

    state: bytes
    base: int | None
    depth: int


class NewestStates:
    """Keeps states, and remembers the newest unpacked: the next one is packed against it. For the writer's thread."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}  # by digest, so that what was rolled back does no harm

    def keep(self, connection: sqlite3.Connection, session_id: str, provider_key: str, state: bytes) -> int:
        """The number of a state, which is kept once."""
        digest = hashlib.sha256(state).digest()[:_DIGEST]
        row = connection.execute(SQL["find_checkpoint_state"], {"digest": digest}).fetchone()
        if row is not None:
            return int(row[0])
        packed = self._packed(connection, state, _newest(connection, session_id, provider_key))
        self._remember(digest, state)
        return connection.execute(SQL["add_checkpoint_state"], {"digest": digest, **packed._asdict()}).lastrowid or 0

    def _packed(self, connection: sqlite3.Connection, state: bytes, before: _Before | None) -> _Packed:
        alone = _Packed(zlib.compress(state, 9), None, 0)
        if before is None or before.depth >= DEEPEST:
            return alone
        base = self._known.get(before.digest) or read_state(connection, before.id)
        delta = _Packed(pack(state, base), before.id, before.depth + 1)
        return delta if len(delta.state) < len(alone.state) else alone

    def _remember(self, digest: bytes, state: bytes) -> None:
        self._known[digest] = state
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]


def read_state(connection: sqlite3.Connection, number: int) -> bytes:
    """A state, unpacked."""
    chain: list[bytes] = []
    base: int | None = number
    while base is not None:
        packed, base = connection.execute(SQL["checkpoint_state"], {"id": base}).fetchone()
        chain.append(packed)
    state = zlib.decompress(chain.pop())
    while chain:
        state = unpack(chain.pop(), state)
    return state


def forget_unused_states(connection: sqlite3.Connection) -> None:
    """Remove the states that no checkpoint has; those that were packed against one are packed by themselves."""
    for (number,) in connection.execute(SQL["states_on_unused"]).fetchall():
        values = {"id": number, "state": zlib.compress(read_state(connection, number))}
        connection.execute(SQL["pack_state_alone"], values)
    connection.execute(SQL["remove_unused_states"])


def _newest(connection: sqlite3.Connection, session_id: str, provider_key: str) -> _Before | None:
    row = connection.execute(SQL["newest_showings"], {"session_id": session_id}).fetchone()
    for key, number, _ in json.loads(row[0]) if row is not None else []:
        if key == provider_key:
            return _Before(*connection.execute(SQL["state_depth"], {"id": number}).fetchone())
    return None
