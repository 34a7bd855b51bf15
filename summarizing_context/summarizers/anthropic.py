"""Summaries by a model behind Anthropic's messages protocol.

The SDK is imported at the first call. Retries, limits and the check of what a summary says are `caller`'s.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

from summarizing_context.errors import SettingsError, SummarizerError, SummarizerRefused
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.summarizers.sdk import (
    IDENTITY,
    Fault,
    SdkSummarizer,
    cached_count,
    check_model,
    http_client,
    made_reply,
    most_tokens,
    token_count,
    was_cut_off,
)
from summarizing_context.summarizers.verification.replies import Refusal

_KEY_VARIABLE, _TOKEN_VARIABLE = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"


class AnthropicSummarizer(SdkSummarizer):
    """Summarizes with an Anthropic model. Safe for any number of tasks of one event loop; close it in the end.

    Without `base_url` or `api_key` the SDK's environment variables hold. `options` are further fields of each request,
    such as `{"thinking": {"type": "disabled"}}`.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        options: Mapping[str, Any] | None = None,
        timeout: float = 60.0,  # seconds without a sign of life
        now: Callable[[], float] = time.time,
    ) -> None:
        model = check_model(model, "anthropic", "claude-haiku-4-5")
        credential = _credential(api_key)
        super().__init__(
            "anthropic",
            model,
            official="https://api.anthropic.com",
            base_url=base_url,
            options=options,
            connect=lambda address: _connect(address, credential, timeout),
            now=now,
        )

    async def complete(self, system: str, user: str, max_tokens: int) -> SummaryReply:
        limit = most_tokens(max_tokens)

        def send(client: Any) -> AbstractAsyncContextManager[Any]:
            request = client.messages.with_streaming_response.create(
                model=self.model,
                max_tokens=limit,
                system=[{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
                messages=[{"role": "user", "content": user}],
                extra_headers=IDENTITY,
                extra_body=self._options or None,
            )
            return cast("AbstractAsyncContextManager[Any]", request)

        return read_message_reply(await self._connection.request(send), limit)


def read_message_reply(reply: Mapping[str, Any], limit: int) -> SummaryReply:
    """The summary in a message of the model; `limit` is what its output was limited to, in tokens."""
    content = reply.get("content")
    if not isinstance(content, list):
        raise SummarizerError(Fault.SERVER if reply.get("type") == "error" else Fault.SHAPE)
    blocks = [block for block in content if isinstance(block, Mapping)]
    reason, usage = reply.get("stop_reason"), reply.get("usage")
    if reason == "refusal":
        raise SummarizerRefused(Refusal.DECLINED)
    if reason == "tool_use" or any(block.get("type") == "tool_use" for block in blocks):
        raise SummarizerRefused(Refusal.NOT_TEXT)
    texts = (block.get("text") for block in blocks if block.get("type") == "text")
    text = "".join(text for text in texts if isinstance(text, str))
    output_tokens = token_count(usage, "output_tokens")
    cut = was_cut_off(reason, ("max_tokens", "model_context_window_exceeded", "pause_turn"), output_tokens, limit)
    read = token_count(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    cached = cached_count(usage, "cache_read_input_tokens")
    return made_reply(text, read, output_tokens, is_cut=cut, cached_tokens=cached)


def _credential(api_key: str | None) -> dict[str, str]:
    """What to sign with, by the name of the SDK's argument."""
    if key := api_key or os.environ.get(_KEY_VARIABLE):
        return {"api_key": key}
    if token := os.environ.get(_TOKEN_VARIABLE):
        return {"auth_token": token}
    raise SettingsError(
        f"summarizer = 'anthropic' needs a key and there is none; set api_key or the environment variable "
        f"{_KEY_VARIABLE} (or {_TOKEN_VARIABLE})"
    )


def _connect(address: str, credential: Mapping[str, str], timeout: float) -> Any:
    import anthropic

    http = http_client(anthropic, timeout)
    client = anthropic.AsyncAnthropic(
        base_url=address,
        api_key=credential.get("api_key"),
        auth_token=credential.get("auth_token"),
        max_retries=0,
        timeout=timeout,
        http_client=http,
    )
    _ = client.messages.with_streaming_response  # loads modules, better now than on the event loop
    return client
