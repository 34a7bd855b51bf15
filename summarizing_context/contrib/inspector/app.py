"""The inspector's application: the page, what it asks for as JSON, and news of changes; and its server."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from ipaddress import ip_address
from pathlib import Path

import anyio
from anyio import to_thread

from summarizing_context.assembly import open_store
from summarizing_context.errors import (
    MissingExtraError,
    NodeNotFoundError,
    SessionInUseError,
    SettingsError,
    StoreError,
    SummarizingContextError,
    UndoError,
)
from summarizing_context.sessions.activations import undo_stored
from summarizing_context.settings.values import Settings

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Mount, Route
except ImportError as error:
    raise MissingExtraError("inspect", "the inspector needs the packages starlette and uvicorn") from error

from summarizing_context.contrib.inspector.guard import Access, Guard
from summarizing_context.contrib.inspector.reader import Json, Reader

Undo = Callable[[str], Awaitable[object]]

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLL = 0.4  # seconds between two looks at the store
_MAX_STREAMS = 32
_MAX_BODY = 4_096  # bytes of a request

_STATUS = {
    NodeNotFoundError: 404,
    SettingsError: 400,
    SessionInUseError: 409,
    UndoError: 409,
    StoreError: 503,
    SummarizingContextError: 500,
}


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
    opened = await open_store(store)
    try:
        await undo_stored(opened, session_id)
    finally:
        await opened.close()


class _Pages:
    """Answers requests."""

    def __init__(self, reader: Reader, undo: Undo) -> None:
        self._reader = reader
        self._undo = undo
        self._streams = 0
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
        if self._streams >= _MAX_STREAMS:
            return _json({"error": f"{_MAX_STREAMS} pages are open already; close some"}, 503)

        async def changes() -> AsyncIterator[str]:
            self._streams += 1
            try:
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
            finally:
                self._streams -= 1

        return StreamingResponse(changes(), media_type="text/event-stream")

    async def _answer(self, reading: Awaitable[Json]) -> Response:
        async with self._looks:
            try:
                return _json(await reading)
            except SummarizingContextError as error:
                status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
                return _json({"error": str(error)}, status)


def _json(value: Json, status: int = 200) -> Response:
    """As ASCII, so that halves of characters in a transcript can be sent too."""
    return Response(json.dumps(value), status_code=status, media_type="application/json")


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
