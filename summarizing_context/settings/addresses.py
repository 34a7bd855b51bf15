"""Names of stores that are no files: addresses of servers."""

from __future__ import annotations

import re
from pathlib import Path

from summarizing_context.errors import SettingsError

# An address that is none of a store, or that has become a path, whose slashes are one. A drive has a single letter.
_LIKE_AN_ADDRESS = re.compile(
    r"\s*+(?:([A-Za-z][A-Za-z0-9+.-]+):/|(postgres\w*):|(?=.*\bpassword\s*=))", re.DOTALL | re.I
)


class StoreAddress(str):
    """An address whose `repr` shows no password. Its scheme is in lower case, and no white space is around it."""

    __slots__ = ()

    def __new__(cls, address: str) -> StoreAddress:
        scheme, mark, rest = str(address).strip().partition("://")
        return super().__new__(cls, f"{scheme.lower()}{mark}{rest}")

    def __repr__(self) -> str:
        return repr(shown_store(self))


def is_address(store: object) -> bool:
    """Return whether a store is named by an address, not by a path."""
    return isinstance(store, str) and store.lstrip().lower().startswith(("postgresql://", "postgres://"))


def unknown_address(store: object) -> tuple[str, str] | None:
    """Return the scheme of an address that is none of a store, empty where it has none, and what is wrong with it.

    None for a store's address, and for a path.
    """
    if not isinstance(store, str | Path) or is_address(store):
        return None
    found = _LIKE_AN_ADDRESS.match(str(store))
    if found is None:
        return None
    scheme = (found[1] or found[2] or "").lower()
    if scheme in ("postgresql", "postgres"):
        return scheme, f"an address is a string that begins with {scheme}://; a Path keeps only one of the slashes"
    if not scheme:
        return scheme, "a password was given in another form than an address"
    return scheme, "of addresses only postgresql:// and postgres:// are known"


def check_scheme(store: object) -> None:
    """Raise `SettingsError` for an address that is none of a store, rather than take it for a path."""
    if unknown := unknown_address(store):
        raise SettingsError(
            f"store: {unknown[0][:60] or '…'!r} is refused ({unknown[1]}); allowed: a path to a file, or an "
            "address that begins with postgresql:// or postgres://"
        )


def shown_store(store: object) -> str:
    """Return the name of a store for people, without a password; nothing behind the scheme where it is not clear what
    the password is."""
    if unknown := unknown_address(store):
        return f"{unknown[0]}://…" if unknown[0] else "…"
    if not isinstance(store, str) or not is_address(store):
        return str(store)
    scheme, mark, rest = str(StoreAddress(store)).partition("://")
    info, at, place = rest.rpartition("@")
    if re.search(r"[/?#@]", info):  # that should have been escaped
        return f"{scheme}{mark}…"
    place = re.sub(r"(?i)(?<=[?&])(\w*password\w*=)[^&]*", r"\1***", place)
    return f"{scheme}{mark}{info.partition(':')[0]}{at}{place}"
