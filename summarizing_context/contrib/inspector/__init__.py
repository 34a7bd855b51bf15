"""The inspector: a page on what a store's sessions hold, what was summarized, what left the view, and what it cost.

`inspector_app` returns it as a Starlette application: the page, what it asks for as JSON, and news of changes; `serve`
runs it. Each question opens the session for reading, beside its writer, and sees what was committed last.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread

from summarizing_context import ActivationRecord, HeaderNode, Settings, SummarizingContext, load_models, open_context
from summarizing_context.adapters.open_sessions import opened_store
from summarizing_context.errors import (
    MissingExtraError,
    NodeNotFoundError,
    SessionInUseError,
    SettingsError,
    StoreCorruptError,
    StoreError,
    SummarizingContextError,
    UndoError,
)
from summarizing_context.evaluation.laws import view_parts
from summarizing_context.messages.reading import message_text_parts, parsed, read_message
from summarizing_context.messages.tokens import Price, TokenCounter, choose_counter, estimate_text
from summarizing_context.views.view import decode_state

try:
    from starlette.applications import Starlette
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.middleware import Middleware
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
    from starlette.routing import BaseRoute, Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from summarizing_context.contrib.serving import bound_socket as listening_socket
    from summarizing_context.contrib.serving import serve as serve_until_ended
except ImportError as error:
    raise MissingExtraError("inspect", "the inspector needs the packages starlette and uvicorn") from error

__all__ = ["Access", "bound_socket", "inspector_app", "serve"]

Json = dict[str, Any]

_FILES = Path(__file__).parent / "static"
_MAX_BODY = 4_096  # bytes of a request
_BINS = 480  # of the ribbon

_STATUS = {NodeNotFoundError: 404, SettingsError: 400, SessionInUseError: 409, UndoError: 409, StoreError: 503}


def inspector_app(
    store: str | Path,
    *,
    settings: Settings | None = None,
    undo: Callable[[str], Awaitable[object]] | None = None,
    pin: Callable[[str, int], Awaitable[object]] | None = None,
    checks_host: bool = True,
    access: Access | None = None,
    cache: Callable[[str], Json | None] = lambda _: None,
) -> Starlette:
    """The inspector of a store, to be served alone or mounted in another application.

    Args:
        store: the SQLite file of the sessions, or the address of a PostgreSQL database; it is only read.
        settings: those of the program that writes the sessions, as far as they differ from the defaults.
        undo: undoes a session's last activation; needed by a program that has sessions open itself. Without it the
            undo is made in the store, and refused with `SessionInUseError` for a session that any program has open.
        pin: pins a message of a session, by its number; needed where `undo` is.
        checks_host: whether to refuse requests whose header Host does not name this machine. An application around
            this one that has its own rules for names passes False.
        access: lets in who opened a link of it, and no one else. With None, whoever reaches the application may read,
            pin and undo; an application around this one has to know who asks.
        cache: tells what the requests of a session took from the prompt cache, as `statistics().cache` has it; of a
            program that has sessions open itself.
    """
    pages = _Pages(_store=store, _settings=settings or Settings(), _undo=undo, _pin=pin, _cache=cache)
    routes: list[BaseRoute] = [
        Route("/", lambda _: FileResponse(_FILES / "index.html")),
        Mount("/static", StaticFiles(directory=_FILES, follow_symlink=True)),  # as installers of links leave it
        Route("/api/events", pages.events),
        Route("/api/undo", pages.change, methods=["POST"]),
        Route("/api/pin", pages.change, methods=["POST"]),
        Route("/api/{what}", pages.read),
    ]
    return Starlette(routes=routes, middleware=[Middleware(guarded, checks_host=checks_host, access=access)])


@dataclass(frozen=True)
class _Pages:
    """What the page asks for. What it shows is made of JSON values."""

    _store: str | Path
    _settings: Settings
    _undo: Callable[[str], Awaitable[object]] | None
    _pin: Callable[[str, int], Awaitable[object]] | None
    _cache: Callable[[str], Json | None]
    _looks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))  # sessions that are read at once

    async def read(self, request: Request) -> Response:
        """Read in a thread with an event loop of its own, so that no large session holds this one up."""
        asked = request.path_params["what"], request.query_params
        return await self._answer(anyio.to_thread.run_sync(anyio.run, self._page, *asked, abandon_on_cancel=True))

    async def change(self, request: Request) -> Response:
        """Undo the last activation of the session whose name, or its end, was typed; or pin a message by its number."""
        if len(body := await request.body()) > _MAX_BODY:
            return _json({"error": f"the request is larger than {_MAX_BODY} bytes"}, 413)
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _json({"error": "a change is asked for with JSON"}, 415)
        asked = parsed(body.decode("utf-8", "replace"))
        asked = asked if isinstance(asked, dict) else {}
        if not isinstance(session := asked.get("session"), str) or not session:
            return _json({"error": "a change is asked for with the session's name"}, 400)
        is_undo, message = request.url.path.endswith("/undo"), asked.get("message", "")
        if is_undo and asked.get("confirm") not in (session, session[-8:]):
            return _json({"error": "type the session's name, or the end of a long one, to confirm"}, 400)
        if not is_undo and (isinstance(message, bool) or not isinstance(message, int)):
            return _json({"error": "name the message by its number"}, 400)

        async def changed() -> Json:
            info = await self._known(session)
            change: Callable[..., Awaitable[object]] | None = self._undo if is_undo else self._pin
            if change is not None:
                made = await (change(session) if is_undo else change(session, message))
            else:  # of a session that is open nowhere
                async with self._opened(info, changes=True, read_only=False) as context:
                    made = await (context.undo_activation() if is_undo else context.pin(message))
            return {"undone": session} if is_undo else {"pinned": made}

        return await self._answer(changed())

    async def events(self, request: Request) -> Response:
        """Tell of every change, as server-sent events; the first comes at once."""

        async def changes() -> AsyncIterator[str]:
            told = None
            while True:
                version = "unreadable"  # then a request for the sessions tells what is wrong
                with suppress(StoreError):
                    version = await self._version()
                if version != told:
                    yield f"data: {(told := version)}\n\n"
                await asyncio.sleep(0.4)  # between two looks at the store

        return StreamingResponse(changes(), media_type="text/event-stream")

    async def _answer(self, reading: Awaitable[Json]) -> Response:
        async with self._looks:
            try:
                return _json(await reading)
            except SummarizingContextError as error:
                status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)
                return _json({"error": str(error)}, status)

    async def _page(self, what: str, query: Mapping[str, str]) -> Json:

        def number(name: str) -> int:
            text = query.get(name, "")
            return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0

        if what == "sessions":
            return await self._sessions()
        if what not in ("session", "ledger", "messages", "block", "activation", "search", "undo"):
            raise NodeNotFoundError("there is no such page")
        info = await self._known(query.get("id", ""))
        session_id, start, stop = info["session_id"], number("start"), number("stop")
        given = self._settings
        counter = await choose_counter(given.token_counter, allow_download=given.allow_download, silent=True)
        price = Price(counter.count, given.image_tokens)  # as the session below counts, and the commands do
        async with self._opened(info, changes=what == "undo") as context:
            if what == "undo":  # what it would come to
                return (await context.undo_outlook())._asdict()
            budget, records = info["budget"] or context.budget().max_tokens, context.activations()
            view = await context.get_messages_for_request(10**9 if records else budget)  # a look activates nothing
            log = await context.get_messages()

            if what == "session":  # its log, its segments, the blocks of the header, and what is sent next
                nodes = context.explain()
                last, figures, plan = context.last_view, context.statistics(), await context.plan()
                numbered = reversed([*enumerate(log)])  # of messages that say the same, the first
                places = {(message["role"], *message_text_parts(message)): at for at, message in numbered}
                size = price if len(log) <= _BINS else price._replace(count=estimate_text)  # which is quicker
                failure = None
                if figures.last_error_at is not None and figures.summaries_ready != figures.segments:
                    failure = f"Making summaries failed last at {figures.last_error_at}: {figures.last_error}"
                covered = records[-1].covered_to if records else max((node.stop for node in nodes), default=0)
                return {
                    "session": session_id,
                    "title": info["title"],
                    "messages": len(log),
                    "history_tokens": figures.history_tokens,
                    "budget": info["budget"] or (records[-1].budget if records else budget),
                    "view_tokens": 0 if last is None else last.tokens + last.fixed_tokens,
                    "summaries_ready": figures.summaries_ready,
                    "covered": covered,
                    "log": _bins(log, [size.message(message) for message in log]),
                    "segments": [_block(node) for node in context.summaries()],
                    "blocks": [_block(node) for node in nodes],
                    "view": [
                        _row(message, part, places.get((message["role"], *message_text_parts(message))), price)
                        for message, part in zip(view, view_parts(view, log), strict=True)
                    ],
                    "activations": [self._record(record) for record in reversed(records)],
                    "rules": [rule._asdict() for rule in context.standing_rules()],
                    "plan": None if plan is None else asdict(plan),
                    "failed": figures.summaries_failed,
                    "cache": self._cache(session_id),
                    "failure": failure,
                }

            if what == "ledger":  # paths, commands, errors and the like, the newest first
                return {"facts": [fact._asdict() for fact in reversed(context.ledger())][:2_000]}
            if what == "search":  # messages and summaries that hold the words, the best first
                hits = await context.search(query.get("query", "")[:500], limit=30)
                return {"hits": [asdict(hit) for hit in hits]}

            if what == "block":  # of the header, or a segment's own summary, as it stands now
                is_segment = query.get("of") == "segments"
                for node in context.summaries() if is_segment else context.explain():
                    if (node.start, node.stop) == (start, stop):
                        return _block(node, whole=True)
                called = "segment" if is_segment else "summary in the view"
                raise NodeNotFoundError(f"there is no {called} of messages {start} to {stop - 1} any longer")

            if what == "messages":  # word for word: up to 60, or about a million characters
                rows = list[Json]()
                for at in range(start, min(stop, len(log), start + 60)):
                    rows.append(_row(log[at], "log", at, price, most=10**9))
                    if sum(len(row["text"]) for row in rows) > 1_000_000:
                        break
                return {"messages": rows, "next": end if (end := start + len(rows)) < min(stop, len(log)) else None}

            # one activation: the messages that left the view, and the blocks that stand for the past since; None where
            # the store keeps them no longer, or the log was replaced since
            record = next((one for one in records if one.number == number("number")), None)
            if record is None:
                raise NodeNotFoundError(f"session {session_id} has no activation {number('number')}")
            since = await context.header_since(record.number)
            left = () if since is None else range(record.covered_from, min(record.covered_to, len(log)))
            return {
                **self._record(record),
                "left": [_row(log[at], "log", at, price) for at in left],
                "blocks": None if since is None else [_block(node, whole=True) for node in since],
            }

    async def _sessions(self) -> Json:
        """Return all sessions, the newest change first, with what their summaries cost."""
        async with opened_store(self._store, read_only=True) as store:
            found = await store.sessions()
        price = load_models(self._settings.prices).price_of(self._settings.model)
        sessions = []
        for info in found:
            cost = None if price is None else price.cost(info.input_tokens, info.output_tokens)
            sessions.append({**asdict(info), "cost": 0.0 if info.input_tokens == 0 else cost})
        return {"store": store.name, "sessions": sessions}

    async def _known(self, session_id: str) -> Json:
        found = (await self._sessions())["sessions"]
        if info := next((dict(one) for one in found if one["session_id"] == session_id), None):
            return info
        raise NodeNotFoundError(f"the store holds no session {session_id!r:.60}")

    async def _version(self) -> str:
        """Return what differs once anything was committed; an open connection would leave files beside the store."""
        if "://" in str(self._store):  # of a server
            return hashlib.sha256(json.dumps(await self._sessions()).encode()).hexdigest()
        stamps = []
        for file in (Path(self._store), Path(f"{self._store}-wal")):
            with suppress(OSError):
                status = file.stat()
                stamps.append(f"{status.st_ino}.{status.st_size}.{status.st_mtime_ns}")
        return "/".join(stamps)

    def _record(self, record: ActivationRecord) -> Json:
        """Return a record, with the tokens that its view had to send outside of the prompt cache."""
        sent = max(0, record.tokens_after - record.prefix_kept)
        return {**record._asdict(), "why": record.why, "resent": sent}

    @asynccontextmanager
    async def _opened(
        self, info: Json, *, changes: bool = False, read_only: bool = True
    ) -> AsyncIterator[SummarizingContext]:
        session_id = info["session_id"]
        settings = replace(self._settings, store=str(self._store), session_id=session_id, project=info["project"])
        count = None
        if changes:  # within the budget of its last request, as it counts its tokens, and no model is called
            settings = replace(settings, summarizer="extractive", max_tokens=info["budget"] or settings.max_tokens)
            async with opened_store(self._store, read_only=True) as store:
                stored = await store.load(session_id)
            for _, state in [] if stored is None else stored.activations:
                with suppress(StoreCorruptError):
                    count = TokenCounter(decode_state(state).counter, estimate_text)
        async with open_context(settings, count_tokens=count, read_only=read_only) as context:
            yield context


def _json(value: Json, status: int = 200) -> Response:
    """As ASCII, so that halves of characters in a transcript can be sent too."""
    return Response(json.dumps(value), status_code=status, media_type="application/json")


def _bins(log: Sequence[Json], sizes: Sequence[int]) -> list[Json]:
    """Return the log as runs of messages: one a message, or, of a long log, `_BINS` of about equal tokens."""
    step = sum(sizes) / _BINS if len(log) > _BINS else 0
    found: list[Json] = []
    for at, (message, size) in enumerate(zip(log, sizes, strict=True)):
        if found and found[-1]["tokens"] + size <= step:
            found[-1] |= {"stop": at + 1, "tokens": found[-1]["tokens"] + size}
        else:
            found.append({"start": at, "stop": at + 1, "tokens": size, "kind": _kind(message)})
    return found


def _kind(message: Json) -> str:
    """Return who speaks: user, assistant, system, or tool for a result."""
    said = "tool" if any(part.kind == "result" for part in read_message(message).parts) else str(message.get("role"))
    return {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}.get(said, "tool")


def _row(message: Json, part: str, at: int | None, price: Price, *, most: int = 220) -> Json:
    """Return a message of a list: the beginning of all that it says, and where it stands in the log."""
    told = []
    for said in read_message(message).parts:
        words = f"→ {said.name} " if said.kind == "call" else ""
        words += "\n".join(said.texts)
        told.append(words or (f"[{len(said.media)} image or file]" if said.media else ""))
    text, most = "\n".join(told), 8_000 if part == "header" else most
    return {
        "part": part,
        "kind": _kind(message),
        "role": str(message.get("role"))[:40],
        "message": at,
        "tokens": price.message(message),
        "text": text[:most],
        "left": max(0, len(text) - most),  # characters
    }


def _block(node: HeaderNode, *, whole: bool = False) -> Json:
    names = ("name", "start", "stop", "rank", "form", "made_by", *(["text"] if whole else []))
    return {**{name: getattr(node, name) for name in names}, "tokens": node.tokens or estimate_text(node.text)}


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

    def admits(self, scope: Scope) -> tuple[bool, str | None]:
        """Return whether a request is let in, and the cookie to set for a link that was not opened before."""
        asked = HTTPConnection(scope)
        if secrets.compare_digest(asked.cookies.get(_COOKIE, "").encode(), self._cookie.encode()):
            return True, None
        given = asked.query_params.get("key", "").encode()
        for key in list(self._keys):
            if scope["method"] == "GET" and secrets.compare_digest(given, key.encode()):
                self._keys.remove(key)
                return True, f"{_COOKIE}={self._cookie}; HttpOnly; SameSite=Strict; Path={scope.get('root_path', '')}/"
        return False, None


def guarded(app: ASGIApp, *, checks_host: bool, access: Access | None) -> ASGIApp:
    """Refuse requests of other origins and under other names, and add the headers above to every answer. Without
    `checks_host`, an application around this one has looked at the header Host, without `access` at who asks."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)

        given, status = Headers(scope=scope), 403
        opens_page = scope["method"] == "GET" and given.get("sec-fetch-dest") == "document"
        reason = refusal(given, checks_host=checks_host, opens_page=opens_page)
        cookie: str | None = None
        if reason is None and access is not None:
            is_admitted, cookie = access.admits(scope)
            reason, status = None if is_admitted else _NO_LINK, 401

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if cookie is not None:
                    headers.append("Set-Cookie", cookie)
            await send(message)

        answer = app if reason is None else JSONResponse({"error": reason}, status_code=status)
        return await answer(scope, receive, send_guarded)

    return guard


def refusal(headers: Headers, *, checks_host: bool, opens_page: bool = False) -> str | None:
    """Return why a request is refused: under a name that is not this machine's, a page could reach the loopback by a
    name of its own (DNS rebinding), and pages of other servers may only open ours. None where it is not."""
    host, is_local = headers.get("host", "").lower(), False
    with suppress(ValueError):
        name = urlsplit(f"//{host}").hostname or ""
        is_local = name == "localhost" or ip_address(name).is_loopback
    if checks_host and not is_local:
        return "the header Host names no address of this machine; ask at its own, such as http://127.0.0.1:PORT/"
    if any(origin.lower() not in (f"http://{host}", f"https://{host}") for origin in headers.getlist("origin")):
        return "requests from pages of other origins are refused"
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not opens_page:
        return "pages of other sites may not ask"
    return None


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a loopback address; port 0 takes a free one.

    Raise `SettingsError` for other addresses: the page would be sent in clear. Raise `StoreError` if it is taken.
    """
    if not ip_address(host).is_loopback:
        raise SettingsError(
            f"{host} is open to other machines, and the inspector does not encrypt; "
            "listen on 127.0.0.1, and reach it from elsewhere through an SSH tunnel"
        )
    return listening_socket(host, port)


async def serve(app: Starlette, listening: socket.socket, access: Access | None = None) -> None:
    """Serve until the process gets a signal to stop, which takes two seconds at most; with `access`, in its folder."""
    if access is not None:
        app = Starlette(routes=[Mount(f"/{access.folder}", app)])
    await serve_until_ended(app, listening)
