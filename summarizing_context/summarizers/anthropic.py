"""Summaries by a model behind Anthropic's messages protocol.

The SDK is imported at the first call. Retries, limits and the check of what a summary says are `resilience`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from summarizing_context.errors import SummarizerError, SummarizerRefused
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.summarizers.sdk import Fault, SdkSummarizer, client_of, made_reply, token_count
from summarizing_context.summarizers.verification.replies import Refusal


class AnthropicSummarizer(SdkSummarizer):
    """Summarizes with an Anthropic model."""

    provider = "anthropic"
    official = "https://api.anthropic.com"
    example = "claude-haiku-4-5"
    key_variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    key_hint = "or ANTHROPIC_AUTH_TOKEN"

    def connect(self, address: str, key: str | None, timeout: float) -> Any:
        import anthropic

        client = client_of(anthropic, anthropic.AsyncAnthropic, timeout=timeout, base_url=address, api_key=key)
        _ = client.messages.with_streaming_response  # loads modules, better now than on the event loop
        return client

    async def ask(self, system: str, user: str, limit: int) -> Mapping[str, Any]:
        return await self.connection.request(
            lambda client: client.messages.with_streaming_response.create(
                model=self.model,
                max_tokens=limit,
                system=[{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
                messages=[{"role": "user", "content": user}],
            )
        )

    def read(self, reply: Mapping[str, Any], limit: int) -> SummaryReply:
        content, reason, usage = reply.get("content"), reply.get("stop_reason"), reply.get("usage")
        if not isinstance(content, list):
            raise SummarizerError(Fault.SERVER if reply.get("type") == "error" else Fault.SHAPE)
        if reason == "refusal":
            raise SummarizerRefused(Refusal.DECLINED)
        if reason == "tool_use" or any(block.get("type") == "tool_use" for block in content):
            raise SummarizerRefused(Refusal.NOT_TEXT)
        return made_reply(
            "".join(block["text"] for block in content if block.get("type") == "text"),
            token_count(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
            token_count(usage, "output_tokens"),
            cached_tokens=token_count(usage, "cache_read_input_tokens"),
            reason=reason,
            cut_reasons=("max_tokens", "model_context_window_exceeded", "pause_turn"),
            limit=limit,
        )
