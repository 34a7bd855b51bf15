"""The proxy's application: who may ask, which requests get a view, and what becomes of their replies.

Programs that know the token may ask, and never a page that a browser has open, but for the inspector's own. Without a
token, a page could reach the loopback under a name of its own (DNS rebinding), so the header Host must name an address.

A client's request is only ever changed by a view that was made to its end. Whatever fails before that is logged by its
kind alone, and the request goes on as it came.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from summarizing_context.errors import SettingsError, briefly
from summarizing_context.inspector.guard import Access, is_local, is_own
from summarizing_context.proxy.dialects.anthropic import Anthropic
from summarizing_context.proxy.dialects.base import Dialect, PassUnchanged
from summarizing_context.proxy.dialects.openai import Chat, Responses
from summarizing_context.proxy.feed import Feed, UsageReader
from summarizing_context.proxy.rewriter import LoneMessage, Rewriter, Rewritten
from summarizing_context.proxy.upstream import TOKEN_HEADER, Headers, Upstream, passed_on, refusal, target_of
from summarizing_context.proxy.wire import Body, ClientGone, Reply, SlowBody, reply_error, unpacked
from summarizing_context.stores.private_files import checked_token
from summarizing_context.summarizers.provider_window import BINDING_BETA

logger = logging.getLogger("summarizing_context.proxy")

MOST_BYTES = 64_000_000  # of a body that a view is made for; longer ones go on as they come
_WITHIN = 30.0  # seconds in which a view has to be there

Made = TypeVar("Made")

_LEAST_BUDGET = b"x-summarizing-context-least-budget"  # of a reply: the tokens that would do for this client
_FOLDER = "/token/"  # in front of a path, the token of clients that can set no header: /token/<token>/v1/...

_NO_TOKEN = (
    "this proxy answers its user alone: the base URL has to hold its token, as in http://127.0.0.1:8377/token/TOKEN. "
    "The proxy printed it at its start; `proxy run` and `proxy enable` set it for clients"
)

_NO_PAGE = ((b"content-security-policy", b"sandbox; default-src 'none'"), (b"x-content-type-options", b"nosniff"))
_COUNT = "/messages/count_tokens"
_ANTHROPIC = Anthropic()

_DIALECTS: dict[str, Dialect] = {  # by the path behind the version
    "/messages": _ANTHROPIC,
    _COUNT: _ANTHROPIC,
    "/chat/completions": Chat(),
    "/responses": Responses(),
}


class Refused(Exception):
    """A request that goes no further; with the status of the answer and its words."""


class Guard:
    """Refuses requests. Raises `SettingsError` where others could ask and no token keeps them out.

    Paths that begin with `pages` need no token: those of the inspector, which has a guard of its own.
    """

    def __init__(self, host: str, token: str | None, pages: str) -> None:
        self._token, self._pages = token, pages
        if token is None and not ip_address(host).is_loopback:
            raise SettingsError(f"{host} is open to other machines; set --token, or listen on 127.0.0.1")
        if token is not None:
            checked_token(token)

    def admitted(self, scope: Scope) -> Scope:
        """Return what is asked for, without the token in its path. Raises `Refused`."""
        path: str = scope["path"]
        raw_path: bytes = scope.get("raw_path") or path.encode()
        if not raw_path.startswith(b"/"):
            raise Refused(400, "this is no proxy for other hosts; set it as the base URL of a client")
        if b"#" in raw_path + scope.get("query_string", b""):
            raise Refused(400, "an address that is asked for has no fragment")
        segments = unquote_to_bytes(raw_path).replace(b"\\", b"/").split(b"/")
        if b"." in segments or b".." in segments:
            raise Refused(400, "an address has no segments of dots")
        if path.startswith(self._pages):
            return {**scope, "raw_path": raw_path}
        # The token, in a header or in the path.
        given = {name: value.decode("latin-1") for name, value in scope["headers"]}
        told = given.get(TOKEN_HEADER, "")
        if path.startswith(_FOLDER):
            told, _, rest = path.removeprefix(_FOLDER).partition("/")
            folder = f"{_FOLDER}{told}".encode()
            if not raw_path.startswith(folder):  # else a part of the token would stay in the address
                raise Refused(400, "the token is written with escapes; write it plainly")
            path, raw_path = f"/{rest}", raw_path[len(folder) :] or b"/"
        if f"{path}/".startswith("/inspect/"):
            raise Refused(401, "the inspector opens by a link; `summarizing-context proxy status` prints one")
        if self._token is not None and not hmac.compare_digest(told.encode(), self._token.encode()):
            raise Refused(401, _NO_TOKEN)
        # A request that a page makes is known by its Origin, and one that opens a page by its Sec-Fetch headers.
        host = given.get(b"host", "")
        if self._token is None and not is_local(host):
            raise Refused(403, "the header Host has to name this machine, such as 127.0.0.1")
        if given.get(b"sec-fetch-mode") == "navigate" or given.get(b"sec-fetch-dest", "empty") != "empty":
            raise Refused(403, "this is no page: it answers programs, and a browser may open the inspector alone")
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        is_foreign = given.get(b"sec-fetch-site", "none") not in ("none", "same-origin")
        if is_foreign or not all(is_own(origin, host) for origin in origins):
            raise Refused(403, "pages of other origins may not ask")
        return {**scope, "path": path, "raw_path": raw_path}


class Passage:
    """Takes every request that is not the proxy's own to its provider. An ASGI application."""

    def __init__(self, rewriter: Rewriter, upstream: Upstream, feed: Feed, *, shadow: bool) -> None:
        self._rewriter = rewriter
        self._upstream = upstream
        self._feed = feed
        self._shadow = shadow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on until it is answered, or until the client has hung up."""
        body = Body(receive)
        try:
            await body.read(MOST_BYTES)
        except SlowBody:
            return await reply_error(send, 408, "the request did not come to its end in time")
        except ClientGone:
            return None

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        tasks = [asyncio.ensure_future(self._pass(scope, body, send))]
        tasks += [asyncio.ensure_future(gone())] if body.is_whole else []
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                await tasks[0]
            return None
        except asyncio.CancelledError:  # the proxy ends
            await _cancelled(tasks)
            with contextlib.suppress(RuntimeError):  # a reply has begun, and is cut off
                await reply_error(send, 503, "the proxy was told to end; ask again")
            raise
        finally:
            await _cancelled(tasks)

    async def _pass(self, scope: Scope, body: Body, send: Send) -> None:
        """Ask the provider, once more where it finds a view too long, and pass its answer on."""
        headers: Headers = list(scope["headers"])
        if (refused := refusal(scope["method"], scope["path"], scope["query_string"], headers)) is not None:
            if refused[0] == 404:
                self._feed.notice("Google", f"answered with 404: {refused[1]}")
            return await reply_error(send, *refused)
        target = target_of(scope["raw_path"], scope["query_string"], headers)
        made = await self._rewritten(scope, body, headers) if body.is_whole else None

        async def ask(asked: Rewritten | LoneMessage | None) -> Reply:
            """Send what was made of the request, or the request as it came."""
            if not body.is_whole:
                return Reply(await self._upstream.send(scope["method"], target, passed_on(headers), body.pieces()))
            is_ours = isinstance(asked, LoneMessage) or (asked is not None and asked.record.changed)
            data = asked.body if asked is not None and is_ours else body.data
            own = (b"content-length", *([b"content-encoding"] if data is not body.data else []))  # ours is plain
            given = passed_on(headers, but=own)
            if any(name in (b"content-length", b"transfer-encoding") for name, _ in headers):
                given.append((b"content-length", str(len(data)).encode()))
            if isinstance(asked, Rewritten) and asked.drops_thinking:
                betas = [value for name, value in given if name == b"anthropic-beta" and value]
                given = [(name, value) for name, value in given if name != b"anthropic-beta"]
                given.append((b"anthropic-beta", b",".join([*betas, BINDING_BETA.encode()])))
            return Reply(await self._upstream.send(scope["method"], target, given, data))

        try:
            sent = None if self._shadow else made
            reply = await ask(sent)
            try:
                if sent is not None and (error := await reply.error()) is not None:
                    again = await self._guarded(self._rewriter.shorter(sent, reply.status, error))
                    if again is not None:
                        await reply.aclose()
                        reply, made = await ask(again), again
                        if reply.status in (400, 413) and isinstance(again, Rewritten):
                            self._rewriter.was_not_too_long(again)
                await self._answered(reply, made, send)
            finally:
                await reply.aclose()
        except (httpx2.HTTPError, SlowBody, ClientGone) as error:
            logger.info("a request was not answered", extra={"cause": type(error).__name__})
            if isinstance(made, Rewritten) and not made.record.status:
                self._feed.add(made.record)
            is_there = not isinstance(error, httpx2.ConnectError)
            words = "the provider broke off" if is_there else "the provider cannot be reached"
            with contextlib.suppress(RuntimeError):  # a reply has begun: the server cuts the connection
                await reply_error(send, 502, f"{words} ({type(error).__name__})")

    async def _rewritten(self, scope: Scope, body: Body, headers: Headers) -> Rewritten | LoneMessage | None:
        """Return the request with a view, or a lone message as it is; None for all else, which goes on as it came."""
        path = scope["path"].removeprefix("/v1")
        dialect = _DIALECTS.get(path)
        if scope["method"] != "POST" or dialect is None:
            return None
        began = time.perf_counter()
        coding = b",".join(value for name, value in headers if name == b"content-encoding").decode("latin-1").lower()
        data: bytes | None = body.data
        if coding.strip() not in ("", "identity"):
            data = await asyncio.to_thread(unpacked, body.data, coding.strip(), MOST_BYTES)
        if data is None:
            self._feed.passed_unchanged += 1
            words = f"request bodies coded as {briefly(coding)} cannot be read, and go on without a view"
            self._feed.notice(f"coding {coding}", f"{words}; let the client send them plain, or coded as gzip")
            return None
        rewritten = await self._guarded(self._rewriter.rewrite(dialect, data, headers, counts=path == _COUNT))
        if isinstance(rewritten, Rewritten):
            rewritten.record.own_ms = (time.perf_counter() - began) * 1_000
        self._feed.passed_unchanged += isinstance(rewritten, LoneMessage)
        return rewritten

    async def _guarded(self, work: Awaitable[Made]) -> Made | None:
        """Return what the work makes; None where it fails or takes too long, which costs the client nothing else."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # of a late one asyncio tells nothing
        try:
            return await asyncio.wait_for(asyncio.shield(task), _WITHIN)
        except PassUnchanged:
            self._feed.passed_unchanged += 1
        except Exception as error:
            self._feed.failed("a request went on unchanged", error)
        return None

    async def _answered(self, reply: Reply, made: Rewritten | LoneMessage | None, send: Send) -> None:
        """Pass a reply on, and note what it tells of usage: whatever fails in that holds it up nowhere."""
        if not isinstance(made, Rewritten):
            return await reply.pass_on(send, lambda piece: None)
        reader = UsageReader(reply.headers.get("content-type", ""), packed="content-encoding" in reply.headers)
        record = made.record
        record.status = reply.status

        def beside(work: Callable[..., Made], *given: Any) -> Made | None:
            try:
                return work(*given)
            except Exception as error:
                self._feed.failed("a reply was not looked at", error)
                return None

        told = [] if record.least_budget is None else [(_LEAST_BUDGET, str(record.least_budget).encode())]
        try:
            await reply.pass_on(send, lambda piece: beside(reader.feed, piece), told)
        finally:
            record.usage = beside(reader.usage)
            beside(self._feed.add, record)
        if record.usage is not None and not self._shadow:
            await self._guarded(self._rewriter.observe(record, record.usage))
        return None


def build_app(
    rewriter: Rewriter,
    upstream: Upstream,
    feed: Feed,
    guard: Guard,
    *,
    shadow: bool = False,
    inspector: ASGIApp | None = None,
    access: Access,
) -> ASGIApp:
    """The application: `/_status`, the inspector where there is one, and the passage for all else."""
    pages = f"/inspect/{access.folder}"

    async def status(request: Request) -> JSONResponse:
        after = request.query_params.get("after", "0")
        told = feed.status(int(after) if re.fullmatch(r"[0-9]{1,15}", after) else 0)
        if inspector is not None and "link" in request.query_params:
            told["inspector"] = access.link(str(request.base_url.replace(path=pages)))
        return JSONResponse(told)

    @asynccontextmanager
    async def lifespan(_app: Any) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(out_of_descriptors)
        async with upstream:
            yield
            await rewriter.close()
        loop.set_exception_handler(None)

    def out_of_descriptors(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Tell once that no connection can be taken. asyncio, which tries again in a second, would tell each time."""
        error = context.get("exception")
        if "socket" in context and isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            words = (
                f"no more connections can be taken for now ({os.strerror(error.errno)}); clients wait. Raise the limit"
            )
            feed.notice("descriptors", f"{words} of open files with ulimit -n, or run fewer clients at once")
        else:
            loop.default_exception_handler(context)

    routes = [Route("/_status", status), *([Mount(pages, inspector)] if inspector is not None else [])]
    own = Starlette(routes=routes, lifespan=lifespan)
    passage = Passage(rewriter, upstream, feed, shadow=shadow)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_without_scripts(message: Message) -> None:
            """Let no browser run what a provider answers: it would be a page of the inspector's origin."""
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_NO_PAGE]}
            await send(message)

        if scope["type"] != "http":
            return await own(scope, receive, send)
        try:
            scope = guard.admitted(scope)
        except Refused as error:
            return await reply_error(send, *error.args)
        if scope["path"] == "/_status" or scope["path"].startswith(f"{pages}/"):
            return await own(scope, receive, send)
        return await passage(scope, receive, send_without_scripts)

    return app


async def _cancelled(tasks: Sequence[asyncio.Future[None]]) -> None:
    """Cancel what is not done, and wait until it has ended."""
    for task in tasks:
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
