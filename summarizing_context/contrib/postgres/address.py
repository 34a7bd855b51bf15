"""The address of a PostgreSQL store: `postgresql://user@host/database?schema=agents&lease=30`.

`schema` and `lease` are ours; all other parameters are those of libpq.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from summarizing_context.errors import SettingsError

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")

_WRITE = "write postgresql://user@host:5432/database, with %40 for @ and %2F for / in a name or password"


class Address(NamedTuple):
    """Where a store is."""

    url: str  # for libpq
    schema: str
    lease: float  # seconds after which the sessions of a writer that has vanished may be taken
    name: str  # without a password, as messages show it

    def __repr__(self) -> str:
        return f"Address({self.name!r})"

    def may_repeat(self, said: str) -> bool:
        """Whether a text may hold a password of this address, or a part of it."""
        parts = urlsplit(self.url)
        secrets = [value for key, value in parse_qsl(parts.query) if "password" in key]
        secrets += [parts.password or "", unquote(parts.password or "")]
        pieces = [piece for secret in secrets for piece in re.split(r"[@/:?#\s]", secret) if len(piece) >= 3]
        return any(secret and secret in said for secret in [*secrets, *pieces])


def read_address(text: str) -> Address:
    """The parts of an address; `SettingsError` where one is wrong."""
    try:
        parts = urlsplit(text.strip())
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        _ = parts.port
    except ValueError:  # whose text may hold a part of the password
        raise SettingsError(f"store: this is not an address; {_WRITE}") from None
    if parts.netloc.count("@") > 1 or "@" in parts.path:
        raise SettingsError(f"store: an @ too many, or a / before it, in this address; {_WRITE}")
    schema = given.pop("schema", "summarizing_context")
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise SettingsError("store: schema is 1 to 63 of a-z, 0-9 and _, no digit first, and not pg_…")
    try:
        lease = float(given.pop("lease", "15"))
    except ValueError:
        lease = 0.0
    if not 1 <= lease <= 3600:
        raise SettingsError("store: lease is a number of seconds from 1 to 3600")
    place = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(given, quote_via=quote), ""))
    user, at, host = parts.netloc.rpartition("@")
    shown = {key: value for key, value in given.items() if "password" not in key}
    netloc = f"{user.partition(':')[0]}{at}{host}"
    name = urlunsplit(("postgresql", netloc, parts.path, urlencode({**shown, "schema": schema}, safe="/"), ""))
    return Address(place, schema, lease, name)
