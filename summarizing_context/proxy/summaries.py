"""Summaries by the client's own model: the same provider, the same credentials, lent for as long as they are fresh.

Credentials are kept in memory only, those of the newest request of a session; they are never stored and never logged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import msgspec

from summarizing_context.errors import (
    SummarizerError,
    SummarizerNotReady,
    SummarizerRateLimited,
    SummarizerRefused,
)
from summarizing_context.proxy.upstream import Headers, Target, Upstream
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.sdk import MOST_BYTES, Fault, fenced, most_tokens
from summarizing_context.summarizers.verification.replies import Refusal

_LENT = (  # headers of a client's request with which its provider is asked for summaries
    *(b"authorization", b"x-api-key", b"anthropic-version", b"anthropic-beta", b"chatgpt-account-id"),
    *(b"openai-organization", b"openai-project", b"user-agent", b"originator", b"api-key"),
)

_PATHS = {"anthropic": b"/v1/messages", "chat": b"/v1/chat/completions", "responses": b"/v1/responses"}

_FAULTS = {401: Fault.KEY, 403: Fault.KEY, 404: Fault.NOT_FOUND, 529: Fault.OVERLOADED, 503: Fault.OVERLOADED}

_CUT_OFF = ("max_tokens", "length", "max_output_tokens")


class ClientSummarizer:
    """Asks the provider of one session's client, with what its newest request brought."""

    def __init__(self, upstream: Upstream, dialect: str, model: str) -> None:
        self._upstream = upstream
        self._dialect = dialect
        self._model = model
        self._lent: Headers = []
        self.recipe = f"client/{dialect}/{model}"

    def lend(self, headers: Headers) -> None:
        """Credentials of a request of the client's."""
        self._lent = [(name, value) for name, value in headers if name in _LENT]

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """The model's answer; raises `SummarizerError` or a subclass."""
        if not self._lent:
            raise SummarizerNotReady("no request of the client has brought its credentials yet", retry_after=5.0)
        limit = most_tokens(job.max_tokens)
        kind: Any = "anthropic" if self._dialect == "anthropic" else "openai"
        target = Target(kind, _PATHS[self._dialect])
        headers = [*self._lent, (b"content-type", b"application/json")]
        body = msgspec.json.encode(self._request(job, limit))
        try:
            answer = await self._upstream.send("POST", target, headers, body)
            try:
                data = await _whole(answer)
            finally:
                await answer.aclose()
        except httpx2.HTTPError:
            raise SummarizerError(Fault.CONNECTION) from None  # its words may hold what was sent
        if answer.status_code == 429:
            raise SummarizerRateLimited(Fault.RATE_LIMITED, retry_after=_seconds(answer.headers.get("retry-after")))
        if not 200 <= answer.status_code < 300:
            raise SummarizerError(_FAULTS.get(answer.status_code, Fault.SERVER))
        return _reply(_decoded(data, answer.headers.get("content-type", "")))

    def _request(self, job: SummaryJob, limit: int) -> dict[str, Any]:
        asked = {"role": "user", "content": fenced(job)}
        if self._dialect == "anthropic":
            system = [{"type": "text", "text": job.instructions, "cache_control": {"type": "ephemeral"}}]
            return {"model": self._model, "max_tokens": limit, "system": system, "messages": [asked]}
        if self._dialect == "chat":
            return {"model": self._model, "messages": [{"role": "system", "content": job.instructions}, asked]}
        streamed = {"store": False, "stream": True}  # some accounts are served only like this
        return {"model": self._model, "instructions": job.instructions, "input": [asked], **streamed}


async def _whole(answer: httpx2.Response) -> bytes:
    data = bytearray()
    async for chunk in answer.aiter_raw():
        data += chunk
        if len(data) > MOST_BYTES:
            raise SummarizerRefused(Refusal.TOO_LARGE)
    return bytes(data)


def _decoded(data: bytes, content_type: str) -> Mapping[str, Any]:
    """The reply, or what its last event tells of it."""
    if "event-stream" in content_type:
        events = [line[5:] for line in data.split(b"\n") if line.startswith(b"data:") and b'"response"' in line]
        data = events[-1] if events else b""
    try:
        reply = msgspec.json.decode(data)
    except msgspec.DecodeError:
        raise SummarizerError(Fault.NOT_JSON) from None
    if not isinstance(reply, dict):
        raise SummarizerError(Fault.NOT_JSON)
    inner = reply.get("response")
    return inner if isinstance(inner, dict) else reply


def _reply(reply: Mapping[str, Any]) -> SummaryReply:
    texts = "".join(_texts(reply))
    choice: Mapping[str, Any] = next(iter(reply.get("choices") or ()), {})
    incomplete = reply.get("incomplete_details") or {}
    reason = reply.get("stop_reason") or choice.get("finish_reason") or incomplete.get("reason")
    if reason in ("refusal", "content_filter"):
        raise SummarizerRefused(Refusal.DECLINED)
    if not texts.strip() and reason not in _CUT_OFF:
        raise SummarizerRefused(Refusal.EMPTY)
    usage = reply.get("usage") or {}
    read = usage.get("input_tokens", usage.get("prompt_tokens"))
    written = usage.get("output_tokens", usage.get("completion_tokens"))
    return SummaryReply(texts, read, written, truncated=reason in _CUT_OFF)


def _texts(reply: Mapping[str, Any]) -> Iterator[str]:
    """Every text that the model says, in any of the protocols."""
    blocks: list[Any] = list(reply.get("content") or ())
    for choice in reply.get("choices") or ():
        said = (choice.get("message") or {}).get("content")
        blocks += [{"text": said}] if isinstance(said, str) else said or ()
    for item in reply.get("output") or ():
        blocks += item.get("content") or () if item.get("type") == "message" else ()
    for block in blocks:
        if isinstance(block, dict) and isinstance(text := block.get("text"), str):
            yield text


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None
