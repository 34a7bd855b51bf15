"""The models of a run, asked through cassettes: who they are, how they are asked, and what a summarizer says.

A replay calls no model and needs no key.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from summarizing_context.errors import CassetteError, SummarizerError, SummarizerRefused
from summarizing_context.evaluation.cassettes import Cassette, Reply, Request
from summarizing_context.evaluation.dry_run import assumed_summary
from summarizing_context.messages.fences import fence
from summarizing_context.messages.redaction import Redaction, load_redaction
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.providers import ChatModel, address_of, make_model
from summarizing_context.summarizers.resilience.caller import call_within, declared
from summarizing_context.summarizers.resilience.retries import retry_after_of
from summarizing_context.summarizers.sdk import Fault

_ATTEMPTS = 3
_LASTING = (Fault.KEY, Fault.NOT_FOUND, Fault.REQUEST, Fault.REDIRECT)  # a wrong key stays wrong


def _pause(attempt: int) -> float:
    return random.uniform(0.5, 2.0**attempt)  # seconds


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
    """One model, asked through the cassette; also a summarizer of a context. Closing `model` is its owner's."""

    def __init__(self, model: ChatModel, cassette: Cassette, timeout: float = 60.0) -> None:
        self.model, address = declared(model, "model") or type(model).__name__, declared(model, "address")
        self.where = f"{self.model} at {address}" if address else self.model
        # A recipe names the server, and a cassette is replayed anywhere.
        self.maker = re.sub(r";server=[0-9a-f]+", "", declared(model, "recipe") or self.model)
        self.recipe = f"cassette/{self.maker}"
        self.mode = cassette.mode
        self._model, self._cassette, self._timeout = model, cassette, timeout

    async def ask(
        self, request: Request, *, assumed: str = "", is_usable: Callable[[Reply], bool] = lambda _: True
    ) -> Reply:
        """Return the reply to a request, asked again while that may help. Raise as `Cassette.reply` does."""
        return await self._cassette.reply(request, self._send, assumed=assumed, is_usable=is_usable)

    async def _send(self, request: Request) -> SummaryReply:
        for attempt in range(1, _ATTEMPTS + 1):
            asked = self._model.complete(request.system, request.message, request.max_tokens)
            try:
                return await call_within(self._timeout, asked)
            except SummarizerRefused:  # an answer
                raise
            except SummarizerError as error:
                error.add_note(self.where)
                is_lasting = bool(error.args) and error.args[0] in _LASTING
                if is_lasting or attempt == _ATTEMPTS:
                    raise
                await anyio.sleep(max(_pause(attempt), retry_after_of(error)))
        raise AssertionError("attempts end")

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the recorded summary. Raise `SummarizerRefused` where there is none; `Cassette.check` says why."""
        system, user = job.instructions, (job.content,)
        request = Request(job.kind, self.maker, system=system, user=user, max_tokens=job.max_tokens)

        async def send(clean: Request) -> str | SummaryReply:
            try:
                return await self._model.summarize(replace(job, instructions=clean.system, content=clean.user[0]))
            except SummarizerError as error:
                error.add_note(self.where)
                raise

        try:
            reply = await self._cassette.reply(request, send, assumed=assumed_summary(job))
        except CassetteError:
            raise SummarizerRefused("no reply is recorded") from None
        if reply.fault:
            raise SummarizerRefused(reply.fault)
        return SummaryReply(reply.text, reply.input_tokens, reply.output_tokens, reply.truncated, reply.cached_tokens)


@asynccontextmanager
async def open_summarizer(settings: Settings, cassette: Cassette | None) -> AsyncIterator[RecordedModel | None]:
    """Yield the model that summarizes, behind the cassette; None where none is asked.

    Raise `SettingsError` where a model is to be asked and its key is not there.
    """
    if cassette is None or not summarizes_by_model(settings):
        yield None
        return
    model = make_model(settings, read_only=not cassette.sends)
    try:
        yield RecordedModel(model, cassette)
    finally:
        await model.close()


def summarizes_by_model(settings: Settings) -> bool:
    """Return whether these settings let a model summarize."""
    return settings.summarizer in PROVIDERS


def fenced_record(text: str) -> str:
    """Return a text of a session as a reader gets it: as data, in a fence."""
    return fence("session_record", text)
