"""langmem's asummarize_messages: a function over the whole history that carries a running summary along."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage
from langmem.short_term import RunningSummary, asummarize_messages

from evals.performance.manager import TRIGGER, Manager, OneByOne, Setup
from evals.performance.managers.langchain_messages import ChatModel, count_tokens, from_langchain, to_langchain
from evals.performance.tokens import Message

SUMMARY_TOKENS = 256  # its default


class LangMem(OneByOne):
    """The history is append-only; the running summary is kept between requests."""

    def __init__(self, setup: Setup) -> None:
        self.model, self.budget = ChatModel(fake=setup.model), setup.budget
        self.before_summary = int(setup.keep or setup.budget * TRIGGER - SUMMARY_TOKENS)
        self.messages: list[BaseMessage] = []
        self.running: RunningSummary | None = None

    def taken(self, message: Message) -> BaseMessage:
        return to_langchain(message)

    async def add(self, message: BaseMessage) -> None:
        self.messages.append(message)

    async def view(self) -> list[BaseMessage]:
        result = await asummarize_messages(
            self.messages,
            running_summary=self.running,
            model=self.model,
            max_tokens=self.budget,
            max_tokens_before_summary=self.before_summary,
            max_summary_tokens=SUMMARY_TOKENS,
            token_counter=count_tokens,
        )
        self.running = result.running_summary or self.running
        return list(result.messages)

    def shown(self, view: Any) -> list[Message]:
        return from_langchain(view)


async def open_manager(setup: Setup) -> Manager:
    return LangMem(setup)
