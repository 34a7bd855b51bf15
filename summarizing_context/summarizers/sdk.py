"""Summaries by a model behind a provider's SDK: what each protocol asks and answers, and what a failure means.

An SDK is imported at the first call. Its own errors never leave this module: their words may hold the text of messages,
and their requests hold the key. What is raised instead says what happened in constants, with the HTTP status as cause.
Retries, limits and the check of what a summary says are `resilience`'s.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from enum import StrEnum
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar
from urllib.parse import urlsplit

import anyio

from summarizing_context.errors import (
    SettingsError,
    SummarizerError,
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerTimeout,
)
from summarizing_context.messages.text import fence
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.verification import Refusal as Refusal
from summarizing_context.summarizers.verification import plain_reply, readable

OFFICIAL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
MOST_BYTES = 2_000_000  # of a reply
_NO_MONEY = re.compile(rb"[\"']insufficient_quota[\"']|Your credit balance is too low")  # of OpenAI, and of Anthropic


class Fault(StrEnum):
    """What can go wrong between us and a provider. Constants, so that no text of a message or reply gets in."""

    TIMEOUT = "the provider did not answer in time"
    CONNECTION = "the connection to the provider failed or was cut off; check base_url and the network"
    REDIRECT = "the provider answered with a redirect, which is not followed; correct base_url"
    KEY = "the provider refuses the key; check api_key"
    MONEY = "the provider asks for payment; check the account of the key"
    NOT_FOUND = "the provider does not know the model, or the address is wrong; check model and base_url"
    RATE_LIMITED = "the provider asks for fewer calls"
    OVERLOADED = "the provider is overloaded"
    SERVER = "the provider failed"
    REQUEST = "the provider refuses the request, such as for its length, its content or the name of the model"
    NOT_JSON = "the reply is not a JSON object"
    SHAPE = "the reply is not what the provider's protocol says"
    CALL = "the call failed before it reached the provider; check api_key, base_url, proxies and certificates"
    NOT_ASYNC = "its summarize is no coroutine; write it as `async def summarize(self, job)`"
    NO_EXCEPTION = "the summarizer raised no Exception; let it raise SummarizerError"
    CLOSED = "the summarizer is closed"
    NO_PROVIDER = "the host has mounted no such provider"
    CANCELLED = "the host has cancelled the call"
    ENDED = "the call was cancelled by something else than its caller"


class HttpStatus(Exception):
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code
        super().__init__(f"HTTP {status_code}")


class Connection:
    """A connection to a provider: a client such as `openai.AsyncOpenAI`, made at the first call, and replies as JSON
    objects. Without the option `api_key` it reads the environment."""

    def __init__(self, client: str, *, timeout: float, max_bytes: int = MOST_BYTES, **options: Any) -> None:
        self._sdk, self._kind = client.split(".")
        self._timeout, self._max_bytes, self._options = timeout, max_bytes, options
        self._connecting = anyio.Lock()
        self._client: Any = None
        self._closed = False

    async def request(self, method: str, **fields: Any) -> dict[str, Any]:
        """Return the reply to a call of this method of the client. Raises `SummarizerError` or a subclass."""
        failure: SummarizerError
        try:
            async with self._connecting:
                if self._client is None and not self._closed:
                    client = await anyio.to_thread.run_sync(self._connect, method, abandon_on_cancel=True)
                    self._client = None if self._closed else client
            if self._closed:
                raise SummarizerError(Fault.CLOSED)
            body = bytearray()
            async with attrgetter(method)(self._client)(**fields) as response:
                async for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > self._max_bytes:
                        raise SummarizerRefused(Refusal.TOO_LARGE)
            with suppress(ValueError, RecursionError):
                if isinstance(value := json.loads(body), dict):
                    return value
            raise SummarizerError(Fault.NOT_JSON)
        except SummarizerError as error:
            failure = error
        except Exception as error:  # known by name: the SDKs, and two generations of their HTTP library, name alike
            kinds = {kind.__name__ for kind in type(error).__mro__}
            status = getattr(error, "status_code", None)
            if isinstance(status, int):
                headers = getattr(getattr(error, "response", None), "headers", {})
                failure = status_failure(status, seconds_to_wait(headers))
            elif kinds & {"APITimeoutError", "TimeoutException"}:
                failure = SummarizerTimeout(Fault.TIMEOUT)
            else:
                was_sent = kinds & {"APIConnectionError", "TransportError"}
                failure = SummarizerError(Fault.CONNECTION if was_sent else Fault.CALL)
        raise failure  # out here, so that it does not carry the SDK's error along

    async def close(self) -> None:
        """Close the client's connections. May be called twice."""
        self._closed = True
        client, self._client = self._client, None
        if client is not None:
            with anyio.move_on_after(0.3):
                await client.close()

    def _connect(self, method: str) -> Any:
        """Return the client, without retries and redirects. It asks for replies that are not compressed, and leaves the
        body of an error unread, which the SDKs would read whole, but for its first piece: OpenAI and Anthropic give no
        402 where an account has no money, and say so in words.

        Off the event loop, for this imports modules and loads certificates.
        """

        async def drop_error_body(response: Any) -> None:
            if not 200 <= response.status_code < 300:
                if response.status_code in (400, 429):
                    with anyio.move_on_after(1.0), suppress(Exception):
                        if _NO_MONEY.search(await anext(response.aiter_raw(), b"")):
                            response.status_code = 402
                    response.is_stream_consumed = False  # or the SDKs would look for its text
                await response.aclose()

        sdk = import_module(self._sdk)
        http = sdk.DefaultAsyncHttpxClient(
            timeout=self._timeout,
            follow_redirects=False,
            headers={"Accept-Encoding": "identity"},
            event_hooks={"response": [drop_error_body]},
        )
        client = getattr(sdk, self._kind)(max_retries=0, timeout=self._timeout, http_client=http, **self._options)
        attrgetter(method)(client)
        return client


class SdkSummarizer(ABC):
    """Summarizes with a model behind a provider's SDK. Safe for any number of tasks of one event loop; close it in the
    end.

    Without `base_url` or `api_key` the SDK's environment variables hold. A subclass says how to ask, how to read the
    answer, and what its provider is called.
    """

    provider: ClassVar[str]
    client: ClassVar[str]  # of the SDK
    official: ClassVar[str]  # address
    example: ClassVar[str]  # of a model
    key_variables: ClassVar[tuple[str, ...]]  # of the environment, the usual one first
    key_hint: ClassVar[str]  # what else may be said where there is no key

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,  # seconds without a sign of life
    ) -> None:
        needs = f"summarizer = {self.provider!r} needs a"
        if not isinstance(model, str) or not model.strip():
            raise SettingsError(f"{needs} model and there is none; set model, for example model = {self.example!r}")
        key = (api_key or os.environ.get(self.key_variables[0], "")).strip()  # the variable may end with a line
        if not (key or any(os.environ.get(name, "").strip() for name in self.key_variables[1:])):
            named = f"the environment variable {self.key_variables[0]} ({self.key_hint})"
            raise SettingsError(f"{needs} key and there is none; set api_key or {named}")
        address = base_url or os.environ.get(f"{self.provider.upper()}_BASE_URL") or self.official
        try:
            found = urlsplit(address)
        except ValueError:
            found = urlsplit("")
        if found.scheme not in ("http", "https") or not found.netloc:
            raise SettingsError(f"{self.provider.upper()}_BASE_URL holds no address; write it like {self.official}")
        self.model = model
        self.host = found.netloc.rpartition("@")[2]  # an environment variable may hold a password in it
        self.address = f"{found.scheme}://{self.host}{found.path}"
        self.recipe = recipe_name(self.provider, model, server=address, official=self.official)
        self.connection = Connection(self.client, timeout=timeout, base_url=address, api_key=key or None)

    @abstractmethod
    async def ask(self, system: str, user: str, limit: int) -> SummaryReply:
        """Return the answer to instructions and one message, in at most `limit` tokens. What is not of the protocol's
        shape may raise `AttributeError`, `KeyError` or `TypeError`."""

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the model's answer, or raise `SummarizerError` or a subclass when there is none that could serve."""
        return await self.complete(job.instructions, fenced(job), job.max_tokens)

    async def complete(self, system: str, user: str, max_tokens: int) -> SummaryReply:
        """Return what the model says to instructions and one message, in about `max_tokens`; raise as `summarize`
        does."""
        try:
            return await self.ask(system, user, most_tokens(max_tokens))
        except (AttributeError, KeyError, TypeError):
            raise SummarizerError(Fault.SHAPE) from None

    async def close(self) -> None:
        """Close the connections; afterwards every call fails. May be called twice."""
        await self.connection.close()


class OpenAIChatSummarizer(SdkSummarizer):
    """Summarizes by the OpenAI chat protocol: with OpenAI itself, or any compatible server."""

    provider = "openai"
    client = "openai.AsyncOpenAI"
    official = OFFICIAL
    example = "gpt-5.4-mini"
    key_variables = (KEY_VARIABLE,)
    key_hint = "any word will do for a server of your own that asks for none"
    # Servers know one of these names, some refuse the other; the one that has worked is left.
    _limit_names: tuple[str, ...] = ("max_completion_tokens", "max_tokens")

    async def ask(self, system: str, user: str, limit: int) -> SummaryReply:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        method = "chat.completions.with_streaming_response.create"
        asked: dict[str, Any] = {"model": self.model, "messages": messages}
        name, *others = self._limit_names
        try:
            reply = await self.connection.request(method, **asked, **{name: limit})
        except SummarizerError as failure:
            if not others or getattr(failure.__cause__, "status_code", None) not in (400, 422):
                raise
            (name,) = others
            reply = await self.connection.request(method, **asked, **{name: limit})
        self._limit_names = (name,)
        return read_reply(reply, limit)


class AnthropicSummarizer(SdkSummarizer):
    """Summarizes by Anthropic's messages protocol."""

    provider = "anthropic"
    client = "anthropic.AsyncAnthropic"
    official = "https://api.anthropic.com"
    example = "claude-haiku-4-5"
    key_variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    key_hint = "or ANTHROPIC_AUTH_TOKEN"

    async def ask(self, system: str, user: str, limit: int) -> SummaryReply:
        reply = await self.connection.request(
            "messages.with_streaming_response.create",
            model=self.model,
            max_tokens=limit,
            system=[{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
            messages=[{"role": "user", "content": user}],
        )
        return read_reply(reply, limit)


def fenced(job: SummaryJob) -> str:
    """Return the job's context and content as data for the user message: what they say cannot leave the fences."""
    context = f"{fence('session_context', readable(job.context))}\n\n" if job.context else ""
    return context + fence("session_record", readable(job.content))


def most_tokens(max_tokens: int) -> int:
    """Return the limit on output to ask the provider for, where about `max_tokens` are wanted: models count otherwise
    than we do, and few take more than 2,000 tokens of hidden thinking for one summary."""
    return 2 * max_tokens + 2_000


def recipe_name(provider: str, model: str, *, server: str = "", official: str = "") -> str:
    """Return what names a summarizer for the shared cache: a model of one name may be another one at another server.

    The layout is that of a request: another one gives other summaries.
    """
    server = server.rstrip("/")
    digest = hashlib.sha256(server.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{provider}/{model};layout=1" + ("" if server == official else f";server={digest}")


_CUT = ["length", "max_tokens", "max_output_tokens", "incomplete", "model_context_window_exceeded", "pause_turn"]
_CUT += ["model_length", "error", "insufficient_system_resource", "abort"]  # Mistral, OpenRouter, DeepSeek, vLLM


def read_reply(reply: Mapping[str, Any], limit: int) -> SummaryReply:
    """Return what a reply of either protocol says, which may have at most `limit` tokens. What is of neither's shape
    may raise `AttributeError`, `KeyError` or `TypeError`.

    One that does not say why it ended was cut off, unless its usage disproves it.
    """
    try:
        return _read(reply, limit)
    except SummarizerRefused as error:
        error.usage = counted("", reply.get("usage"))
        raise


def _read(reply: Mapping[str, Any], limit: int) -> SummaryReply:
    is_chat, error = "choices" in reply, reply.get("error")
    choices: Any = reply["choices"] if is_chat else [{"message": reply, "finish_reason": reply.get("stop_reason")}]
    if not isinstance(choices if is_chat else reply.get("content"), list) or (error and not choices):
        code = str(error.get("code")) if isinstance(error, Mapping) else ""
        if re.fullmatch("[345][0-9]{2}", code):  # with the status of a success, as some servers send it
            raise status_failure(int(code))
        raise SummarizerError(Fault.SERVER if error else Fault.SHAPE)
    if not choices:
        raise SummarizerRefused(Refusal.EMPTY)
    message, reason = choices[0]["message"], choices[0].get("finish_reason")
    reason = reason.lower() if isinstance(reason, str) else None
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    kinds = {part.get("type") for part in parts}
    if reason in ("refusal", "content_filter", "safety") or message.get("refusal") or "refusal" in kinds:
        raise SummarizerRefused(Refusal.DECLINED)
    called = message.get("tool_calls") or message.get("function_call") or reason == "tool_use"
    if called or kinds & {"tool_use", "tool_call"} or not isinstance(content, str | list | None):
        raise SummarizerRefused(Refusal.NOT_TEXT)
    text = "".join(part.get("text") or "" for part in parts if part.get("type") in ("text", "output_text", None))
    said = counted(text, reply.get("usage"))
    is_cut = reason in _CUT if reason else said.output_tokens is None or said.output_tokens >= limit
    if not text.strip() and not is_cut:
        raise SummarizerRefused(Refusal.EMPTY)
    return replace(said, truncated=is_cut)


def counted(text: str, told: object) -> SummaryReply:
    """Return a text with the usage that a provider tells of it, of any protocol, as far as that can be true."""
    usage = told if isinstance(told, Mapping) else {}
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    figures = [*usage.items(), *(details.items() if isinstance(details, Mapping) else ())]
    known = {name: figure for name, figure in figures if type(figure) is int and figure > 0}
    parts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    read = known.get("prompt_tokens") or sum(known.get(name, 0) for name in parts)
    written = known.get("completion_tokens") or known.get("output_tokens")
    cached = known.get("cached_tokens") or known.get("cache_read_input_tokens")
    return plain_reply(SummaryReply(text, read, written, cached_tokens=cached))


def failure_of(fault: Fault, retry_after: float | None = None) -> SummarizerError:
    """Return the error that says what went wrong, of the kind that it has."""
    kinds = {Fault.RATE_LIMITED: SummarizerRateLimited, Fault.TIMEOUT: SummarizerTimeout}
    return kinds.get(fault, SummarizerError)(fault, retry_after=retry_after)


def status_failure(status: int, retry_after: float | None = None) -> SummarizerError:
    known = {404: Fault.NOT_FOUND, 408: Fault.TIMEOUT, 429: Fault.RATE_LIMITED, 504: Fault.TIMEOUT}
    known |= {401: Fault.KEY, 402: Fault.MONEY, 403: Fault.KEY, 503: Fault.OVERLOADED, 529: Fault.OVERLOADED}
    other = Fault.REDIRECT if status < 400 else Fault.REQUEST if status < 500 else Fault.SERVER
    failure = failure_of(known.get(status, other), retry_after)
    failure.__cause__ = HttpStatus(status)
    return failure


def seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a `Retry-After` header asks for, until a date too; None where it is neither, or past."""
    for name, unit in (("retry-after-ms", 1_000), ("retry-after", 1)):
        with suppress(ValueError):
            if 0 <= (found := float(headers.get(name, ""))) < math.inf:
                return found / unit
    with suppress(ValueError, OverflowError):
        return max(parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time(), 0.0) or None
    return None
