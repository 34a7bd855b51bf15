"""Summaries by the client's own model: the same provider, the same credentials, lent for as long as they are fresh.

Credentials are kept in memory only, those of the newest request of a session; they are never stored and never logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2
import msgspec

from summarizing_context.contrib.proxy.upstream import Headers, Upstream
from summarizing_context.errors import SummarizerError, SummarizerNotReady, SummarizerRefused
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.sdk import (
    MOST_BYTES,
    Fault,
    fenced,
    made_reply,
    most_tokens,
    seconds_to_wait,
    status_failure,
    token_count,
)
from summarizing_context.summarizers.verification.replies import Refusal

_LENT = (  # headers of a client's request with which its provider is asked for summaries
    *(b"authorization", b"x-api-key", b"anthropic-version", b"anthropic-beta", b"chatgpt-account-id"),
    *(b"openai-organization", b"openai-project", b"user-agent", b"originator", b"api-key"),
)

_PATHS = {"anthropic": b"/v1/messages", "chat": b"/v1/chat/completions", "responses": b"/v1/responses"}
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
        """Take the credentials of a request of the client's."""
        self._lent = [(name, value) for name, value in headers if name in _LENT]

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the model's answer; raise `SummarizerError` or a subclass."""
        if not self._lent:
            raise SummarizerNotReady("no request of the client has brought its credentials yet", retry_after=5.0)
        limit, asked = most_tokens(job.max_tokens), {"role": "user", "content": fenced(job)}
        body: dict[str, Any] = {"model": self._model}
        if self._dialect == "anthropic":
            system = [{"type": "text", "text": job.instructions, "cache_control": {"type": "ephemeral"}}]
            body |= {"max_tokens": limit, "system": system, "messages": [asked]}
        elif self._dialect == "chat":
            body |= {"messages": [{"role": "system", "content": job.instructions}, asked]}
        else:  # some accounts are served only streams
            body |= {"instructions": job.instructions, "input": [asked], "store": False, "stream": True}
        headers = [*self._lent, (b"content-type", b"application/json")]
        data = bytearray()
        try:
            answer = await self._upstream.send("POST", _PATHS[self._dialect], headers, msgspec.json.encode(body))
            try:
                async for piece in answer.pieces():
                    data += piece
                    if len(data) > MOST_BYTES:
                        raise SummarizerRefused(Refusal.TOO_LARGE)
            finally:
                await answer.aclose()
        except httpx2.HTTPError:
            raise SummarizerError(Fault.CONNECTION) from None  # its words may hold what was sent
        if not 200 <= answer.status < 300:
            raise status_failure(answer.status, seconds_to_wait(answer.headers))
        if "event-stream" in answer.headers.get("content-type", ""):  # its last event tells all of it
            events = [line[5:] for line in data.split(b"\n") if line.startswith(b"data:") and b'"response"' in line]
            data = events[-1] if events else data
        try:
            reply = msgspec.json.decode(data, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise SummarizerError(Fault.NOT_JSON) from None

        # what it says, in any of the protocols
        reply = inner if isinstance(inner := reply.get("response"), dict) else reply
        blocks: list[Any] = list(reply.get("content") or ())
        choices: list[Mapping[str, Any]] = list(reply.get("choices") or ())
        for choice in choices:
            said = (choice.get("message") or {}).get("content")
            blocks += [{"text": said}] if isinstance(said, str) else said or ()
        for item in reply.get("output") or ():
            blocks += item.get("content") or () if item.get("type") == "message" else ()
        texts = [block.get("text") for block in blocks if isinstance(block, dict)]
        reason = reply.get("stop_reason") or (choices[0].get("finish_reason") if choices else None)
        reason = reason or (reply.get("incomplete_details") or {}).get("reason") or reply.get("status")
        if reason in ("refusal", "content_filter"):
            raise SummarizerRefused(Refusal.DECLINED)
        return made_reply(
            "".join(text for text in texts if isinstance(text, str)),
            token_count(reply.get("usage"), "input_tokens", "prompt_tokens"),
            token_count(reply.get("usage"), "output_tokens", "completion_tokens"),
            reason=reason,
            cut_reasons=_CUT_OFF,
            limit=limit,
        )
