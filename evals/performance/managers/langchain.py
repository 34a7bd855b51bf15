"""LangChain's SummarizationMiddleware: a hook before the model rewrites the messages; deepagents shares most."""

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph.message import add_messages

from evals.performance.managers import TRIGGER, Manager
from evals.performance.tokens import CHARACTERS, FRAME, Message, render

IDS = count(1)  # the reducer of a graph gives each message an id


def to_langchain(message: Message) -> BaseMessage:
    return convert_to_messages([{**message, "id": f"m{next(IDS)}"}])[0]


def count_tokens(messages: Sequence[BaseMessage], **_: Any) -> int:
    """What `tokens` counts, without the way over plain messages."""
    total = 0
    for message in messages:
        characters = FRAME + len(message.text)
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                characters += len(call["id"] or "") + len(call["name"]) + len(json.dumps(call["args"]))
        elif isinstance(message, ToolMessage):
            characters += len(message.tool_call_id)
        total += -(-characters // CHARACTERS)
    return total


class ChatModel(BaseChatModel):
    """A chat model whose answers are the fake summarizer's."""

    manager: Any

    @property
    def _llm_type(self) -> str:
        return "fake"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        text = await self.manager.model.summarize(render(self.manager.rows(messages)))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text))])


class Adapter(Manager):
    """The state of a graph, reduced and sent as `create_agent` does."""

    async def open(self) -> None:
        self.messages: Any = []
        trigger, model = ("tokens", int(self.budget * TRIGGER)), ChatModel(manager=self)
        self.middleware = SummarizationMiddleware(model=model, trigger=trigger, token_counter=count_tokens)

    async def append(self, message: Message) -> None:
        self.messages.append(to_langchain(message))

    async def view(self) -> list[BaseMessage]:
        update = await self.middleware.abefore_model({"messages": self.messages}, None)
        if update:
            self.messages = add_messages(self.messages, update["messages"])
        return list(self.messages)

    def plain(self, message: BaseMessage) -> list[Message]:
        return [convert_to_openai_messages(message)]
