"""This package, as a user opens it: a durable log in SQLite, views from memory, summaries in the background."""

from collections.abc import Sequence

from evals.performance.fake_model import FakeModel
from evals.performance.managers import Manager
from evals.performance.tokens import Message, text_tokens
from summarizing_context import Settings, SummaryJob, open_context


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


class Adapter(Manager):
    """A context that closes with its manager."""

    async def open(self) -> None:
        settings = Settings(store=self.folder / "ours.db", session_id="one", max_tokens=self.budget)
        by_model = None if self.name == "ours-extractive" else ByFakeModel(self.model)
        self.opened = open_context(settings, summarizer=by_model, count_tokens=text_tokens)
        self.context = await self.opened.__aenter__()

    async def add(self, message: Message) -> None:
        await self.context.add_message(message)

    async def load(self, messages: Sequence[Message]) -> None:
        await self.context.set_messages(messages)

    async def view(self) -> list[Message]:
        return await self.context.get_messages_for_request()

    async def settle(self) -> None:
        await self.context.wait_idle()

    async def close(self) -> None:
        await self.opened.__aexit__(None, None, None)
