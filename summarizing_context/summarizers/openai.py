"""Summaries by a model behind the OpenAI chat protocol: OpenAI itself, or any compatible server.

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
    HttpStatus,
    SdkSummarizer,
    cached_count,
    check_model,
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

_LIMIT_NAMES = ("max_completion_tokens", "max_tokens")  # servers know one of them, some refuse the other


class OpenAIChatSummarizer(SdkSummarizer):
    """Summarizes with a chat model. Safe for any number of tasks of one event loop; close it in the end.

    Without `base_url` or `api_key` the SDK's environment variables hold. `options` are further fields of each request,
    such as `{"reasoning_effort": "low"}`.
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
        model = check_model(model, "openai", "gpt-5.4-mini")
        key = api_key or os.environ.get(KEY_VARIABLE)
        if not key:
            raise SettingsError(
                f"summarizer = 'openai' needs a key and there is none; set api_key or the environment variable "
                f"{KEY_VARIABLE} (any word will do for a server of your own that asks for none)"
            )
        super().__init__(
            "openai",
            model,
            official=OFFICIAL,
            base_url=base_url,
            options=options,
            connect=lambda address: connect(address, key, timeout),
            now=now,
        )
        self._limit_names: tuple[str, ...] = _LIMIT_NAMES  # those that the server may know, the likely one first

    async def complete(self, system: str, user: str, max_tokens: int) -> SummaryReply:
        limit = most_tokens(max_tokens)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        name, *others = self._limit_names
        try:
            reply = await self._ask(messages, {name: limit})
        except SummarizerError as error:
            if not others or not _is_refused_request(error):
                raise
            (name,) = others
            reply = await self._ask(messages, {name: limit})
        self._limit_names = (name,)
        return read_completion(reply, limit)

    async def _ask(self, messages: list[dict[str, str]], limit: Mapping[str, int]) -> dict[str, Any]:
        def send(client: Any) -> AbstractAsyncContextManager[Any]:
            request = client.chat.completions.with_streaming_response.create(
                model=self.model,
                messages=messages,
                extra_headers=IDENTITY,
                extra_body=self._options or None,
                **limit,
            )
            return cast("AbstractAsyncContextManager[Any]", request)

        return await self._connection.request(send)


def read_completion(reply: Mapping[str, Any], limit: int) -> SummaryReply:
    """The summary in a chat completion; `limit` is what its output was limited to, in tokens."""
    choices = reply.get("choices")
    if not isinstance(choices, list):
        raise _error_in(reply)
    choice = choices[0] if choices else None
    if choice is None:
        raise SummarizerRefused(Refusal.EMPTY)
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        raise SummarizerError(Fault.SHAPE)
    reason, usage = choice.get("finish_reason"), reply.get("usage")
    text = _text_of(message)
    if reason == "content_filter" or message.get("refusal"):
        raise SummarizerRefused(Refusal.DECLINED)
    if message.get("tool_calls") or message.get("function_call"):
        raise SummarizerRefused(Refusal.NOT_TEXT)
    output_tokens = token_count(usage, "completion_tokens")
    cut = was_cut_off(reason, ("length",), output_tokens, limit)
    cached = cached_count(usage, "prompt_tokens_details", "cached_tokens")
    return made_reply(text, token_count(usage, "prompt_tokens"), output_tokens, is_cut=cut, cached_tokens=cached)


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise SummarizerRefused(Refusal.NOT_TEXT)
    parts = [part for part in content if isinstance(part, Mapping)]
    if any(part.get("type") == "refusal" for part in parts):
        raise SummarizerRefused(Refusal.DECLINED)
    return "".join(text for part in parts if isinstance(text := part.get("text"), str))


def _error_in(reply: Mapping[str, Any]) -> SummarizerError:
    """What an error means that came with the status of a success, as some servers send it."""
    error = reply.get("error")
    code = error.get("code") if isinstance(error, Mapping) else None
    if isinstance(code, int) and 300 <= code < 600:
        return status_failure(code)
    return SummarizerError(Fault.SERVER if error else Fault.SHAPE)


def _is_refused_request(error: SummarizerError) -> bool:
    return isinstance(error.__cause__, HttpStatus) and error.__cause__.status_code in (400, 422)


def connect(address: str, key: str, timeout: float) -> Any:
    """A client of the SDK, without retries and redirects."""
    import openai

    http = http_client(openai, timeout)
    client = openai.AsyncOpenAI(base_url=address, api_key=key, max_retries=0, timeout=timeout, http_client=http)
    _ = client.chat.completions.with_streaming_response  # loads modules, better now than on the event loop
    return client
