"""LangChain's SummarizationMiddleware: a hook before the model rewrites the messages of the graph's state."""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import BaseMessage, SystemMessage
from langgraph.graph.message import add_messages

from evals.performance.manager import TRIGGER, Manager, OneByOne, Setup
from evals.performance.managers.langchain_messages import ChatModel, count_tokens, from_langchain, to_langchain
from evals.performance.tokens import Message


class LangChain(OneByOne):
    """The state of a graph, reduced and sent as `create_agent` does."""

    def __init__(self, middleware: SummarizationMiddleware) -> None:
        self.middleware = middleware
        self.system: list[BaseMessage] = []
        self.messages: Any = []

    def taken(self, message: Message) -> BaseMessage:
        return to_langchain(message)

    async def add(self, message: BaseMessage) -> None:
        (self.system if isinstance(message, SystemMessage) else self.messages).append(message)

    async def view(self) -> list[BaseMessage]:
        update = await self.middleware.abefore_model({"messages": self.messages}, None)
        if update:
            self.messages = add_messages(self.messages, update["messages"])
        return [*self.system, *self.messages]

    def shown(self, view: Any) -> list[Message]:
        return from_langchain(view)


async def open_manager(setup: Setup) -> Manager:
    trigger = ("tokens", int(setup.budget * TRIGGER))
    model = ChatModel(fake=setup.model)
    return LangChain(SummarizationMiddleware(model=model, trigger=trigger, token_counter=count_tokens))
