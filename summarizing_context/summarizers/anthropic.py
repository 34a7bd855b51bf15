"""Summaries by a model behind Anthropic's messages protocol.

The SDK is imported at the first call. Retries, limits and the check of what a summary says are `caller`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

from summarizing_context.errors import SummarizerError, SummarizerRefused
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.summarizers.sdk import (
    IDENTITY,
    Fault,
    SdkSummarizer,
    cached_count,
    http_client,
    made_reply,
    most_tokens,
    token_count,
    was_cut_off,
)
from summarizing_context.summarizers.verification.replies import Refusal


class AnthropicSummarizer(SdkSummarizer):
    """Summarizes with an Anthropic model. Safe for any number of tasks of one event loop; close it in the end.

    Without `base_url` or `api_key` the SDK's environment variables hold. `options` are further fields of each request,
    such as `{"thinking": {"type": "disabled"}}`.
    """

    provider = "anthropic"
    official = "https://api.anthropic.com"
    example = "claude-haiku-4-5"
    key_variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    key_hint = "or ANTHROPIC_AUTH_TOKEN"

    def connect(self, address: str, variable: str, key: str, timeout: float) -> Any:
        import anthropic

        client = anthropic.AsyncAnthropic(
            base_url=address,
            api_key=key if variable == "ANTHROPIC_API_KEY" else None,
            auth_token=key if variable == "ANTHROPIC_AUTH_TOKEN" else None,
            max_retries=0,
            timeout=timeout,
            http_client=http_client(anthropic, timeout),
        )
        _ = client.messages.with_streaming_response  # loads modules, better now than on the event loop
        return client

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
    """Return the summary in a message of the model; `limit` is what its output was limited to, in tokens."""
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
