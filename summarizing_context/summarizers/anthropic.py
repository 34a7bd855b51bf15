"""Summaries by a model behind Anthropic's messages protocol.

Retries, limits and the check of what a summary says are `caller`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from summarizing_context.errors import SummarizerError, SummarizerRefused
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.summarizers.chat import ChatModel, Fault, cached_count, made_reply, token_count
from summarizing_context.summarizers.verification.replies import Refusal


class AnthropicSummarizer(ChatModel):
    """Summarizes with an Anthropic model. Safe for any number of tasks of one event loop; close it in the end.

    Without `base_url` or `api_key` the environment variables of Anthropic's SDK hold. `options` are further fields of
    each request, such as `{"thinking": {"type": "disabled"}}`.
    """

    provider = "anthropic"
    official = "https://api.anthropic.com"
    example = "claude-haiku-4-5"
    key_variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    key_hint = "or ANTHROPIC_AUTH_TOKEN"

    def headers(self, variable: str, key: str) -> dict[str, str]:
        said = {"x-api-key": key} if variable == "ANTHROPIC_API_KEY" else {"Authorization": f"Bearer {key}"}
        return {"anthropic-version": "2023-06-01", **said}

    async def ask(self, system: str, user: str, limit: int) -> Mapping[str, Any]:
        cached = [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
        body = {"model": self.model, "max_tokens": limit, "system": cached}
        return await self.connection.post(
            "/v1/messages", {**body, "messages": [{"role": "user", "content": user}], **self.options}
        )

    def read(self, reply: Mapping[str, Any], limit: int) -> SummaryReply:
        content, reason, usage = reply.get("content"), reply.get("stop_reason"), reply.get("usage")
        if not isinstance(content, list):
            raise SummarizerError(Fault.SERVER if reply.get("type") == "error" else Fault.SHAPE)
        if reason == "refusal":
            raise SummarizerRefused(Refusal.DECLINED)
        blocks = [block for block in content if isinstance(block, Mapping)]
        if reason == "tool_use" or any(block.get("type") == "tool_use" for block in blocks):
            raise SummarizerRefused(Refusal.NOT_TEXT)
        texts = (block.get("text") for block in blocks if block.get("type") == "text")
        return made_reply(
            "".join(text for text in texts if isinstance(text, str)),
            token_count(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
            token_count(usage, "output_tokens"),
            cached_tokens=cached_count(usage, "cache_read_input_tokens"),
            reason=reason,
            cut_reasons=("max_tokens", "model_context_window_exceeded", "pause_turn"),
            limit=limit,
        )
