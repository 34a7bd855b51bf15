"""This package, as a user opens it: a durable log in SQLite, views from memory, summaries in the background."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from evals.performance.fake_model import FakeModel
from evals.performance.managers import Manager, Setup
from evals.performance.tokens import Message, text_tokens
from summarizing_context import Settings, SummarizingContext, SummaryJob, open_context


class ByFakeModel:
    """The fake model behind the port of this package."""

    recipe = "fake-model/1"

    def __init__(self, model: FakeModel) -> None:
        self.model = model

    async def summarize(self, job: SummaryJob) -> str:
        if job.kind == "rules":
            await self.model.summarize(job.prompt, 1)
            return "none"
        most = min(job.max_tokens // 2, job.source_tokens // 4)  # by any counter no more than the job allows
        return await self.model.summarize(job.prompt, min(most, self.model.max_tokens))


class Ours(Manager):
    """A context that closes with its manager."""

    def __init__(self, context: SummarizingContext, closing: AsyncExitStack) -> None:
        self.context, self.closing = context, closing

    async def add(self, message: Message) -> None:
        await self.context.add_message(message)

    async def load(self, messages: Sequence[Message]) -> None:
        await self.context.set_messages(messages)

    async def view(self) -> list[Message]:
        return await self.context.get_messages_for_request()

    async def settle(self) -> None:
        await self.context.wait_idle()

    async def close(self) -> None:
        await self.closing.aclose()


async def open_manager(setup: Setup) -> Manager:
    closing = AsyncExitStack()
    settings = Settings(store=setup.folder / "ours.db", session_id="one", max_tokens=setup.budget)
    by_model = None if setup.name == "ours-extractive" else ByFakeModel(setup.model)
    opened = open_context(settings, summarizer=by_model, count_tokens=text_tokens)
    return Ours(await closing.enter_async_context(opened), closing)
