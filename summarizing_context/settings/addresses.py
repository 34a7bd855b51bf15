"""Names of stores that are no files: addresses of servers."""

from __future__ import annotations

import re

from summarizing_context.errors import SettingsError

_SCHEMES = ("postgresql", "postgres")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")

_PASSWORD = re.compile(r"(?<=[?&])(\w*password\w*=)[^&]*", re.IGNORECASE)


class StoreAddress(str):
    """An address whose `repr` shows no password. Its scheme is in lower case."""

    __slots__ = ()

    def __new__(cls, address: str) -> StoreAddress:
        scheme, mark, rest = str(address).partition("://")
        return super().__new__(cls, f"{scheme.lower()}{mark}{rest}")

    def __repr__(self) -> str:
        return repr(self.shown)

    @property
    def shown(self) -> str:
        """The address without its password; nothing behind the scheme where it is not clear what the password is."""
        scheme, mark, rest = self.partition("://")
        info, at, place = rest.rpartition("@")
        if re.search(r"[/?#@]", info):  # that should have been escaped
            return f"{scheme}{mark}…"
        place = _PASSWORD.sub(r"\1***", place)
        return f"{scheme}{mark}{info.partition(':')[0]}{at}{place}"


def _scheme_of(store: object) -> str | None:
    found = _SCHEME.match(store) if isinstance(store, str) else None
    return None if found is None else found[1].lower()


def is_address(store: object) -> bool:
    """Whether a store is named by an address, not by a path."""
    return _scheme_of(store) in _SCHEMES


def unknown_scheme(store: object) -> str | None:
    """The scheme of an address that is none of a store; None for a store's address, and for a path."""
    scheme = _scheme_of(store)
    return None if scheme in _SCHEMES else scheme


def check_scheme(store: object) -> None:
    """Raise `SettingsError` for an address that is none of a store, rather than take it for a path."""
    scheme = unknown_scheme(store)
    if scheme is not None:
        raise SettingsError(
            f"store: the scheme {scheme[:60]!r} is not known; allowed: a path to a file, or an address that begins "
            "with postgresql:// or postgres://"
        )


def shown_store(store: object) -> str:
    """The name of a store for people, without a password."""
    scheme = unknown_scheme(store)
    if scheme is not None:
        return f"{scheme}://…"
    return StoreAddress(store).shown if isinstance(store, str) and is_address(store) else str(store)
