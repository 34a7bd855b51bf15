"""The inspector's application: the page, what it asks for as JSON, and news of changes; and its server."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import secrets
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from summarizing_context import Settings, undo_stored
from summarizing_context.adapters.open_sessions import opened_store
from summarizing_context.errors import (
    MissingExtraError,
    NodeNotFoundError,
    SessionInUseError,
    SettingsError,
    StoreError,
    SummarizingContextError,
    UndoError,
)

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.middleware import Middleware
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise MissingExtraError("inspect", "the inspector needs the packages starlette and uvicorn") from error

from summarizing_context.contrib.inspector.reader import Json, Reader

Undo = Callable[[str], Awaitable[object]]

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLL = 0.4  # seconds between two looks at the store
_MAX_BODY = 4_096  # bytes of a request

_STATUS = {NodeNotFoundError: 404, SettingsError: 400, SessionInUseError: 409, UndoError: 409, StoreError: 503}


def inspector_app(
    store: str | Path,
    *,
    settings: Settings | None = None,
    undo: Undo | None = None,
    checks_host: bool = True,
    access: Access | None = None,
) -> Starlette:
    """The inspector of a store, to be served alone or mounted in another application.

    Args:
        store: the SQLite file of the sessions, or the address of a PostgreSQL database; it is only read.
        settings: those of the program that writes the sessions, as far as they differ from the defaults.
        undo: undoes a session's last activation; needed by a program that has sessions open itself. Without it the
            undo is made in the store, and refused with `SessionInUseError` for a session that any program has open.
        checks_host: whether to refuse requests whose header Host does not name this machine. An application around
            this one that has its own rules for names passes False.
        access: lets in who opened a link of it, and nobody else. With None, whoever reaches the application may read
            and undo; an application around this one has to know who asks.
    """
    pages = _Pages(Reader(store, settings or Settings()), undo or partial(_undo_in, store))
    routes = [
        Route("/", pages.static),
        Route("/static/{name}", pages.static),
        Route("/api/events", pages.events),
        Route("/api/undo", pages.undo, methods=["POST"]),
        Route("/api/{what}", pages.read),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, checks_host=checks_host, access=access)])


async def _undo_in(store: str | Path, session_id: str) -> None:
    async with opened_store(store) as opened:
        await undo_stored(opened, session_id)


class _Pages:
    """Answers requests."""

    def __init__(self, reader: Reader, undo: Undo) -> None:
        self._reader = reader
        self._undo = undo
        self._looks = asyncio.Semaphore(2)  # sessions that are read at once

    async def static(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        file = files("summarizing_context.contrib.inspector") / "static" / name
        if "/" in name or not file.is_file():
            return _json({"error": "there is no such file"}, 404)
        return Response(file.read_bytes(), media_type=_TYPES[Path(name).suffix])

    async def read(self, request: Request) -> Response:
        """Read in a thread with an event loop of its own, so that no large session holds this one up."""
        reader, query = self._reader, request.query_params

        def number(name: str) -> int:
            text = query.get(name, "")
            return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0

        session_id = query.get("id", "")
        ways: dict[str, Callable[[], Awaitable[Json]]] = {
            "sessions": reader.sessions,
            "session": partial(reader.overview, session_id),
            "ledger": partial(reader.ledger, session_id),
            "messages": partial(reader.messages, session_id, number("start"), number("stop")),
            "text": partial(reader.text, session_id, number("message"), number("start")),
            "block": partial(
                reader.block, session_id, number("start"), number("stop"), is_segment=query.get("of") == "segments"
            ),
            "activation": partial(reader.activation, session_id, number("number")),
            "search": partial(reader.search, session_id, query.get("query", "")[:500]),
            "undo": partial(reader.undo_outlook, session_id),
        }
        way = ways.get(request.path_params["what"])
        if way is None:
            return _json({"error": "there is no such page"}, 404)
        return await self._answer(to_thread.run_sync(anyio.run, way, abandon_on_cancel=True))

    async def undo(self, request: Request) -> Response:
        """Undo the last activation of the session whose name was typed."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_BODY:
                return _json({"error": f"the request is larger than {_MAX_BODY} bytes"}, 413)
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _json({"error": "an undo is asked for with JSON"}, 415)
        try:
            asked = json.loads(body)
        except ValueError:
            asked = None
        session = asked.get("session") if isinstance(asked, Mapping) else None
        if not isinstance(session, str) or not session or asked.get("confirm") != session:
            return _json({"error": "type the session's name to confirm"}, 400)

        async def undone() -> Json:
            await self._reader.check_known(session)
            await self._undo(session)
            return {"undone": session}

        return await self._answer(undone())

    async def events(self, request: Request) -> Response:
        """Tell of every change, as server-sent events; the first comes at once."""

        async def changes() -> AsyncIterator[str]:
            told, quiet = "", 0
            while True:
                try:
                    version = await self._reader.version()
                except StoreError:
                    version = "unreadable"  # a request for the sessions tells what is wrong
                if version != told:
                    told, quiet = version, 0
                    yield f"data: {version}\n\n"
                elif (quiet := quiet + 1) % 25 == 0:
                    yield ": still here\n\n"
                await asyncio.sleep(_POLL)

        return StreamingResponse(changes(), media_type="text/event-stream")

    async def _answer(self, reading: Awaitable[Json]) -> Response:
        async with self._looks:
            try:
                return _json(await reading)
            except SummarizingContextError as error:
                status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)
                return _json({"error": str(error)}, status)


def _json(value: Json, status: int = 200) -> Response:
    """As ASCII, so that halves of characters in a transcript can be sent too."""
    return Response(json.dumps(value), status_code=status, media_type="application/json")


# Who may ask: pages of its own only, of a browser that opened a link. Transcripts are hostile input: the page writes
# them as text only, and the policy below forbids everything else.

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


class Access:
    """Let in the browsers that opened a link, by a cookie that lasts as long as this object.

    Mount the inspector under `folder`: a browser sends cookies to every port of a machine, but not to other folders.
    """

    def __init__(self) -> None:
        self.folder = secrets.token_hex(16)
        self._cookie = secrets.token_hex(32)
        self._keys: deque[str] = deque(maxlen=32)  # that wait to be opened

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

        # Why it is refused, if it is.
        given, reason, status = Headers(scope=scope), None, 403
        host, origin = given.get("host", ""), given.get("origin")
        opens_page = scope["method"] == "GET" and given.get("sec-fetch-dest") == "document"
        cookie: str | None = None
        if self._checks_host and not is_local(host):
            reason = "the header Host names no address of this machine; open the page as http://127.0.0.1:PORT/"
        elif origin is not None and not is_own(origin, host):
            reason = "pages of other origins may not ask"
        elif given.get("sec-fetch-site", "none") not in ("same-origin", "none") and not opens_page:
            reason = "pages of other sites may not ask"
        elif self._access is not None and not self._access.admits(scope):
            cookie, status = self._access.cookie_for(scope), 401
            reason = None if cookie is not None else _NO_LINK

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if cookie is not None:
                    headers.append("Set-Cookie", cookie)
            await send(message)

        answer = self._app if reason is None else JSONResponse({"error": reason}, status_code=status)
        await answer(scope, receive, guarded)


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


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a loopback address; port 0 takes a free one.

    Raise `SettingsError` for other addresses: the page would be sent in clear. Raise `StoreError` if it is taken.
    """
    if not ip_address(host).is_loopback:
        raise SettingsError(
            f"{host} is open to other machines, and the inspector does not encrypt; "
            "listen on 127.0.0.1, and reach it from elsewhere through an SSH tunnel"
        )
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error.strerror
        raise StoreError(f"cannot listen on {host}:{port}: {reason}; choose another --listen") from error


async def serve(app: Starlette, listening: socket.socket, access: Access | None = None) -> None:
    """Serve until the process gets a signal to stop, which takes two seconds at most; with `access`, in its folder."""
    if access is not None:
        app = Starlette(routes=[Mount(f"/{access.folder}", app)])
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # streams that are cut at the end are no errors
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1, server_header=False
    )
    await uvicorn.Server(config).serve([listening])
