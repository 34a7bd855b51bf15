"""The inspector's application: the page, what it asks for as JSON, and news of changes as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

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
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route
except ImportError as error:
    raise MissingExtraError("inspect", "the inspector needs the package starlette") from error

from summarizing_context.inspector.guard import Access, Guard
from summarizing_context.inspector.reader import Reader

Undo = Callable[[str], Awaitable[object]]

Reading = Callable[[], Awaitable[dict[str, Any]]]

_STATIC = {
    "inspector.css": "text/css",
    "dom.js": "text/javascript",
    "ribbon.js": "text/javascript",
    "panels.js": "text/javascript",
    "dialogs.js": "text/javascript",
    "inspector.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}

_POLL = 0.4  # seconds between two looks at the store

_HEARTBEAT = 25  # looks, after which an idle stream says that it lives

_MOST_STREAMS = 32

_MOST_BODY = 4_096  # bytes of a request

_LONGEST_QUERY = 500  # characters

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
    reader = Reader(store, settings or Settings())
    pages = _Pages(reader, undo or partial(_undo_in, store))
    routes = [
        Route("/", pages.page),
        Route("/static/{name}", pages.static),
        Route("/api/events", pages.events),
        Route("/api/sessions", pages.sessions),
        Route("/api/session", pages.overview),
        Route("/api/ledger", pages.ledger),
        Route("/api/messages", pages.messages),
        Route("/api/text", pages.text),
        Route("/api/block", pages.block),
        Route("/api/activation", pages.activation),
        Route("/api/search", pages.search),
        Route("/api/undo", pages.outlook),
        Route("/api/undo", pages.undo, methods=["POST"]),
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

    async def page(self, request: Request) -> Response:
        return Response(_file("index.html"), media_type="text/html")

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC:
            return _json({"error": "there is no such file"}, 404)
        return Response(_file(name), media_type=_STATIC[name])

    async def sessions(self, request: Request) -> Response:
        return await self._read(self._reader.sessions)

    async def overview(self, request: Request) -> Response:
        return await self._read(partial(self._reader.overview, _id(request)))

    async def ledger(self, request: Request) -> Response:
        return await self._read(partial(self._reader.ledger, _id(request)))

    async def messages(self, request: Request) -> Response:
        start, stop = _number(request, "start"), _number(request, "stop")
        return await self._read(partial(self._reader.messages, _id(request), start, stop))

    async def text(self, request: Request) -> Response:
        message, start = _number(request, "message"), _number(request, "start")
        return await self._read(partial(self._reader.text, _id(request), message, start))

    async def block(self, request: Request) -> Response:
        start, stop = _number(request, "start"), _number(request, "stop")
        is_segment = request.query_params.get("of") == "segments"
        return await self._read(partial(self._reader.block, _id(request), start, stop, is_segment=is_segment))

    async def outlook(self, request: Request) -> Response:
        return await self._read(partial(self._reader.undo_outlook, _id(request)))

    async def activation(self, request: Request) -> Response:
        return await self._read(partial(self._reader.activation, _id(request), _number(request, "number")))

    async def search(self, request: Request) -> Response:
        query = request.query_params.get("query", "")[:_LONGEST_QUERY]
        return await self._read(partial(self._reader.search, _id(request), query))

    async def undo(self, request: Request) -> Response:
        """Undo the last activation of the session whose name was typed."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST_BODY:
                return _json({"error": f"the request is larger than {_MOST_BODY} bytes"}, 413)
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _json({"error": "an undo is asked for with JSON"}, 415)
        try:
            asked = json.loads(body)
        except ValueError:
            asked = None
        session = asked.get("session") if isinstance(asked, Mapping) else None
        if not isinstance(session, str) or not session or asked.get("confirm") != session:
            return _json({"error": "type the session's name to confirm"}, 400)
        return await self._answer(self._undone(session))

    async def events(self, request: Request) -> Response:
        """Tell of every change, as server-sent events; the first comes at once."""
        if self._streams >= _MOST_STREAMS:
            return _json({"error": f"{_MOST_STREAMS} pages are open already; close some"}, 503)
        return StreamingResponse(self._changes(), media_type="text/event-stream")

    async def _changes(self) -> AsyncIterator[str]:
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
                elif (quiet := quiet + 1) % _HEARTBEAT == 0:
                    yield ": still here\n\n"
                await asyncio.sleep(_POLL)
        finally:
            self._streams -= 1

    async def _undone(self, session: str) -> dict[str, Any]:
        known = (await self._reader.sessions())["sessions"]
        if session not in {info["session_id"] for info in known}:
            raise NodeNotFoundError(f"the store holds no session {session!r:.60}")
        await self._undo(session)
        return {"undone": session}

    async def _read(self, reading: Reading) -> Response:
        """Read in a thread with an event loop of its own, so that no large session holds this one up."""
        return await self._answer(to_thread.run_sync(anyio.run, reading, abandon_on_cancel=True))

    async def _answer(self, reading: Awaitable[dict[str, Any]]) -> Response:
        async with self._looks:
            try:
                return _json(await reading)
            except SummarizingContextError as error:
                status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
                return _json({"error": str(error)}, status)


def _id(request: Request) -> str:
    return request.query_params.get("id", "")


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _json(value: Mapping[str, Any], status: int = 200) -> Response:
    """As ASCII, so that halves of characters in a transcript can be sent too."""
    return Response(json.dumps(value), status_code=status, media_type="application/json")


def _file(name: str) -> bytes:
    return (files("summarizing_context.inspector") / "static" / name).read_bytes()
