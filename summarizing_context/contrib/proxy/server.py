"""The proxy: who may ask, which requests get a view, what becomes of their replies, and the server around all that.

Programs that know the token may ask, and never a page that a browser has open, but for the inspector's own.

Whatever fails before a view is made to its end is logged by its kind alone, and the request goes on as it came.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import re
import signal
import socket
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import anyio

from summarizing_context.adapters.open_sessions import BINDING_BETA
from summarizing_context.errors import MissingExtraError, SettingsError, briefly

try:
    import httpx2
    from starlette.applications import Starlette
    from starlette.datastructures import Headers as StarletteHeaders
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import BaseRoute, Mount, Route
    from starlette.types import ASGIApp, Receive, Scope, Send

    from summarizing_context.contrib.serving import Server, address_of, bound_socket, end_process_in_time
except ImportError as error:
    raise MissingExtraError("proxy", "the proxy needs starlette, uvicorn and httpx2") from error

from summarizing_context.contrib.inspector import inspector_app, refusal
from summarizing_context.contrib.proxy.dialects import Anthropic, Chat, Dialect, PassUnchanged, Plugin, Responses
from summarizing_context.contrib.proxy.rewriter import ANTHROPIC, OPENAI, Rewriter, Rewritten
from summarizing_context.contrib.proxy.rewriter import ProxySettings as ProxySettings
from summarizing_context.contrib.proxy.upstream import TOKEN_HEADER, Headers, Reply, passed_on
from summarizing_context.stores.private_files import checked_token

logger = logging.getLogger("summarizing_context.proxy")

MAX_BYTES = 64_000_000  # of a body that a view is made for; longer ones go on as they came
VIEW_WITHIN = 30.0  # seconds in which a view has to be there

Made = TypeVar("Made")

_FOLDER = "/token/"  # in front of a path, the token of clients that can set no header: /token/<token>/v1/...

_GOOGLE = (
    "a request of Google's protocol, which is not spoken here; it was sent to no provider. Take the proxy's "
    "address out of the client's base URL for Google, such as GOOGLE_GEMINI_BASE_URL"
)

_GOOGLES_PATH = re.compile(r"^/(?:upload/)?v\d+(?:alpha|beta|internal)|:[a-zA-Z]*(?:Contents?|Tokens|[pP]redict)$")

# Of what a provider answers, no browser may run a script: it would be a page of the inspector's origin.
_NO_PAGE = [(b"content-security-policy", b"sandbox; default-src 'none'"), (b"x-content-type-options", b"nosniff")]

_DIALECTS: dict[str, Dialect] = {  # by the path behind the version
    "/messages": Anthropic(),
    "/chat/completions": Chat(),
    "/responses": Responses(),
}


class Refused(Exception):
    """A request that goes no further; with the status of the answer and its words."""


def admitted(scope: Scope, token: str | None, pages: str) -> Scope:
    """Return what is asked for, without the token in its path. Raise `Refused`. Paths that begin with `pages` need no
    token: those of the inspector, which has a guard of its own."""
    path: str = scope["path"]
    raw_path: bytes = scope.get("raw_path") or path.encode()
    query: bytes = scope.get("query_string", b"")
    if not raw_path.startswith(b"/"):
        raise Refused(400, "this is no proxy for other hosts; set it as the base URL of a client")
    if b"#" in raw_path + query:
        raise Refused(400, "a requested address has no fragment")
    segments = unquote_to_bytes(raw_path).replace(b"\\", b"/").split(b"/")
    if b"." in segments or b".." in segments:
        raise Refused(400, "an address has no segments of dots")
    if path.startswith(pages):
        return {**scope, "raw_path": raw_path}

    # The token, in a header or in the path.
    given = StarletteHeaders(scope=scope)
    told = given.get(TOKEN_HEADER.decode(), "")
    if path.startswith(_FOLDER):
        told, _, rest = path.removeprefix(_FOLDER).partition("/")
        folder = f"{_FOLDER}{told}".encode()
        if not raw_path.startswith(folder):  # else a part of the token would stay in the address
            raise Refused(400, "the token is written with escapes; write it plainly")
        path, raw_path = f"/{rest}", raw_path[len(folder) :] or b"/"
    if f"{path}/".startswith("/inspect/"):
        raise Refused(401, "the inspector opens by a link; `summarizing-context proxy status` prints one")
    if token is not None and not hmac.compare_digest(told.encode(), token.encode()):
        at = given.get("host", "127.0.0.1:8377")
        said = f"this proxy answers its user alone: the base URL has to hold its token, as in http://{at}/token/TOKEN. "
        kept = "the file proxy-token of ~/.config/summarizing-context; `proxy run` sets it for clients"
        raise Refused(401, f"{said}The proxy printed it at its start, and keeps it in {kept}")

    # A request that a page makes is known by its Origin, and one that opens a page by its Sec-Fetch headers.
    if given.get("sec-fetch-mode") == "navigate" or given.get("sec-fetch-dest", "empty") != "empty":
        raise Refused(403, "this is no page: it answers programs, and a browser may open the inspector alone")
    if (reason := refusal(given, checks_host=token is None)) is not None:
        raise Refused(403, reason)

    # What is spoken here. Of Anthropic's paths the server, a gateway perhaps, may ask for headers of Google's too.
    is_anthropics = path.startswith(("/v1/messages", "/messages"))
    asks_google = not is_anthropics and any(name.startswith("x-goog-") for name in given)
    if asks_google or _GOOGLES_PATH.search(path) or b"&key=AIza" in b"&" + query:
        raise Refused(404, _GOOGLE)
    if scope["method"] == "GET" and "websocket" in given.get("upgrade", "").lower():
        raise Refused(426, "WebSockets are not supported; send the same by POST, whose reply may be a stream of events")
    return {**scope, "path": path, "raw_path": raw_path}


@dataclass(frozen=True)
class Passage:
    """Takes every request that is not the proxy's own to its provider. An ASGI application."""

    _rewriter: Rewriter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on until it is answered, or until the client has hung up."""
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            return
        try:
            async with anyio.create_task_group() as passing:

                async def hang_up() -> None:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    passing.cancel_scope.cancel()

                passing.start_soon(hang_up)
                await self._pass(scope, receive, send, body)
                passing.cancel_scope.cancel()
        except asyncio.CancelledError:  # the proxy ends
            with suppress(RuntimeError):  # a reply has begun, and is cut off
                await own_error(503, "the proxy is ending; ask again")(scope, receive, send)
            raise

    async def _pass(self, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        """Ask the provider, once more where it finds a view too long; pass its answer on, and note what it took."""
        headers: Headers = list(scope["headers"])
        path = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")

        # with a view, where one can be made
        made: Rewritten | None = None
        dialect = _DIALECTS.get(scope["path"].removeprefix("/v1"))
        if scope["method"] == "POST" and dialect is not None and len(body) <= MAX_BYTES:
            coding = StarletteHeaders(scope=scope).get("content-encoding", "").lower()
            if coding.strip() not in ("", "identity"):
                self._rewriter.passed_unchanged += 1
                words = f"request bodies coded as {briefly(coding)} cannot be read, and go on without a view"
                self._rewriter.notice(f"coding {coding}", f"{words}; let the client send them plain")
            else:
                made = await self._guarded(self._rewriter.rewrite(dialect, body, headers))

        async def ask(view: Rewritten | None) -> Reply:
            """Send what was made of the request, or the request as it came."""
            given = [(name, value) for name, value in passed_on(headers) if name != b"content-length"]
            if view is not None and view.asked.drops_thinking:
                betas = [value for name, value in given if name == b"anthropic-beta" and value]
                given = [(name, value) for name, value in given if name != b"anthropic-beta"]
                given.append((b"anthropic-beta", b",".join([*betas, BINDING_BETA.encode()])))
            data = body if view is None else view.body
            return await self._rewriter.upstream.send(scope["method"], path, given, data)

        reply: Reply | None = None
        failure: httpx2.HTTPError | None = None
        try:
            sent = None if self._rewriter.proxy.shadow else made
            reply = await ask(sent)
            if sent is not None and (error := await reply.error()) is not None:
                again = await self._guarded(self._rewriter.shorter(sent, reply.status, error))
                if again is not None:
                    await reply.aclose()
                    reply, made = await ask(again), again
                    if await reply.error() is not None:  # shorter, and refused: something else is wrong with it
                        again.known.ceilings.pop(again.record.model, None)
            more = [*_NO_PAGE]
            if made is not None:
                made.record.status = reply.status
                if (least := made.record.least_budget) is not None:  # the tokens that would do for this client
                    more.append((b"x-summarizing-context-least-budget", str(least).encode()))
            await reply.pass_on(send, more)
        except httpx2.HTTPError as error:
            failure = error
        finally:
            if made is not None and (made.record.status or failure):  # else the client has hung up before
                made.record.usage = None if reply is None else reply.usage
                self._rewriter.add(made)
            if reply is not None:
                await reply.aclose()
        if failure is not None:
            kind, at = type(failure).__name__, failure.request.url.netloc.decode()
            logger.info("a request was not answered", extra={"cause": kind})
            words = f"{at} {'cannot be reached' if kind.startswith('Connect') else 'broke off'} ({kind})"
            with suppress(RuntimeError):  # a reply has begun: the server cuts the connection
                await own_error(502, f"the provider at {words}")(scope, receive, send)
        if made is not None:
            await self._guarded(self._rewriter.observe(made))

    async def view(self, request: Request) -> Response:
        """Answer a plug-in with the view of its client's history; with 204 where that is to stay as it is."""
        body = await request.body()
        if len(body) > MAX_BYTES:
            return Response(status_code=413)
        made = await self._guarded(self._rewriter.rewrite(Plugin(), body, list(request.headers.raw)))
        if made is not None:
            made.record.status = 200 if made.record.changed else 204
            self._rewriter.add(made)
        if made is None or self._rewriter.proxy.shadow or not made.record.changed:
            return Response(status_code=204)
        return Response(made.body, media_type="application/json")

    async def _guarded(self, work: Awaitable[Made]) -> Made | None:
        """Return what the work makes; None where it fails or takes too long, which costs the client nothing else."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # of a late one asyncio tells nothing
        try:
            return await asyncio.wait_for(asyncio.shield(task), VIEW_WITHIN)
        except PassUnchanged:
            self._rewriter.passed_unchanged += 1
        except Exception as error:
            self._rewriter.failed("a request went on unchanged", error)
        return None


def make_app(proxy: ProxySettings, host: str) -> ASGIApp:
    """Return the application for a server that listens on `host`: `/_status`, the inspector where the store is one that
    it can read, and the passage for all else. Raise `SettingsError`."""
    for name in ("httpx2", "httpcore2"):  # they log addresses and headers, in which keys may stand
        logging.getLogger(name).setLevel(logging.WARNING)
    is_loopback = ip_address(host).is_loopback
    if proxy.token is not None:
        checked_token(proxy.token)
    elif not is_loopback:
        raise SettingsError(f"{host} is open to other machines; set --token, or listen on 127.0.0.1")
    if proxy.budget is not None and proxy.budget < 1_000:
        raise SettingsError(
            f"--budget {proxy.budget:,} is too small for any client: at least 1,000 tokens, of which the "
            "client's system prompt and tools take their part; leave it out for the window of each model"
        )
    if proxy.shadow:
        proxy = replace(proxy, lends=False, settings=replace(proxy.settings, summarizer="extractive"))
    settings, servers = proxy.settings, {"anthropic": proxy.anthropic, "openai": proxy.openai}
    if settings.base_url is None and servers.get(settings.summarizer, "") not in ("", ANTHROPIC, OPENAI):
        settings = replace(settings, base_url=servers[settings.summarizer])  # summaries go to no other server
        proxy = replace(proxy, settings=settings)
    rewriter = Rewriter(proxy)
    pages = f"/inspect/{proxy.access.folder}"
    has_pages = str(settings.store) != ":memory:"

    async def status(request: Request) -> JSONResponse:
        told = rewriter.status()
        if has_pages and "link" in request.query_params:
            told["inspector"] = proxy.access.link(str(request.base_url.replace(path=pages)))
        return JSONResponse(told)

    @asynccontextmanager
    async def lifespan(_app: Any) -> AsyncIterator[None]:
        await asyncio.to_thread(rewriter.models.price_of, "")  # the first look reads a large table
        async with rewriter.upstream.client:
            yield
            await rewriter.close()

    passage = Passage(rewriter)
    routes: list[BaseRoute] = [Route("/_status", status), Route("/_view", passage.view, methods=["POST"])]
    if has_pages:
        inspector = inspector_app(
            settings.store,
            settings=settings,
            undo=rewriter.undo,
            pin=rewriter.pin,
            checks_host=is_loopback,
            access=proxy.access,
            cache=rewriter.cache_of,
        )
        routes.append(Mount(pages, inspector))
    own = Starlette(routes=routes, lifespan=lifespan)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await own(scope, receive, send)
        try:
            scope = admitted(scope, proxy.token, f"{pages}/")
        except Refused as error:
            status, words = error.args
            if words == _GOOGLE:
                rewriter.notice("Google", f"answered with 404: {words}")
            return await own_error(status, words)(scope, receive, send)
        is_own = scope["path"] in ("/_status", "/_view") or scope["path"].startswith(f"{pages}/")
        return await (own if is_own else passage)(scope, receive, send)

    return app


def own_error(status: int, words: str) -> Response:
    """Return an error of the proxy's own, in the form in which both providers' clients read errors."""
    error = {"type": "proxy_error", "message": f"summarizing-context proxy: {words}", "code": None, "param": None}
    return JSONResponse({"type": "error", "error": error}, status)


# The server, and one command behind it.


@asynccontextmanager
async def serving(proxy: ProxySettings, listening: socket.socket) -> AsyncIterator[str]:
    """A server beside other work, by its address. Raises `SettingsError`."""
    server = Server(make_app(proxy, listening.getsockname()[0]))
    running = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        while not (server.started or running.done()):  # noqa: ASYNC110 - uvicorn tells no other way
            await asyncio.sleep(0.01)
        yield address_of(listening)
    finally:
        server.should_exit = True
        await running


def base_urls(address: str, token: str | None) -> dict[str, str]:
    """What clients read, for a proxy at this address."""
    address = address if token is None else f"{address}/token/{token}"
    return {"ANTHROPIC_BASE_URL": address, "OPENAI_BASE_URL": f"{address}/v1"}


async def run_behind(
    proxy: ProxySettings, command: Sequence[str], started: Callable[[str], None] = lambda _: None
) -> int:
    """Run the command with its base URLs at a proxy; its exit status. Raises `SettingsError` where it cannot start.
    `started` gets the address before the command runs. What interrupts this process alone is passed on to the command,
    and this process goes on until that ends."""
    token, is_codex = proxy.token or "", Path(command[0]).name == "codex"
    by_chatgpt = is_codex and codex_asks_chatgpt(token)
    if by_chatgpt and proxy.openai == OPENAI:
        proxy = replace(proxy, openai="https://chatgpt.com/backend-api/codex")
    with bound_socket("127.0.0.1", 0) as listening:
        async with serving(proxy, listening) as address:
            started(address)
            places = base_urls(address, proxy.token) | {TOKEN_VARIABLE: token}
            if is_codex:
                # The token goes by the environment: all users see arguments. To a provider that is called OpenAI, Codex
                # sends fields and headers that are documented nowhere; with a login of ChatGPT OpenAI answers.
                called = "OpenAI" if by_chatgpt else _CODEX_PROVIDER
                at, of_token = f"{address}/v1", f'{{ "{TOKEN_HEADER.decode()}" = "{TOKEN_VARIABLE}" }}'
                table = (
                    f'name = "{called}", base_url = "{at}", wire_api = "responses", requires_openai_auth = true, '
                    f"supports_websockets = false, env_http_headers = {of_token}"
                )
                own = [f"model_providers.{_CODEX_PROVIDER}={{ {table} }}", f"model_provider={_CODEX_PROVIDER}"]
                own += ["features.enable_request_compression=false"] if by_chatgpt else []  # views need the text
                command = [command[0], *(word for option in own for word in ("-c", option)), *command[1:]]
            process: asyncio.subprocess.Process | None = None
            early: list[int] = []  # signals that came before it had begun

            def send(number: int) -> None:
                if process is None:
                    early.append(number)
                else:
                    process.send_signal(number)

            def interrupt() -> None:
                with suppress(OSError), open("/dev/tty", "rb", buffering=0) as terminal:
                    if os.tcgetpgrp(terminal.fileno()) == os.getpgrp():
                        return  # Ctrl-C at this terminal reaches the command too
                send(signal.SIGINT)

            loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
            loop.add_signal_handler(signal.SIGINT, interrupt)
            loop.add_signal_handler(signal.SIGTERM, send, signal.SIGTERM)
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    env={**os.environ, **places},
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                )
                with suppress(ProcessLookupError):  # it has ended already
                    for number in early:
                        process.send_signal(number)
                status = await process.wait()
                status = status if status >= 0 else 128 - status  # as shells tell a signal
                end_process_in_time(status)
                return status
            except OSError as error:
                raise SettingsError(f"{briefly(command[0])} cannot be run: {error.strerror}") from error
            finally:
                signal.signal(signal.SIGINT, before)


# Codex reads no base URL from the environment, but its configuration alone. Measured with Codex 0.169 and 0.171:
# `OPENAI_BASE_URL` is ignored; `openai_base_url` and a table of `model_providers` count, in `config.toml` and by `-c`.
# A session is resumed with the provider's name that it began with, or not at all.

TOKEN_VARIABLE = "SUMMARIZING_CONTEXT_PROXY_TOKEN"
_CODEX_PROVIDER = "summarizing-context"


def codex_asks_chatgpt(token: str) -> bool:
    """Return whether Codex asks with a login of ChatGPT. Raise `SettingsError` where its files are broken, or name
    another provider than OpenAI, in whose place the proxy cannot stand."""
    folder = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    config, login = folder / "config.toml", folder / "auth.json"
    try:
        told = tomllib.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
        known = dict(json.loads(login.read_text(encoding="utf-8"))) if login.exists() else {}
    except (OSError, TypeError, ValueError) as error:
        raise SettingsError(f"the files of Codex in {folder} cannot be read: {error}") from error
    provider, base_url = told.get("model_provider", "openai"), told.get("openai_base_url")
    if provider not in ("openai", _CODEX_PROVIDER):
        raise SettingsError(f"{config}: model_provider is {provider!r}, and the proxy serves OpenAI only")
    if base_url is not None and f"/token/{token}/" not in str(base_url):
        raise SettingsError(f"{config}: openai_base_url is {base_url!r}; take it out, and name it by --openai instead")
    return bool(known.get("tokens")) and not known.get("OPENAI_API_KEY")
