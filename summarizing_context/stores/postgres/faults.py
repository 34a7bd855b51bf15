"""Turn the errors of PostgreSQL and its driver into ours: where, what happened, what to do.

Neither the values of a query nor the text of a message gets into an error.
"""

from __future__ import annotations

import psycopg
from psycopg import errors

from summarizing_context.errors import (
    SessionLostError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
    StoreUnreachableError,
    SummarizingContextError,
)
from summarizing_context.stores.postgres.address import Address

NOT_OURS = "SC001"  # raised by the function `expect`

_LOCKED = (StoreLockedError, "another process held a lock for too long; try again, or find out which one holds it")

_DENIED = (StoreReadOnlyError, "the server refused to write; grant the rights, or use read_only=True")

_FULL = (StoreFullError, "the server has no space left; nothing was written: free some and call again")

_LOST = (SessionLostError, "this host no longer has its lease; nothing was written: open the session again")

_BY_STATE: dict[str, tuple[type[StoreError], str]] = {
    "53100": _FULL,
    "53200": _FULL,
    "55P03": _LOCKED,
    "40P01": _LOCKED,
    "57014": (StoreError, "the statement was cancelled; try again"),
    "25006": _DENIED,
    "42501": _DENIED,
    NOT_OURS: _LOST,
    "XX001": (StoreCorruptError, "the server reports damaged data; restore it from a backup"),
    "XX002": (StoreCorruptError, "the server reports a damaged index; rebuild it with REINDEX"),
    "42P01": (StoreError, "a table is missing; was the schema removed while the store was open? Open it again"),
    "3F000": (StoreError, "the schema is missing; was it removed while the store was open? Open it again"),
}

_PASSING = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)


def is_connection_lost(error: Exception) -> bool:
    """Whether the server, or the way to it, has gone."""
    if isinstance(error, psycopg.InterfaceError):
        return True
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate[:2] == "08" or error.sqlstate[:3] in ("57P", "57p")


def may_pass(error: Exception) -> bool:
    """Whether the same work may succeed if it is tried again at once."""
    return is_connection_lost(error) or isinstance(error, _PASSING)


def lost(session_id: str) -> SessionLostError:
    """Another host has taken the session."""
    return SessionLostError(
        f"session {session_id!r}: {_LOST[1]}. Another host may have taken it after this one was silent for too long"
    )


def unreachable(address: Address, error: Exception) -> StoreUnreachableError:
    """The server cannot be reached. libpq's own words, and `error`, are left out where they may hold the password."""
    said, told = (
        " ".join(str(error).split()),
        f"{address.name}: the server cannot be reached; start it or check the address",
    )
    if address.may_repeat(said):
        return StoreUnreachableError(told)
    fault = StoreUnreachableError(f"{told}. It said: {said}")
    fault.__cause__ = error
    return fault


def translate(error: Exception, address: Address) -> Exception:
    """The error to raise in place of `error`, which becomes its cause unless it could repeat what was to be kept."""
    if isinstance(error, SummarizingContextError):
        return error
    if is_connection_lost(error):
        return unreachable(address, error)
    name = address.name
    if isinstance(error, UnicodeError):
        return StoreError(f"{name}: a name given to the store is not valid Unicode; leave lone surrogates out of it")
    if isinstance(error, psycopg.DataError) or not isinstance(error, psycopg.Error):
        return StoreError(f"{name}: the store was given something that it cannot keep ({type(error).__name__})")
    state = error.sqlstate or ""
    kind, text = _BY_STATE.get(state, (StoreError, f"PostgreSQL reported error {state} ({type(error).__name__})"))
    fault = kind(f"{name}: {text}")
    fault.__cause__ = error
    return fault
