"""Names of stores that are no files: addresses of servers."""

from __future__ import annotations

import re

_SCHEMES = ("postgresql", "postgres")

_PASSWORD = re.compile(r"(?<=://)([^/@?#]*):[^/@?#]*@|(?<=[?&]password=)[^&]*")


class StoreAddress(str):
    """An address whose `repr` shows no password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(self.shown)

    @property
    def shown(self) -> str:
        """The address without its password."""
        return _PASSWORD.sub(lambda found: f"{found[1]}@" if found[1] is not None else "***", str(self))


def is_address(store: object) -> bool:
    """Whether a store is named by an address, not by a path."""
    return isinstance(store, str) and "://" in store and store.partition("://")[0] in _SCHEMES


def shown_store(store: object) -> str:
    """The name of a store for people, without a password."""
    return StoreAddress(store).shown if isinstance(store, str) and is_address(store) else str(store)
