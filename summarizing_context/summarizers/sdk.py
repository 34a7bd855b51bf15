"""What the summarizers of the providers' SDKs share: requests, the way to a provider, and what a failure means.

No SDK is imported here. An SDK's own errors never leave this module: their words may hold the text of messages, and
their requests hold the key. What is raised instead says what happened in constants, with the HTTP status as cause.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio

from summarizing_context.errors import (
    SettingsError,
    SummarizerError,
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerTimeout,
)
from summarizing_context.messages.fences import fence
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.verification.replies import Refusal, readable

LAYOUT = 1  # of a request; part of every recipe, as another layout gives other summaries

MOST_BYTES = 2_000_000  # of a reply

_THINKING_TOKENS = 2_000  # a limit on output counts hidden thinking too; few models take that much for one summary

IDENTITY = {"Accept-Encoding": "identity"}  # a packed reply could be small on the way and huge in memory

_LIMIT_FACTOR = 2  # models count otherwise than we do, and a reply that is cut off is lost

_CLOSE_WITHIN = 0.3  # seconds


class Fault(StrEnum):
    """What can go wrong between us and a provider. Constants, so that no text of a message or reply gets in."""

    TIMEOUT = "the provider did not answer in time"
    CONNECTION = "the connection to the provider failed or was cut off"
    REDIRECT = "the provider answered with a redirect, which is not followed; correct base_url"
    KEY = "the provider refuses the key; check api_key"
    NOT_FOUND = "the provider does not know the model, or the address is wrong; check model and base_url"
    RATE_LIMITED = "the provider asks for fewer calls"
    OVERLOADED = "the provider is overloaded"
    SERVER = "the provider failed"
    REQUEST = "the provider refuses the request"
    PACKED = "the reply is compressed, though that was not asked for"
    NOT_JSON = "the reply is not a JSON object"
    SHAPE = "the reply is not what the provider's protocol says"
    CALL = "the call failed before it reached the provider"
    CLOSED = "the summarizer is closed"
    NO_PROVIDER = "the host has mounted no such provider"
    CANCELLED = "the host has cancelled the call"


class HttpStatus(Exception):
    """The HTTP status of a provider's answer."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code
        super().__init__(f"HTTP {status_code}")


class SdkSummarizer(ABC):
    """Summarizes with a model behind a provider's SDK: `complete` asks it, and reads its answer."""

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        official: str,  # address of the provider
        base_url: str | None,
        options: Mapping[str, Any] | None,
        connect: Callable[[str], Any],  # makes the SDK's client for an address
        now: Callable[[], float],
    ) -> None:
        self.model = model
        self._options = check_options(options)
        address = base_url or os.environ.get(f"{provider.upper()}_BASE_URL") or official
        server = None if address.rstrip("/") == official else address
        self.address = _shown_address(address)
        self.host = urlsplit(address).netloc.rpartition("@")[2]
        self.recipe = recipe_name(provider, model, server=server, options=self._options)
        self._connection = Connection(partial(connect, address), now=now)

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """The model's answer; raises `SummarizerError` or a subclass when there is none that could serve."""
        return await self.complete(job.instructions, fenced(job), job.max_tokens)

    @abstractmethod
    async def complete(self, system: str, user: str, max_tokens: int) -> SummaryReply:
        """What the model says to instructions and one message, in about `max_tokens`; raises as `summarize` does."""

    async def close(self) -> None:
        """Close the connections; afterwards every call fails. May be called twice."""
        await self._connection.close()


class Connection:
    """A connection to a provider: the SDK's client, made at the first call, and replies as JSON objects."""

    def __init__(self, connect: Callable[[], Any], *, now: Callable[[], float], max_bytes: int = MOST_BYTES) -> None:
        self._connect = connect  # imports an SDK and loads certificates, so it runs off the event loop
        self._now = now  # seconds since 1970, for dates in Retry-After
        self._max_bytes = max_bytes
        self._connecting = anyio.Lock()
        self._client: Any = None
        self._closed = False

    async def request(self, send: Callable[[Any], AbstractAsyncContextManager[Any]]) -> dict[str, Any]:
        """The reply to what `send` sends with the client. Raises `SummarizerError` or a subclass."""
        failure: SummarizerError
        try:
            client = await self._connected()
            async with send(client) as response:
                data = await self._body(response)
        except SummarizerError as error:
            failure = error
        except Exception as error:
            failure = _failure_of(error, self._now())
        else:
            return _json_object(data)
        raise failure  # out here, so that it does not carry the SDK's error along

    async def close(self) -> None:
        """Close the client's connections. May be called twice."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            with anyio.move_on_after(_CLOSE_WITHIN):
                await client.close()

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._client is None and not self._closed:
                client = await anyio.to_thread.run_sync(self._connect, abandon_on_cancel=True)
                self._client = None if self._closed else client
        if self._closed:
            raise SummarizerError(Fault.CLOSED)
        return self._client

    async def _body(self, response: Any) -> bytes:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise SummarizerError(Fault.PACKED)
        if "json" not in response.headers.get("content-type", "json").lower():
            raise SummarizerError(Fault.NOT_JSON)
        body = bytearray()
        async for chunk in response.iter_bytes():
            body += chunk
            if len(body) > self._max_bytes:
                raise SummarizerRefused(Refusal.TOO_LARGE)
        return bytes(body)


def http_client(sdk: Any, timeout: float) -> Any:
    """An SDK's HTTP client that follows no redirect."""
    hooks = {"response": [_drop_error_body]}
    return sdk.DefaultAsyncHttpxClient(timeout=timeout, follow_redirects=False, event_hooks=hooks)


async def _drop_error_body(response: Any) -> None:
    """Leave the body of an error unread: the SDKs would read it whole."""
    if not 200 <= response.status_code < 300:
        await response.aclose()


def _shown_address(address: str) -> str:
    """An address for people: an environment variable may hold a password in it."""
    found = urlsplit(address)
    return f"{found.scheme}://{found.netloc.rpartition('@')[2]}{found.path}"


def fenced(job: SummaryJob) -> str:
    """The job's content as data for the user message: what it says cannot leave the fence."""
    return fence("session_record", readable(job.content))


def most_tokens(max_tokens: int) -> int:
    """The limit on output to ask the provider for, where about `max_tokens` are wanted."""
    return _LIMIT_FACTOR * max_tokens + _THINKING_TOKENS


def made_reply(
    text: str, input_tokens: int | None, output_tokens: int | None, *, is_cut: bool, cached_tokens: int | None = None
) -> SummaryReply:
    """The reply with this text; `SummarizerRefused` for one that is empty though nothing cut it off."""
    if not text.strip() and not is_cut:
        raise SummarizerRefused(Refusal.EMPTY)
    return SummaryReply(text, input_tokens, output_tokens, truncated=is_cut, cached_tokens=cached_tokens)


def was_cut_off(reason: object, cut_reasons: tuple[str, ...], output_tokens: int | None, limit: int) -> bool:
    """Whether a reply was cut off by a limit. One that does not say why it ended was, unless its usage disproves it."""
    if isinstance(reason, str) and reason:
        return reason in cut_reasons
    return output_tokens is None or output_tokens >= limit


def token_count(usage: object, *names: str) -> int | None:
    """The sum of the named figures of a reply's usage; None if there is none, or one cannot be true."""
    figures = [usage.get(name) or 0 for name in names] if isinstance(usage, Mapping) else []
    if not all(isinstance(figure, int) and not isinstance(figure, bool) and figure >= 0 for figure in figures):
        return None
    return sum(figures) or None


def cached_count(usage: object, *path: str) -> int | None:
    """How much of the input the provider read from its prompt cache; None if it does not say, or not soundly."""
    for name in path:
        usage = usage.get(name) if isinstance(usage, Mapping) else None
    return usage if isinstance(usage, int) and not isinstance(usage, bool) and usage >= 0 else None


def recipe_name(provider: str, model: str, *, server: str | None, options: Mapping[str, Any]) -> str:
    """What names a summarizer for the shared cache: a model of one name may be another one at another server."""
    name = f"{provider}/{model};layout={LAYOUT}"
    if server is not None:
        name += f";server={_short_hash(server.rstrip('/'))}"
    if options:
        name += f";options={_short_hash(_canonical(options))}"
    return name


def check_model(model: object, provider: str, example: str) -> str:
    """The model's name, or `SettingsError`."""
    if isinstance(model, str) and model.strip():
        return model
    raise SettingsError(
        f"summarizer = {provider!r} needs a model and there is none; set model, for example model = {example!r}"
    )


def check_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Further fields of a request, or `SettingsError`."""
    try:
        return dict(json.loads(_canonical(dict(options or {}))))
    except (TypeError, ValueError, RecursionError):
        pass
    raise SettingsError("options must be a mapping of JSON values; they are added to each request as they are")


def status_failure(status: int, retry_after: float | None = None) -> SummarizerError:
    """What an answer with this HTTP status means."""
    kind, fault = SummarizerError, Fault.SERVER
    if status == 429:
        kind, fault = SummarizerRateLimited, Fault.RATE_LIMITED
    elif status in (408, 504):
        kind, fault = SummarizerTimeout, Fault.TIMEOUT
    elif status in (503, 529):
        fault = Fault.OVERLOADED
    elif status < 400:
        fault = Fault.REDIRECT
    elif status < 500:
        fault = {401: Fault.KEY, 403: Fault.KEY, 404: Fault.NOT_FOUND}.get(status, Fault.REQUEST)
    failure = kind(fault, retry_after=retry_after)
    failure.__cause__ = HttpStatus(status)
    return failure


def seconds_to_wait(headers: Mapping[str, str], now: float) -> float | None:
    """What a `Retry-After` header asks for, in seconds or as an HTTP date; `now` in seconds since 1970. None where it
    says nothing sound."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1_000
    said = headers.get("retry-after")
    return _number(said) if said is None or _number(said) is not None else _until(said, now)


def _until(date: str, now: float) -> float | None:
    try:
        found = parsedate_to_datetime(date)
        then = (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return max(then - now, 0.0)


def _number(said: str | None) -> float | None:
    try:
        number = float(said) if said is not None and said.isascii() else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _failure_of(error: Exception, now: float) -> SummarizerError:
    """What an SDK's error means. Known by name: the SDKs, and two generations of their HTTP library, name alike."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        response = getattr(error, "response", None)
        return status_failure(status, seconds_to_wait(getattr(response, "headers", {}), now))
    if kinds & {"APITimeoutError", "TimeoutException"}:
        return SummarizerTimeout(Fault.TIMEOUT)
    return SummarizerError(Fault.CONNECTION if kinds & {"APIConnectionError", "TransportError"} else Fault.CALL)


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return value
    raise SummarizerError(Fault.NOT_JSON)


def _canonical(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
