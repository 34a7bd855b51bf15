"""Turn the errors of PostgreSQL and its driver into ours: where, what happened, what to do.

Neither the values of a query nor the text of a message gets into an error.
"""

from __future__ import annotations

import psycopg
from psycopg import errors

from summarizing_context.contrib.postgres.address import Address
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

NOT_OURS = "SC001"  # raised by the function `expect`

_LOST = "this host no longer has its lease; nothing was written: open the session again"

_BY_STATE: dict[str, tuple[type[StoreError], str]] = {
    **dict.fromkeys(
        ("53100", "53200"),
        (StoreFullError, "the server has no space left; nothing was written: free some and call again"),
    ),
    **dict.fromkeys(
        ("55P03", "40P01"),
        (StoreLockedError, "another process held a lock for too long; try again, or find out which one holds it"),
    ),
    **dict.fromkeys(
        ("25006", "42501"),
        (StoreReadOnlyError, "the server refused to write; grant the rights, or use read_only=True"),
    ),
    NOT_OURS: (SessionLostError, _LOST),
    "57014": (StoreError, "the statement was cancelled; try again"),
    "XX001": (StoreCorruptError, "the server reports damaged data; restore it from a backup"),
    "XX002": (StoreCorruptError, "the server reports a damaged index; rebuild it with REINDEX"),
    "42P01": (StoreError, "a table is missing; was the schema removed while the store was open? Open it again"),
    "3F000": (StoreError, "the schema is missing; was it removed while the store was open? Open it again"),
}


def is_connection_lost(error: Exception) -> bool:
    """Return whether the server, or the way to it, has gone."""
    if not isinstance(error, psycopg.OperationalError):
        return isinstance(error, psycopg.InterfaceError)
    return error.sqlstate is None or error.sqlstate[:2] == "08" or error.sqlstate[:3] in ("57P", "57p")


def may_pass(error: Exception) -> bool:
    """Return whether the same work may succeed if it is tried again at once."""
    passing = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
    return is_connection_lost(error) or isinstance(error, passing)


def lost(session_id: str) -> SessionLostError:
    """Return the error where another host has taken the session."""
    return SessionLostError(
        f"session {session_id!r}: {_LOST}. Another host may have taken it after this one was silent for too long"
    )


def unreachable(address: Address, error: Exception) -> StoreUnreachableError:
    """Return the error where the server cannot be reached. libpq's own words, and `error`, are left out where they may
    hold the password."""
    said, told = " ".join(str(error).split()), "the server cannot be reached; start it or check the address"
    if address.may_repeat(said):
        return StoreUnreachableError(f"{address.name}: {told}")
    fault = StoreUnreachableError(f"{address.name}: {told}. It said: {said}")
    fault.__cause__ = error
    return fault


def translate(error: Exception, address: Address) -> Exception:
    """Return the error to raise in place of `error`, which becomes its cause unless it could repeat what was to be
    kept."""
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
