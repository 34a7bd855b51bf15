"""Summaries by a model behind the OpenAI chat protocol: OpenAI itself, or any compatible server.

The SDK is imported at the first call. Retries, limits and the check of what a summary says are `resilience`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from summarizing_context.errors import SummarizerError, SummarizerRefused
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.summarizers.sdk import Fault, SdkSummarizer, client_of, made_reply, status_failure, token_count
from summarizing_context.summarizers.verification.replies import Refusal

OFFICIAL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"


class OpenAIChatSummarizer(SdkSummarizer):
    """Summarizes with a chat model."""

    provider = "openai"
    official = OFFICIAL
    example = "gpt-5.4-mini"
    key_variables = (KEY_VARIABLE,)
    key_hint = "any word will do for a server of your own that asks for none"

    # Servers know one of these names, some refuse the other; the one that has worked is left.
    _limit_names: tuple[str, ...] = ("max_completion_tokens", "max_tokens")

    def connect(self, address: str, key: str | None, timeout: float) -> Any:
        return connect(address, key, timeout)

    async def ask(self, system: str, user: str, limit: int) -> Mapping[str, Any]:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]

        async def limited_by(name: str) -> Mapping[str, Any]:
            fields = {"model": self.model, "messages": messages, name: limit}
            return await self.connection.request(
                lambda client: client.chat.completions.with_streaming_response.create(**fields)
            )

        name, *others = self._limit_names
        try:
            reply = await limited_by(name)
        except SummarizerError as error:
            if not others or getattr(error.__cause__, "status_code", None) not in (400, 422):
                raise
            (name,) = others
            reply = await limited_by(name)
        self._limit_names = (name,)
        return reply

    def read(self, reply: Mapping[str, Any], limit: int) -> SummaryReply:
        choices, error, usage = reply.get("choices"), reply.get("error"), reply.get("usage")
        if not isinstance(choices, list):  # an error with the status of a success, as some servers send it
            code = error.get("code") if isinstance(error, Mapping) else None
            if isinstance(code, int) and 300 <= code < 600:
                raise status_failure(code)
            raise SummarizerError(Fault.SERVER if error else Fault.SHAPE)
        if not choices:
            raise SummarizerRefused(Refusal.EMPTY)
        message, reason = choices[0]["message"], choices[0].get("finish_reason")
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"text": content or ""}]
        declines = any(part.get("type") == "refusal" for part in parts)
        if reason == "content_filter" or message.get("refusal") or declines:
            raise SummarizerRefused(Refusal.DECLINED)
        if message.get("tool_calls") or message.get("function_call") or not isinstance(content, str | list | None):
            raise SummarizerRefused(Refusal.NOT_TEXT)
        details = usage.get("prompt_tokens_details") if isinstance(usage, Mapping) else None
        return made_reply(
            "".join(part.get("text") or "" for part in parts),
            token_count(usage, "prompt_tokens"),
            token_count(usage, "completion_tokens"),
            cached_tokens=token_count(details, "cached_tokens"),
            reason=reason,
            cut_reasons=("length",),
            limit=limit,
        )


def connect(address: str, key: str | None, timeout: float) -> Any:
    import openai

    client = client_of(openai, openai.AsyncOpenAI, timeout=timeout, base_url=address, api_key=key)
    _ = client.chat.completions.with_streaming_response  # loads modules, better now than on the event loop
    return client
