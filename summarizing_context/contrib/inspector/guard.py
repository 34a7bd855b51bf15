"""Who may ask the inspector: pages of its own only, of a browser that opened a link; and what it may do with them.

Transcripts are hostile input. The page writes them as text only, and the policy below forbids everything else.
"""

from __future__ import annotations

import hmac
import secrets
from collections import deque
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


_COOKIE = "summarizing-context-inspector"

_NO_LINK = (
    "this page opens by the link that its program prints, once, and for that browser. Ask for a new one: start "
    "`summarizing-context inspect` again, or call `summarizing-context proxy status`. If a new link was used already, "
    "another user of this machine has opened it: end the program"
)

_MOST_LINKS = 32  # that wait to be opened


class Access:
    """Let in the browsers that opened a link, by a cookie that lasts as long as this object.

    Mount the inspector under `folder`: a browser sends cookies to every port of a machine, but not to other folders.
    """

    def __init__(self) -> None:
        self.folder = secrets.token_hex(16)
        self._cookie = secrets.token_hex(32)
        self._keys: deque[str] = deque(maxlen=_MOST_LINKS)

    def link(self, address: str) -> str:
        """Return a link to the inspector at `address` that opens it once."""
        self._keys.append(secrets.token_hex(32))
        return f"{address}/?key={self._keys[-1]}"

    def admits(self, scope: Scope) -> bool:
        """Return whether the browser has the cookie."""
        return hmac.compare_digest(HTTPConnection(scope).cookies.get(_COOKIE, "").encode(), self._cookie.encode())

    def cookie_for(self, scope: Scope) -> str | None:
        """Return the cookie to set for a link that was not opened before, else None."""
        given = HTTPConnection(scope).query_params.get("key", "").encode()
        for key in list(self._keys):
            if scope["method"] == "GET" and hmac.compare_digest(given, key.encode()):
                self._keys.remove(key)
                return f"{_COOKIE}={self._cookie}; HttpOnly; SameSite=Strict; Path={scope.get('root_path', '')}/"
        return None


class Guard:
    """Refuses requests of other origins and under other names, and adds the headers above to every answer.

    Where `checks_host` is false, an application around this one has looked at the header Host. Where `access` is None,
    it has looked at who asks.
    """

    def __init__(self, app: ASGIApp, *, checks_host: bool, access: Access | None) -> None:
        self._app = app
        self._checks_host = checks_host
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        cookie: str | None = None

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if cookie is not None:
                    headers.append("Set-Cookie", cookie)
            await send(message)

        reason, status = self._refusal(Headers(scope=scope), scope["method"]), 403
        if reason is None and self._access is not None and not self._access.admits(scope):
            cookie, status = self._access.cookie_for(scope), 401
            reason = None if cookie is not None else _NO_LINK
        answer = self._app if reason is None else JSONResponse({"error": reason}, status_code=status)
        await answer(scope, receive, guarded)

    def _refusal(self, headers: Headers, method: str) -> str | None:
        host = headers.get("host", "")
        if self._checks_host and not is_local(host):
            return "the header Host names no address of this machine; open the page as http://127.0.0.1:PORT/"
        origin = headers.get("origin")
        if origin is not None and not is_own(origin, host):
            return "pages of other origins may not ask"
        site = headers.get("sec-fetch-site", "none")
        opens_page = method == "GET" and headers.get("sec-fetch-dest") == "document"
        if site not in ("same-origin", "none") and not opens_page:
            return "pages of other sites may not ask"
        return None


def is_local(host: str) -> bool:
    """Whether the value of a header Host names this machine by a loopback address, or as localhost."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").lower()
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def is_own(origin: str, host: str) -> bool:
    """Whether the header Origin names a page of the server that Host names, such as the inspector."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()
