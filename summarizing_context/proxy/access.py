"""Who may ask: programs that know the token; never a page that a browser has open, but for the inspector's own.

Without a token, a page could reach the loopback under a name of its own (DNS rebinding), so the header Host must name
an address. A request that a page makes is known by its Origin, and one that opens a page by its Sec-Fetch headers.
"""

from __future__ import annotations

import hmac
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from summarizing_context.errors import SettingsError
from summarizing_context.inspector.guard import is_local, is_own
from summarizing_context.proxy.upstream import TOKEN_HEADER
from summarizing_context.stores.private_files import checked_token

_FOLDER = "/token/"  # in front of a path, the token of clients that can set no header: /token/<token>/v1/...

_NO_TOKEN = (
    "this proxy answers its user alone: the base URL has to hold its token, as in http://127.0.0.1:8377/token/TOKEN. "
    "The proxy printed it at its start; `proxy run` and `proxy enable` set it for clients"
)


class Asked(NamedTuple):
    """What a request asks for, without the token, and why it is refused; None where it is not."""

    path: str
    raw_path: bytes
    refusal: str | None = None
    status: int = 403


class Guard:
    """Refuses requests. Raises `SettingsError` where others could ask and no token keeps them out.

    Paths that begin with `pages` need no token: those of the inspector, which has a guard of its own.
    """

    def __init__(self, host: str, token: str | None, pages: str) -> None:
        self._token = token
        self._pages = pages
        if token is None and not ip_address(host).is_loopback:
            raise SettingsError(f"{host} is open to other machines; set --token, or listen on 127.0.0.1")
        if token is not None:
            checked_token(token)

    def admitted(self, scope: Scope) -> Asked:
        """What a request asks for, and whether it may."""
        path: str = scope["path"]
        raw_path: bytes = scope.get("raw_path") or path.encode()
        if (wrong := _wrong_target(raw_path, scope.get("query_string", b""))) is not None:
            return Asked(path, raw_path, wrong, 400)
        if path.startswith(self._pages):
            return Asked(path, raw_path)
        given = {name: value.decode("latin-1") for name, value in scope["headers"]}
        told = given.get(TOKEN_HEADER, "")
        if path.startswith(_FOLDER):
            told, _, rest = path.removeprefix(_FOLDER).partition("/")
            folder = f"{_FOLDER}{told}".encode()
            if not raw_path.startswith(folder):  # else a part of the token would stay in the address
                return Asked(path, raw_path, "the token is written with escapes; write it plainly", 400)
            path, raw_path = f"/{rest}", raw_path[len(folder) :] or b"/"
        if f"{path}/".startswith("/inspect/"):
            return Asked(
                path, raw_path, "the inspector opens by a link; `summarizing-context proxy status` prints one", 401
            )
        if self._token is not None and not hmac.compare_digest(told.encode(), self._token.encode()):
            return Asked(path, raw_path, _NO_TOKEN, 401)
        return Asked(path, raw_path, self._refusal(scope, given))

    def _refusal(self, scope: Scope, given: dict[bytes, str]) -> str | None:
        host = given.get(b"host", "")
        if self._token is None and not is_local(host):
            return "the header Host has to name this machine, such as 127.0.0.1"
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        if given.get(b"sec-fetch-mode") == "navigate" or given.get(b"sec-fetch-dest", "empty") != "empty":
            return "this is no page: it answers programs, and a browser may open the inspector alone"
        is_foreign = given.get(b"sec-fetch-site", "none") not in ("none", "same-origin")
        if is_foreign or not all(is_own(origin, host) for origin in origins):
            return "pages of other origins may not ask"
        return None


def _wrong_target(raw_path: bytes, query: bytes) -> str | None:
    """Why no such address is asked: one of another host, or one that leads out of a provider's folder."""
    if not raw_path.startswith(b"/"):
        return "this is no proxy for other hosts; set it as the base URL of a client"
    if b"#" in raw_path + query:
        return "an address that is asked for has no fragment"
    segments = unquote_to_bytes(raw_path).replace(b"\\", b"/").split(b"/")
    return "an address has no segments of dots" if b"." in segments or b".." in segments else None
