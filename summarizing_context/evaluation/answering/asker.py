"""Asks one model through the cassette, within the project's own limits.

Calls are bounded in time, and tried again after growing pauses, or after what the provider asks for. How many are
under way is `models`' to bound.
"""

from __future__ import annotations

import anyio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from summarizing_context.errors import SummarizerError, SummarizerRefused
from summarizing_context.evaluation.answering.plan import Asking
from summarizing_context.evaluation.cassettes import Cassette, Reply, Request
from summarizing_context.evaluation.cassettes.summaries import maker_of
from summarizing_context.ports import SummaryReply
from summarizing_context.summarizers.calls import call_within
from summarizing_context.summarizers.gates import ChatModel
from summarizing_context.summarizers.providers import Fault
from summarizing_context.summarizers.retries import seconds_asked_for

_LASTING = (Fault.KEY, Fault.NOT_FOUND, Fault.REQUEST, Fault.REDIRECT)

_backoff = wait_random_exponential(multiplier=1, min=0.5, max=8)  # seconds


class Asker:
    """One model, asked through the cassette."""

    def __init__(self, model: ChatModel, cassette: Cassette, asking: Asking) -> None:
        self.maker = maker_of(model)
        self._model, self._cassette, self._asking = model, cassette, asking

    async def ask(self, request: Request, *, assumed: str = "") -> Reply:
        """The reply to a request. Raises as `Cassette.reply` does."""
        return await self._cassette.reply(request, self._send, assumed=assumed)

    async def _send(self, request: Request) -> SummaryReply:
        retrying = AsyncRetrying(
            sleep=anyio.sleep,
            retry=retry_if_exception(_is_passing),
            wait=lambda state: max(_backoff(state), seconds_asked_for(_error_of(state))),
            stop=stop_after_attempt(self._asking.attempts),
            reraise=True,
        )
        return await retrying(self._call, request)

    async def _call(self, request: Request) -> SummaryReply:
        call = self._model.complete(request.system, request.message, request.max_tokens)
        return await call_within(self._asking.call_timeout, call)


def _is_passing(error: BaseException) -> bool:
    """Whether asking again may help; a refusal is an answer, and a wrong key stays wrong."""
    if isinstance(error, SummarizerRefused) or not isinstance(error, SummarizerError):
        return False
    return not error.args or error.args[0] not in _LASTING


def _error_of(state: RetryCallState) -> Exception:
    error = state.outcome.exception() if state.outcome is not None else None
    return error if isinstance(error, Exception) else SummarizerError()
