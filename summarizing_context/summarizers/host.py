"""Summaries by the models and accounts of providers that the host has mounted.

Speaks Amplifier's request format, which is imported at the first call. Retries, limits and the check of what a summary
says are `resilience`'s; which provider it is, the adapter's.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any

from summarizing_context.errors import SummarizerError, SummarizerNotReady, SummarizerRefused
from summarizing_context.models import field_of, read_provider
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.sdk import (
    Fault,
    counted,
    failure_of,
    fenced,
    most_tokens,
    read_reply,
    recipe_name,
)
from summarizing_context.summarizers.verification import Refusal

in_summary: ContextVar[bool] = ContextVar("in_summary", default=False)  # so that a meter can tell our calls apart
_CANCEL_CHECK = 1.0  # seconds after which to ask again whether the host is still being cancelled
_FAULTS = {  # by the class of the provider's error: its words may hold the text of messages
    **dict.fromkeys(("RateLimitError", "QuotaExceededError"), Fault.RATE_LIMITED),
    **dict.fromkeys(("LLMTimeoutError", "TimeoutError"), Fault.TIMEOUT),
    **dict.fromkeys(("AuthenticationError", "AccessDeniedError"), Fault.KEY),
    **dict.fromkeys(("ContextLengthError", "InvalidRequestError"), Fault.REQUEST),
    "NotFoundError": Fault.NOT_FOUND,
    "ProviderUnavailableError": Fault.OVERLOADED,
    "NetworkError": Fault.CONNECTION,
    "AbortError": Fault.CANCELLED,
}


class HostSummarizer:
    """Summarizes with a mounted provider. `find` gives it, or None; it is asked at each call.

    `model` overrides the provider's own. Thinking and streaming are off. `cancel` ends what is under way. What the
    host has cancelled is no failure of its provider: it raises `SummarizerNotReady`.
    """

    def __init__(
        self, find: Callable[[], Any], *, model: str | None = None, is_cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        self._find = find
        self._model = model
        self.is_cancelled = is_cancelled
        self._calls: dict[asyncio.Future[Any], bool] = {}  # those under way, and whether `cancel` has ended them

    @property
    def recipe(self) -> str:
        """Names the provider and the model that answer now."""
        window = read_provider(self._find())
        return recipe_name("host", f"{window.name}/{self._model or window.model or 'default'}")

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the model's answer, or raise `SummarizerError` or a subclass when there is none that could serve."""
        provider = self._find()
        if provider is None:
            raise SummarizerError(Fault.NO_PROVIDER)
        if self.is_cancelled():
            raise SummarizerNotReady(Fault.CANCELLED, retry_after=_CANCEL_CHECK)
        from amplifier_core import ChatRequest, Message

        limit = most_tokens(job.max_tokens)
        request = ChatRequest(
            messages=[Message(role="system", content=job.instructions), Message(role="user", content=fenced(job))],
            tools=None,
            stream=False,
            max_output_tokens=limit,
            model=self._model,
            metadata={"stream": False},  # what a host's streaming overlay looks at
        )
        # Providers honour some options only beside the request, if they take them: a session's configuration can force
        # them otherwise.
        options: dict[str, Any] = {"extended_thinking": False} | ({"model": self._model} if self._model else {})
        with suppress(TypeError, ValueError):
            taken = inspect.signature(provider.complete).parameters
            if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
                options = {name: value for name, value in options.items() if name in taken}
        marked = copy_context()
        marked.run(in_summary.set, True)
        call = marked.run(lambda: asyncio.ensure_future(provider.complete(request, **options)))
        self._calls[call] = False
        failure = SummarizerError(Fault.CANCELLED)
        try:
            response = await call
            blocks, reason = field_of(response, "content"), field_of(response, "finish_reason")
            if isinstance(blocks, str):
                blocks = [{"type": "text", "text": blocks}]
            if not isinstance(blocks, list | tuple):
                raise SummarizerError(Fault.SHAPE)
            told = field_of(response, "usage")
            used = {name: field_of(told, name) for name in ("input_tokens", "output_tokens")}
            used["cache_creation_input_tokens"] = field_of(told, "cache_write_tokens")
            is_told = (isinstance(reason, str) and reason) or counted("", used).output_tokens
            reply = {
                "content": [{name: field_of(block, name) for name in ("type", "text")} for block in blocks],
                "tool_calls": field_of(response, "tool_calls"),
                "stop_reason": reason if is_told else "end",
                "usage": used,
            }
            return read_reply(reply, limit)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        except SummarizerError as error:
            failure = error
        except Exception as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            fault = next((_FAULTS[kind] for kind in kinds if kind in _FAULTS), Fault.SERVER)
            failure = failure_of(fault, getattr(error, "retry_after", None) if fault is Fault.RATE_LIMITED else None)
            if "ContentFilterError" in kinds:
                failure = SummarizerRefused(Refusal.DECLINED)
        finally:
            was_cancelled = self._calls.pop(call) or self.is_cancelled()
        if was_cancelled:  # with whatever error such a call ends, it tells nothing of the provider
            raise SummarizerNotReady(Fault.CANCELLED, retry_after=_CANCEL_CHECK)
        raise failure  # out here, so that it does not carry the provider's error along

    def held(self) -> float:
        """Return the seconds for which to ask nothing: the host is being cancelled."""
        return _CANCEL_CHECK if self.is_cancelled() else 0.0

    async def cancel(self) -> None:
        """End the calls under way, when the host asks for it."""
        for call in self._calls:
            self._calls[call] = True
            call.cancel()
