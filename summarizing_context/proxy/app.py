"""The proxy's application: which requests get a view, and what becomes of their replies.

A client's request is only ever changed by a view that was made to its end. Whatever fails before that is logged by its
kind alone, and the request goes on as it came.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from summarizing_context.errors import briefly
from summarizing_context.inspector.guard import Access
from summarizing_context.proxy.access import Guard
from summarizing_context.proxy.dialects.anthropic import Anthropic
from summarizing_context.proxy.dialects.base import Dialect, PassUnchanged
from summarizing_context.proxy.dialects.openai import Chat, Responses
from summarizing_context.proxy.feed import Feed, Record, UsageReader
from summarizing_context.proxy.rewriter import LoneMessage, Rewriter, Rewritten
from summarizing_context.proxy.upstream import Headers, Target, Upstream, passed_on, refusal, target_of
from summarizing_context.proxy.wire import (
    Body,
    ClientGone,
    Reply,
    SlowBody,
    read_body,
    reply_error,
    rest_of,
    unpacked,
)

logger = logging.getLogger("summarizing_context.proxy")

MOST_BYTES = 64_000_000  # of a body that a view is made for; longer ones go on as they come

_WITHIN = 30.0  # seconds in which a view has to be there

Made = TypeVar("Made")

_LEAST_BUDGET = b"x-summarizing-context-least-budget"  # of a reply: the tokens that would do for this client

_NUMBER = re.compile(r"[0-9]{1,15}")

_ANTHROPIC, _CHAT, _RESPONSES = Anthropic(), Chat(), Responses()

_NO_PAGE = ((b"content-security-policy", b"sandbox; default-src 'none'"), (b"x-content-type-options", b"nosniff"))

_COUNT = "/messages/count_tokens"

_DIALECTS: dict[str, Dialect] = {  # by the path behind the version
    "/messages": _ANTHROPIC,
    _COUNT: _ANTHROPIC,
    "/chat/completions": _CHAT,
    "/responses": _RESPONSES,
}


class Passage:
    """Takes every request that is not the proxy's own to its provider. An ASGI application."""

    def __init__(self, rewriter: Rewriter, upstream: Upstream, feed: Feed, *, shadow: bool) -> None:
        self._rewriter = rewriter
        self._upstream = upstream
        self._feed = feed
        self._shadow = shadow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(receive, MOST_BYTES)
        except SlowBody:
            await reply_error(send, 408, "the request did not come to its end in time")
            return
        except ClientGone:
            return
        try:
            await self._pass_while_there(scope, body, receive, send)
        except asyncio.CancelledError:  # the proxy ends
            with contextlib.suppress(RuntimeError):  # a reply has begun, and is cut off
                await reply_error(send, 503, "the proxy was told to end; ask again")
            raise

    async def _pass_while_there(self, scope: Scope, body: Body, receive: Receive, send: Send) -> None:
        """Pass the request on until it is answered, or until the client has hung up."""
        passing = asyncio.ensure_future(self._pass(scope, body, receive, send))
        gone = asyncio.ensure_future(_gone(receive)) if body.is_whole else None
        try:
            await asyncio.wait([passing] if gone is None else [passing, gone], return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                await passing
        finally:
            for task in (passing, gone):
                if task is not None and not task.done():
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await task

    async def _pass(self, scope: Scope, body: Body, receive: Receive, send: Send) -> None:
        headers: Headers = list(scope["headers"])
        if (refused := refusal(scope["method"], scope["path"], scope["query_string"], headers)) is not None:
            if refused[0] == 404:
                self._feed.notice("Google", f"answered with 404: {refused[1]}")
            return await reply_error(send, *refused)
        target = target_of(scope["raw_path"], scope["query_string"], headers)
        rewritten = await self._rewritten(scope, body, headers) if body.is_whole else None
        try:
            await self._exchange(
                _Sent(scope["method"], target, headers, rewritten, body.data), rest_of(body, receive), body, send
            )
        except (httpx2.HTTPError, SlowBody, ClientGone) as error:
            logger.info("a request was not answered", extra={"cause": type(error).__name__})
            if isinstance(rewritten, Rewritten) and not rewritten.record.status:
                self._feed.add(rewritten.record)
            await _break_off(send, error)

    async def _rewritten(self, scope: Scope, body: Body, headers: Headers) -> Rewritten | LoneMessage | None:
        """The request with a view, or a lone message as it is; None for all else that goes on as it came."""
        path = scope["path"].removeprefix("/v1")
        dialect = _DIALECTS.get(path)
        if scope["method"] != "POST" or dialect is None:
            return None
        began = time.perf_counter()
        coded = b",".join(value for name, value in headers if name == b"content-encoding").decode("latin-1").lower()
        data: bytes | None = body.data
        if coded.strip() not in ("", "identity"):
            data = await asyncio.to_thread(unpacked, body.data, coded.strip(), MOST_BYTES)
        if data is None:
            self._feed.passed_unchanged += 1
            words = f"request bodies coded as {briefly(coded)} cannot be read, and go on without a view"
            self._feed.notice(f"coding {coded}", f"{words}; let the client send them plain, or coded as gzip")
            return None
        work = self._rewriter.rewrite(dialect, data, headers, counts=path == _COUNT)
        rewritten = await self._guarded(work)
        if isinstance(rewritten, Rewritten):
            rewritten.record.own_ms = (time.perf_counter() - began) * 1_000
        self._feed.passed_unchanged += isinstance(rewritten, LoneMessage)
        return rewritten

    async def _guarded(self, work: Awaitable[Rewritten | LoneMessage | None]) -> Rewritten | LoneMessage | None:
        """What the work makes; None where it fails or takes too long, which costs the client nothing else."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(_retrieved)
        try:
            return await asyncio.wait_for(asyncio.shield(task), _WITHIN)
        except PassUnchanged:
            self._feed.passed_unchanged += 1
        except Exception as error:
            self._failed("a request went on unchanged", error)
        return None

    async def _exchange(self, sent: _Sent, stream: AsyncIterator[bytes], body: Body, send: Send) -> None:
        """Ask the provider, once more where it finds a view too long, and pass its answer on."""
        rewritten = None if self._shadow else sent.rewritten
        data = rewritten.body if isinstance(rewritten, Rewritten) and rewritten.record.changed else body.data
        reply = await self._ask(sent, data if body.is_whole else stream)
        try:
            if rewritten is not None and (error := await reply.error()) is not None:
                again = await self._guarded(self._rewriter.shorter(rewritten, error))
                if again is not None:
                    await reply.aclose()
                    reply, rewritten = await self._ask(sent, again.body), again
                    if reply.status in (400, 413) and isinstance(again, Rewritten):
                        self._rewriter.was_not_too_long(again)
            await self._answered(reply, rewritten or sent.rewritten, send)
        finally:
            await reply.aclose()

    async def _ask(self, sent: _Sent, data: bytes | AsyncIterator[bytes]) -> Reply:
        return Reply(await self._upstream.send(sent.method, sent.target, sent.headers_for(data), data))

    async def _answered(self, reply: Reply, rewritten: Rewritten | LoneMessage | None, send: Send) -> None:
        if not isinstance(rewritten, Rewritten):
            return await reply.pass_on(send, lambda piece: None)
        reader = UsageReader(reply.headers.get("content-type", ""), packed="content-encoding" in reply.headers)
        record = rewritten.record
        record.status = reply.status
        try:
            told = [] if record.least_budget is None else [(_LEAST_BUDGET, str(record.least_budget).encode())]
            await reply.pass_on(send, lambda piece: self._beside(reader.feed, piece), told)
        finally:
            record.usage = self._beside(reader.usage)
            self._beside(self._feed.add, record)
        if record.usage is not None and not self._shadow:
            await self._observe(record)
        return None

    def _beside(self, work: Callable[..., Made], *given: Any) -> Made | None:
        """What work makes that is done beside a reply; None where it fails, which does not hold the reply up."""
        try:
            return work(*given)
        except Exception as error:
            self._failed("a reply was not looked at", error)
            return None

    def _failed(self, words: str, error: Exception) -> None:
        self._feed.failed(error)
        logger.warning(words, extra={"cause": type(error).__name__})

    async def _observe(self, record: Record) -> None:
        try:
            if record.usage is not None:
                await self._rewriter.observe(record, record.usage)
        except Exception as error:
            self._failed("a usage could not be noted", error)


class _Sent:
    """A request on its way."""

    def __init__(
        self,
        method: str,
        target: Target,
        headers: Headers,
        rewritten: Rewritten | LoneMessage | None,
        came: bytes,
    ) -> None:
        self.method, self.target, self.rewritten = method, target, rewritten
        self._headers, self._came = headers, came

    def headers_for(self, data: bytes | AsyncIterator[bytes]) -> Headers:
        """The headers for a body: its length, where it is known and the client told it."""
        if not isinstance(data, bytes):
            return passed_on(self._headers)
        coding = () if data is self._came else (b"content-encoding",)  # what we have written is plain
        headers = passed_on(self._headers, but=(b"content-length", *coding))
        told = any(name in (b"content-length", b"transfer-encoding") for name, _ in self._headers)
        return [*headers, (b"content-length", str(len(data)).encode())] if told else headers


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
        told = feed.status(int(after) if _NUMBER.fullmatch(after) else 0)
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
        if scope["type"] != "http":
            return await own(scope, receive, send)
        asked = guard.admitted(scope)
        if asked.refusal is not None:
            return await reply_error(send, asked.status, asked.refusal)
        scope, path = {**scope, "path": asked.path, "raw_path": asked.raw_path}, asked.path
        if path == "/_status" or path.startswith(f"{pages}/"):
            return await own(scope, receive, send)
        return await passage(scope, receive, _without_scripts(send))

    return app


def _without_scripts(send: Send) -> Send:
    """Let no browser run what a provider answers: it would be a page of the inspector's origin."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_NO_PAGE]}
        await send(message)

    return sent


async def _gone(receive: Receive) -> None:
    """Return when the client has hung up: then the provider need not go on."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _break_off(send: Send, error: Exception) -> None:
    """Tell the client that there is no answer; one that has begun ends in the middle, as the provider's did."""
    words = "the provider cannot be reached" if isinstance(error, httpx2.ConnectError) else "the provider broke off"
    with contextlib.suppress(RuntimeError):  # a reply has begun: the server cuts the connection
        await reply_error(send, 502, f"{words} ({type(error).__name__})")


def _retrieved(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
