"""Who may ask the inspector: pages of its own only, under a name of this machine; and what a browser may do with them.

Transcripts are hostile input. The page writes them as text only, and the policy below forbids everything else.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
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


class Guard:
    """Refuses requests of other origins and under other names, and adds the headers above to every answer.

    Where `checks_host` is false, an application around this one has looked at the header Host.
    """

    def __init__(self, app: ASGIApp, *, checks_host: bool) -> None:
        self._app = app
        self._checks_host = checks_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        reason = self._refusal(Headers(scope=scope), scope["method"])
        answer = self._app if reason is None else JSONResponse({"error": reason}, status_code=403)
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
