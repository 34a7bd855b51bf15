"""This package, as a user opens it: a durable log in one SQLite file, views from memory, summaries in the background.

One session name is one session of the same file, so that a second opening finds what the first has made.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from evals.performance.fake_model import FakeModel
from evals.performance.manager import Manager, OneByOne, Setup
from evals.performance.tokens import Message, text_tokens
from summarizing_context import Settings, SummarizingContext, SummaryJob, open_context

SETTLING = 120.0  # seconds


class ByFakeModel:
    """The fake model behind the port of this package."""

    recipe = "fake-model/1"

    def __init__(self, model: FakeModel) -> None:
        self.model = model
        self.content_tokens = 0  # of what was sent, the fixed prompt text left out

    async def summarize(self, job: SummaryJob) -> str:
        answer = await self.model.summarize(job.prompt)
        self.content_tokens += text_tokens(job.content)
        return "none" if job.kind == "rules" else answer


class Ours(OneByOne):
    """A context that closes with its manager."""

    def __init__(self, context: SummarizingContext, closing: AsyncExitStack, by_model: ByFakeModel | None) -> None:
        self.context, self.closing, self.by_model = context, closing, by_model

    def taken(self, message: Message) -> Message:
        return message

    async def add(self, message: Message) -> None:
        await self.context.add_message(message)

    async def load(self, messages: Sequence[Message]) -> None:
        await self.context.set_messages(messages)

    async def view(self) -> list[Message]:
        return await self.context.get_messages_for_request()

    def shown(self, view: Any) -> list[Message]:
        return list(view)

    async def settle(self) -> None:
        await self.context.wait_idle(SETTLING)

    def notes(self) -> dict[str, Any]:
        """Counts of its own; `unseen_tokens` counts what the extractive pass read as seen, which nobody outside can."""
        told = self.context.statistics()
        return {
            "unseen_tokens": self.context.unseen_tokens(),
            "activations": dict(told.activations_by_reason),
            "stand_ins": told.stand_ins,
            "max_passes": told.max_passes,
            "refused_replies": told.refused_replies,
            "breaker": told.breaker,
            "blocks": len(self.context.explain()),
            "content_tokens": self.by_model.content_tokens if self.by_model else 0,
        }

    async def close(self) -> None:
        await self.closing.aclose()


async def open_manager(setup: Setup) -> Manager:
    closing = AsyncExitStack()
    settings = Settings(
        store=setup.folder.parent / "ours.db",
        session_id=setup.folder.name,
        max_tokens=setup.budget,
    )
    by_model = None if setup.name == "ours-extractive" else ByFakeModel(setup.model)
    opened = open_context(settings, summarizer=by_model, count_tokens=text_tokens)
    return Ours(await closing.enter_async_context(opened), closing, by_model)
