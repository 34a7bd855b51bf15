"""Who may ask: programs of this machine, or those that know the token; never a page that a browser has open.

A page could reach the loopback under a name of its own (DNS rebinding), so the header Host must name an address, and a
request that a page makes is known by its Origin.
"""

from __future__ import annotations

import hmac
from ipaddress import ip_address

from summarizing_context.errors import SettingsError
from summarizing_context.inspector.guard import is_local, is_own
from summarizing_context.proxy.upstream import TOKEN_HEADER, Headers

_FOLDER = "/token/"  # in front of a path, the token of clients that can set no header: /token/<token>/v1/...

_SHORTEST = 16  # characters of a token


class Guard:
    """Refuses requests. Raises `SettingsError` where others could ask and no token keeps them out."""

    def __init__(self, host: str, token: str | None) -> None:
        self._is_local = ip_address(host).is_loopback
        self._token = token
        if token is None and not self._is_local:
            raise SettingsError(f"{host} is open to other machines; set --token, or listen on 127.0.0.1")
        if token is not None and (len(token) < _SHORTEST or not token.isascii() or not token.isalnum()):
            raise SettingsError(f"the token has to be {_SHORTEST} or more letters and digits")

    def admitted(self, path: str, headers: Headers) -> tuple[str, str | None]:
        """The path that is asked for, and why it is refused; None where it is not."""
        given = {name: value.decode("latin-1") for name, value in headers}
        told = given.get(TOKEN_HEADER, "")
        if path.startswith(_FOLDER):
            told, _, rest = path.removeprefix(_FOLDER).partition("/")
            path = f"/{rest}"
        if self._token is not None and not hmac.compare_digest(told.encode(), self._token.encode()):
            return path, "the token is missing or wrong"
        if self._token is None and not is_local(given.get(b"host", "")):
            return path, "the header Host has to name this machine, such as 127.0.0.1"
        origin = given.get(b"origin")
        if origin is not None and not is_own(origin, given.get(b"host", "")):
            return path, "pages of other origins may not ask"
        return path, None
