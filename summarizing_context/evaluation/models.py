"""The models of a run, asked through cassettes: who they are, how they are asked, and what a summarizer says.

A replay calls no model and needs no key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from summarizing_context.errors import SummarizerError, SummarizerRefused
from summarizing_context.evaluation.cassettes import Cassette, CassetteSummarizer, Reply, Request, maker_of
from summarizing_context.messages.fences import fence
from summarizing_context.messages.redaction import Redaction, load_redaction
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.summarizers.providers import ChatModel, address_of, make_model
from summarizing_context.summarizers.resilience.caller import call_within, declared
from summarizing_context.summarizers.resilience.retries import retry_after_of
from summarizing_context.summarizers.sdk import Fault

_backoff = wait_random_exponential(multiplier=1, min=0.5, max=8)  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One model, and how it is reached."""

    provider: str
    model: str
    base_url: str | None = None  # for recording only
    api_key: str | None = field(default=None, repr=False)  # of that server

    def settings(self, **more: Any) -> Settings:
        """Return the settings of a summarizer that asks this model."""
        return Settings(
            summarizer=self.provider, model=self.model, base_url=self.base_url, api_key=self.api_key, **more
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """Which model does what in recorded answers."""

    reader: Chat
    judge: Chat
    writer: Chat | None = None  # of questions; the reader if none is named
    summarizer: Chat | None = None  # the writer if none is named
    concurrency: int = 8
    attempts: int = 3
    call_timeout: float = 60.0  # seconds

    @property
    def chats(self) -> tuple[Chat, Chat, Chat, Chat]:
        """Summarizer, writer, reader and judge."""
        writer = self.writer or self.reader
        return self.summarizer or writer, writer, self.reader, self.judge

    def addresses_of(self, provider: str, model: str) -> list[str]:
        """Return the servers that are asked for a model, one for each of its roles."""
        chats = (chat for chat in self.chats if (chat.provider, chat.model) == (provider, model))
        return [address_of(chat.settings()) for chat in chats]


@dataclass(frozen=True, slots=True)
class CassetteFile:
    """Where the replies of a run are kept."""

    path: Path
    redact: str | None = None  # module:function, of what is taken out of messages before anything of them is kept

    def redaction(self) -> Redaction | None:
        """Return the function that `redact` names. Raise `SettingsError`."""
        return load_redaction(self.redact) if self.redact is not None else None


class RecordedModel:
    """One model, asked through the cassette."""

    def __init__(self, model: ChatModel, cassette: Cassette, plan: ModelPlan) -> None:
        name, address = declared(model, "model") or type(model).__name__, declared(model, "address")
        self.where = f"{name} at {address}" if address else name
        self.maker, self.mode = maker_of(model), cassette.mode
        self._model, self._cassette, self._plan = model, cassette, plan

    async def ask(
        self, request: Request, *, assumed: str = "", is_usable: Callable[[Reply], bool] = lambda _: True
    ) -> Reply:
        """Return the reply to a request. Raise as `Cassette.reply` does."""
        return await self._cassette.reply(request, self._send, assumed=assumed, is_usable=is_usable)

    async def _send(self, request: Request) -> SummaryReply:
        def wait(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome is not None else None
            return max(_backoff(state), retry_after_of(error) if isinstance(error, Exception) else 0.0)

        def may_pass(error: BaseException) -> bool:  # a refusal is an answer, and a wrong key stays wrong
            lasting = (Fault.KEY, Fault.NOT_FOUND, Fault.REQUEST, Fault.REDIRECT)
            refused = isinstance(error, SummarizerRefused) or not isinstance(error, SummarizerError)
            return not refused and (not error.args or error.args[0] not in lasting)

        async def call() -> SummaryReply:
            asked = self._model.complete(request.system, request.message, request.max_tokens)
            try:
                return await call_within(self._plan.call_timeout, asked)
            except SummarizerError as error:
                if not isinstance(error, SummarizerRefused):
                    error.add_note(self.where)
                raise

        stop, retry = stop_after_attempt(self._plan.attempts), retry_if_exception(may_pass)
        return await AsyncRetrying(sleep=anyio.sleep, retry=retry, wait=wait, stop=stop, reraise=True)(call)


@asynccontextmanager
async def open_summarizer(settings: Settings, cassette: Cassette | None) -> AsyncIterator[CassetteSummarizer | None]:
    """Yield the model that summarizes, behind the cassette; None where none is asked.

    Raise `SettingsError` where a model is to be asked and its key is not there.
    """
    if cassette is None or not summarizes_by_model(settings):
        yield None
        return
    model = make_model(settings, read_only=not cassette.sends)
    try:
        yield CassetteSummarizer(model, cassette)
    finally:
        await model.close()


def summarizes_by_model(settings: Settings) -> bool:
    """Return whether these settings let a model summarize."""
    return settings.summarizer in PROVIDERS


def fenced_record(text: str) -> str:
    """Return a text of a session as a reader gets it: as data, in a fence."""
    return fence("session_record", text)
