"""LangChain's SummarizationMiddleware: a hook before the model rewrites the messages of the graph's state.

The messages, the counter of tokens and the chat model are deepagents', too.
"""

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph.message import add_messages

from evals.performance.managers import TRIGGER, Manager
from evals.performance.tokens import CHARACTERS, FRAME, Message, calls_of, render, rows_of

IDS = count(1)  # the reducer of a graph gives each message an id
ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
KINDS = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage, "tool": ToolMessage}


def to_langchain(message: Message) -> BaseMessage:
    fields: dict[str, Any] = {"content": message["content"], "id": f"m{next(IDS)}"}
    if message["role"] == "tool":
        fields |= {"tool_call_id": message["tool_call_id"], "name": "read_file"}
    if message["role"] == "assistant":
        fields["tool_calls"] = [{"id": id, "name": name, "args": given} for id, name, given in calls_of(message)]
    return KINDS[message["role"]](**fields)


def count_tokens(messages: Sequence[BaseMessage], **_: Any) -> int:
    """What `tokens` counts, without the way over plain messages."""
    total = 0
    for message in messages:
        characters = FRAME + len(_text(message))
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                characters += len(call["id"] or "") + len(call["name"]) + len(json.dumps(call["args"]))
        elif isinstance(message, ToolMessage):
            characters += len(message.tool_call_id)
        total += -(-characters // CHARACTERS)
    return total


def _text(message: BaseMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(part if isinstance(part, str) else part.get("text", "") for part in message.content)


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
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        asked = [(call["id"], call["name"], call["args"]) for call in calls]
        results = [(message.tool_call_id, _text(message))] if isinstance(message, ToolMessage) else []
        return rows_of(ROLES[message.type], _text(message), asked, results)
