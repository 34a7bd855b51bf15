"""The way to the providers: addresses, headers that go on, answers, which are passed on as they come, and summaries by
the client's own model.

An answer is looked at for the error that a request was too long. Such an error comes with a status of its own, or as an
event of a stream before any content. Only events that tell nothing are held back for it, and for a second at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import msgspec
from starlette.types import Send

from summarizing_context.errors import SettingsError, SummarizerError, SummarizerNotReady, SummarizerRefused, briefly
from summarizing_context.models import field_of
from summarizing_context.summarizers import sdk
from summarizing_context.summarizers.base import SummaryJob, SummaryReply

Headers = list[tuple[bytes, bytes]]

TOKEN_HEADER = b"x-summarizing-context-token"  # of requests to the proxy; it goes no further

# headers between two neighbours; `accept-encoding` is ours, so that usage can be read
_HOP = b"""connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding
upgrade host accept-encoding expect""".split()

_BARE = re.compile(rb"/(?:messages|chat/completions|responses)(?=/|$)")  # as clients ask that leave the version out


class Upstream:
    """Sends requests to the provider that speaks their protocol. Close its `client` in the end."""

    def __init__(self, anthropic: str, openai: str) -> None:
        self._anthropic, self._openai = _base(anthropic, "--anthropic"), _base(openai, "--openai")
        self.client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=15.0),  # a model may be silent for minutes; the client knows how long
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=15.0),
            follow_redirects=False,
        )

    async def send(self, method: str, path: bytes, headers: Headers, body: bytes) -> Reply:
        """Return the provider's answer, its body still on the way; the caller closes it. The path, with its query, and
        the headers tell which provider is asked. Raise `httpx2.TransportError`."""
        path = b"/" + path.removeprefix(b"/")
        path = b"/v1" + path if _BARE.match(path.partition(b"?")[0]) else path
        names = {name for name, _ in headers}
        is_anthropic = path.startswith(b"/v1/messages") or path.partition(b"?")[0] == b"/v1/complete"
        is_anthropic = is_anthropic or b"anthropic-version" in names or b"x-api-key" in names
        base = self._anthropic if is_anthropic else self._openai
        folder = base.raw_path.rstrip(b"/")
        has_version = folder.endswith(b"/v1") if is_anthropic else bool(folder)
        if has_version and re.match(rb"/v1(?=[/?]|$)", path):
            path = path[3:]  # a base of OpenAI's SDK has it already, and one of the AI SDK's too
        url = base.copy_with(raw_path=folder + path)  # never of another host, whatever the path says
        request = httpx2.Request(method, url, headers=[*headers, (b"accept-encoding", b"identity")], content=body)
        return Reply(await self.client.send(request, stream=True))


def passed_on(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers that go on: not those of one connection."""
    given = [(name.lower(), value) for name, value in headers]
    left_out = {*_HOP, TOKEN_HEADER}
    left_out |= {part.strip().lower() for name, value in given if name == b"connection" for part in value.split(b",")}
    if any(name == b"transfer-encoding" for name, _ in given):  # chunks tell the length
        left_out.add(b"content-length")
    return [(name, value) for name, value in given if name not in left_out]


def _base(text: str, option: str) -> httpx2.URL:
    """Return a provider's address. Raise `SettingsError`."""
    with contextlib.suppress(httpx2.InvalidURL):
        url = httpx2.URL(text)
        if url.scheme in ("http", "https") and url.host and not (url.userinfo or url.query or url.fragment):
            return url
    raise SettingsError(f"{option}: {briefly(text)} is not an address; write it like https://host, without a password")


_WINDOW_FIELDS = ("max_input_tokens", "max_model_len", "context_length", "context_window", "max_context_length")


async def told_window(upstream: Upstream, dialect: str, model: str, headers: Headers) -> int | None:
    """Return the window that a provider's endpoint of models tells for a model within two seconds; else None.

    Anthropic has `max_input_tokens`; vLLM, OpenRouter, Groq and Mistral have the others."""
    given = [(name, value) for name, value in headers if name in _LENT]
    with contextlib.suppress(httpx2.HTTPError, TimeoutError, ValueError, RecursionError):
        path = f"/v1/models/{quote(model, safe='')}" if dialect == "anthropic" else "/v1/models"
        async with asyncio.timeout(2.0):
            reply = await upstream.send("GET", path.encode(), given, b"")
            told = msgspec.json.decode(await reply.read(4_000_000))
            rows = listed if isinstance(listed := field_of(told, "data"), list) else [told]
            row = next((row for row in rows if field_of(row, "id") == model), None)
            return next((count for name in _WINDOW_FIELDS if (count := _count(row, name)) >= 1_000), None)
    return None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request took, in tokens."""

    input: int = 0  # neither read from nor written to a cache
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    cache_write_long: int = 0  # for longer than usual


class Reply:
    """One answer of a provider, and the usage that it has told as it passed. Close it after use."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.status, self.headers = answer.status_code, answer.headers
        self.streams = "event-stream" in answer.headers.get("content-type", "")
        self.usage: Usage | None = None
        self._answer = answer
        self._chunks = answer.aiter_raw()
        self._held = bytearray()  # what was read ahead
        self._reading: asyncio.Future[bytes] | None = None

    async def error(self) -> str | None:
        """Return an error that comes before any content, as text; None where there is none. What was read is passed on
        all the same. Raise `httpx2.HTTPError`."""
        most = 1_000_000  # bytes of an error that are looked at, and of what is held back of a stream
        if self.status in (400, 413):
            while len(self._held) <= most and await self._read_on():
                pass
            return self._held.decode("utf-8", "replace")
        tells_nothing = rb'(?:event: ?|data: ?\{\s*"type"\s*:\s*")(?:response\.(?:created|in_progress|queued)|ping)\b|:'
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                while self.status == 200 and self.streams and len(self._held) <= most:
                    for event in re.split(rb"\r?\n\r?\n", self._held)[:-1]:
                        if not re.match(tells_nothing, event):
                            is_error = re.search(rb'"error"\s*:\s*[{"]|event: error', event)
                            return event.decode("utf-8", "replace") if is_error else None
                    if not await self._read_on():
                        break
        return None

    async def read(self, most: int) -> bytearray:
        """Return the body, not much further than `most` bytes, and close the answer. Raise `httpx2.HTTPError`."""
        try:
            while len(self._held) <= most and await self._read_on():
                pass
        finally:
            await self.aclose()
        return self._held

    async def pass_on(self, send: Send, more: Sequence[tuple[bytes, bytes]]) -> None:
        """Send it to the client as it comes, with `more` headers. Raise `httpx2.HTTPError` where the provider breaks
        off: then the client's connection has to break off too."""
        if not 200 <= self.status < 600:
            raise httpx2.RemoteProtocolError(f"status {self.status} cannot be passed on", request=self._answer.request)
        headers = [*passed_on(self.headers.raw), *more]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        is_read = self.streams or "json" in self.headers.get("content-type", "")
        is_read = is_read and "content-encoding" not in self.headers
        kept = bytearray()
        while self._held or await self._read_on():
            piece = bytes(self._held)
            self._held.clear()
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            if is_read:
                *lines, kept = (kept + piece).split(b"\n") if self.streams else [kept + piece]
                for line in lines:
                    if b'"usage"' in line and line.startswith(b"data:"):
                        self.usage = _usage(line[5:], self.usage)
                is_read = len(kept) <= 4_000_000  # of a reply, or of one event
        if is_read and not self.streams:
            self.usage = _usage(kept, None)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def aclose(self) -> None:
        """Give the answer up, or its connection back."""
        with anyio.CancelScope(shield=True):  # also where the client has hung up
            if self._reading is not None:
                self._reading.cancel()
                with contextlib.suppress(asyncio.CancelledError, httpx2.HTTPError):
                    await self._reading
            await self._answer.aclose()

    async def _read_on(self) -> bool:
        """Read a piece; False at the end. Where the caller's time is up before it comes, the next call reads it."""
        self._reading = self._reading or asyncio.ensure_future(anext(self._chunks, b""))
        await asyncio.wait([self._reading])
        reading, self._reading = self._reading, None
        piece = reading.result()
        self._held += piece
        return bool(piece)


def _usage(data: bytes | bytearray, before: Usage | None) -> Usage | None:
    """Return the figures of any protocol. A later place of the same reply tells only what has changed."""
    try:
        event = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return before
    for holder in (event, field_of(event, "message"), field_of(event, "response")):
        if not isinstance(told := field_of(holder, "usage"), dict):
            continue
        known = before or Usage()
        output = _count(told, "output_tokens") or _count(told, "completion_tokens") or known.output
        details = told.get("prompt_tokens_details") or told.get("input_tokens_details")
        if isinstance(details, dict) or "prompt_tokens" in told:  # OpenAI counts what was cached as input too
            read, written = (_count(details, name) for name in ("cached_tokens", "cache_write_tokens"))
            long = _count(field_of(details, "cache_write_tokens_details"), "ttl_12h_tokens")
            fresh = max(0, (_count(told, "prompt_tokens") or _count(told, "input_tokens")) - read - written)
        else:
            fresh = _count(told, "input_tokens") or known.input
            read = _count(told, "cache_read_input_tokens") or known.cache_read
            written = _count(told, "cache_creation_input_tokens") or known.cache_write + known.cache_write_long
            long = _count(field_of(told, "cache_creation"), "ephemeral_1h_input_tokens") or known.cache_write_long
        long = min(written, long)
        before = Usage(fresh, read, written - long, output, long)
    return before


def _count(holder: Any, name: str) -> int:
    """Return a count that an object tells; 0 where it tells none."""
    told = field_of(holder, name)
    return told if type(told) is int and told > 0 else 0


# Summaries by the client's own model: the same provider, the same credentials, lent for as long as they are fresh.
# Those of a session's newest request are kept in memory; they are never stored and never logged.

_CREDENTIALS = (b"authorization", b"x-api-key", b"api-key")
_LENT = (  # headers of a client's request with which its provider is asked for summaries
    *_CREDENTIALS,
    *(b"anthropic-version", b"anthropic-beta", b"chatgpt-account-id"),
    *(b"openai-organization", b"openai-project", b"user-agent", b"originator"),
)


class ClientSummarizer:
    """Asks the provider of one session's client, with what its newest request brought."""

    def __init__(self, upstream: Upstream, dialect: str, model: str) -> None:
        self._upstream, self._dialect, self._model = upstream, dialect, model
        self._lent: Headers = []
        self.recipe = f"client/{dialect}/{model}"

    def lend(self, headers: Headers) -> None:
        """Take the headers of a request, if it brings credentials."""
        if any(name in _CREDENTIALS for name, _ in headers):
            self._lent = [(name, value) for name, value in headers if name in _LENT]

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the model's answer; raise `SummarizerError` or a subclass."""
        if not self._lent:
            raise SummarizerNotReady("no request of the client has brought its credentials yet", retry_after=5.0)
        limit, asked = sdk.most_tokens(job.max_tokens), {"role": "user", "content": sdk.fenced(job)}
        body: dict[str, Any]
        if self._dialect == "anthropic":
            system = [{"type": "text", "text": job.instructions, "cache_control": {"type": "ephemeral"}}]
            path, body = b"/v1/messages", {"max_tokens": limit, "system": system, "messages": [asked]}
        elif self._dialect == "chat":
            path, body = b"/v1/chat/completions", {"messages": [{"role": "system", "content": job.instructions}, asked]}
        else:  # some accounts are served only streams
            path = b"/v1/responses"
            body = {"instructions": job.instructions, "input": [asked], "store": False, "stream": True}
        headers = [*self._lent, (b"content-type", b"application/json")]
        sent = msgspec.json.encode({"model": self._model, **body})
        try:
            answer = await self._upstream.send("POST", path, headers, sent)
            data = await answer.read(sdk.MOST_BYTES)
        except httpx2.HTTPError:
            raise SummarizerError(sdk.Fault.CONNECTION) from None  # its words may hold what was sent
        if len(data) > sdk.MOST_BYTES:
            raise SummarizerRefused(sdk.Refusal.TOO_LARGE)
        if not 200 <= answer.status < 300:
            raise sdk.status_failure(answer.status, sdk.seconds_to_wait(answer.headers))
        if answer.streams:  # its last event tells all of it
            events = [line[5:] for line in data.split(b"\n") if line.startswith(b"data:") and b'"response"' in line]
            data = events[-1] if events else data
        try:
            reply = msgspec.json.decode(data, type=dict[str, Any])
            reply = inner if isinstance(inner := reply.get("response"), dict) else reply
            if isinstance(output := reply.get("output"), list):  # of Responses
                said = [block for item in output if item.get("type") == "message" for block in item["content"]]
                why = (reply.get("incomplete_details") or {}).get("reason") or reply.get("status")
                reply |= {"content": said, "stop_reason": why}
            return sdk.read_reply(reply, limit)
        except (ValueError, RecursionError):
            raise SummarizerError(sdk.Fault.NOT_JSON) from None
        except (AttributeError, KeyError, TypeError):
            raise SummarizerError(sdk.Fault.SHAPE) from None
