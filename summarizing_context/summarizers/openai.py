"""Summaries by a model behind the OpenAI chat protocol: OpenAI itself, or any compatible server.

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
    HttpStatus,
    SdkSummarizer,
    cached_count,
    http_client,
    made_reply,
    most_tokens,
    status_failure,
    token_count,
    was_cut_off,
)
from summarizing_context.summarizers.verification.replies import Refusal

OFFICIAL = "https://api.openai.com/v1"

KEY_VARIABLE = "OPENAI_API_KEY"


class OpenAIChatSummarizer(SdkSummarizer):
    """Summarizes with a chat model. Safe for any number of tasks of one event loop; close it in the end.

    Without `base_url` or `api_key` the SDK's environment variables hold. `options` are further fields of each request,
    such as `{"reasoning_effort": "low"}`.
    """

    provider = "openai"
    official = OFFICIAL
    example = "gpt-5.4-mini"
    key_variables = (KEY_VARIABLE,)
    key_hint = "any word will do for a server of your own that asks for none"

    # Servers know one of these names, some refuse the other; the one that has worked comes first.
    _limit_names: tuple[str, ...] = ("max_completion_tokens", "max_tokens")

    def connect(self, address: str, variable: str, key: str, timeout: float) -> Any:
        return connect(address, key, timeout)

    async def complete(self, system: str, user: str, max_tokens: int) -> SummaryReply:
        limit = most_tokens(max_tokens)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]

        async def ask(limit_name: str) -> dict[str, Any]:
            def send(client: Any) -> AbstractAsyncContextManager[Any]:
                request = client.chat.completions.with_streaming_response.create(
                    model=self.model,
                    messages=messages,
                    extra_headers=IDENTITY,
                    extra_body=self._options or None,
                    **{limit_name: limit},
                )
                return cast("AbstractAsyncContextManager[Any]", request)

            return await self._connection.request(send)

        name, *others = self._limit_names
        try:
            reply = await ask(name)
        except SummarizerError as error:
            cause = error.__cause__
            if not others or not isinstance(cause, HttpStatus) or cause.status_code not in (400, 422):
                raise
            (name,) = others
            reply = await ask(name)
        self._limit_names = (name,)
        return read_completion(reply, limit)


def read_completion(reply: Mapping[str, Any], limit: int) -> SummaryReply:
    """Return the summary in a chat completion; `limit` is what its output was limited to, in tokens."""
    choices = reply.get("choices")
    if not isinstance(choices, list):  # an error with the status of a success, as some servers send it
        error = reply.get("error")
        code = error.get("code") if isinstance(error, Mapping) else None
        if isinstance(code, int) and 300 <= code < 600:
            raise status_failure(code)
        raise SummarizerError(Fault.SERVER if error else Fault.SHAPE)
    choice = choices[0] if choices else None
    if choice is None:
        raise SummarizerRefused(Refusal.EMPTY)
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        raise SummarizerError(Fault.SHAPE)
    reason, usage, content = choice.get("finish_reason"), reply.get("usage"), message.get("content")
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    parts = [part for part in parts if isinstance(part, Mapping)]
    declines = any(part.get("type") == "refusal" for part in parts)
    if reason == "content_filter" or message.get("refusal") or declines:
        raise SummarizerRefused(Refusal.DECLINED)
    is_text = content is None or isinstance(content, str | list)
    if message.get("tool_calls") or message.get("function_call") or not is_text:
        raise SummarizerRefused(Refusal.NOT_TEXT)
    text = "".join(text for part in parts if isinstance(text := part.get("text"), str))
    output_tokens = token_count(usage, "completion_tokens")
    cut = was_cut_off(reason, ("length",), output_tokens, limit)
    cached = cached_count(usage, "prompt_tokens_details", "cached_tokens")
    return made_reply(text, token_count(usage, "prompt_tokens"), output_tokens, is_cut=cut, cached_tokens=cached)


def connect(address: str, key: str, timeout: float) -> Any:
    """Return a client of the SDK, without retries and redirects."""
    import openai

    http = http_client(openai, timeout)
    client = openai.AsyncOpenAI(base_url=address, api_key=key, max_retries=0, timeout=timeout, http_client=http)
    _ = client.chat.completions.with_streaming_response  # loads modules, better now than on the event loop
    return client
