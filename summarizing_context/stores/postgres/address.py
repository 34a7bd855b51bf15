"""The address of a PostgreSQL store: `postgresql://user@host/database?schema=agents&lease=30`.

`schema` and `lease` are ours; all other parameters are those of libpq.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from summarizing_context.errors import SettingsError

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")

_SHORTEST_LEASE, _LEASE, _LONGEST_LEASE = 1.0, 15.0, 3600.0  # seconds


class Address(NamedTuple):
    """Where a store is."""

    url: str  # for libpq
    schema: str
    lease: float  # seconds after which the sessions of a writer that has vanished may be taken
    name: str  # without a password, as messages show it


def read_address(text: str) -> Address:
    """The parts of an address; `SettingsError` where one is wrong."""
    try:
        parts = urlsplit(text)
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        _ = parts.port
    except ValueError as error:
        raise SettingsError("store: this is not an address; write postgresql://user@host:5432/database") from error
    schema = given.pop("schema", "summarizing_context")
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise SettingsError("store: schema is 1 to 63 of a-z, 0-9 and _, no digit first, and not pg_…")
    lease = _read_lease(given.pop("lease", str(_LEASE)))
    place = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(given, quote_via=quote), ""))
    user, at, host = parts.netloc.rpartition("@")
    shown = {key: value for key, value in given.items() if "password" not in key}
    netloc = f"{user.partition(':')[0]}{at}{host}"
    name = urlunsplit(("postgresql", netloc, parts.path, urlencode({**shown, "schema": schema}, safe="/"), ""))
    return Address(place, schema, lease, name)


def _read_lease(text: str) -> float:
    try:
        lease = float(text)
    except ValueError:
        lease = 0.0
    if not _SHORTEST_LEASE <= lease <= _LONGEST_LEASE:
        raise SettingsError(f"store: lease is a number of seconds from {_SHORTEST_LEASE:g} to {_LONGEST_LEASE:g}")
    return lease
