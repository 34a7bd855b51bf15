"""Messages to and from LangChain, its token counter, and its chat model over the fake one; for three of the peers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from evals.performance.tokens import CHARACTERS, FRAME, Message, render

IDS = count(1)  # the reducer of a graph gives each message an id


def to_langchain(message: Message) -> BaseMessage:
    id, content = f"m{next(IDS)}", message["content"]
    if message["role"] == "system":
        return SystemMessage(content=content, id=id)
    if message["role"] == "user":
        return HumanMessage(content=content, id=id)
    if message["role"] == "tool":
        return ToolMessage(content=content, tool_call_id=message["tool_call_id"], name="read_file", id=id)
    return AIMessage(content=content, id=id, tool_calls=[_call(call) for call in message.get("tool_calls") or ()])


def from_langchain(messages: Iterable[BaseMessage]) -> list[Message]:
    return [_plain(message) for message in messages]


def count_tokens(messages: Sequence[BaseMessage], **_: Any) -> int:
    """What `tokens` counts, without the way over plain messages."""
    return sum(map(_tokens, messages))


class ChatModel(BaseChatModel):
    """A chat model whose answers are the fake summarizer's."""

    fake: Any

    @property
    def _llm_type(self) -> str:
        return "fake"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return _result(self.fake.summarize_now(_request(messages)))

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return _result(await self.fake.summarize(_request(messages)))


def _tokens(message: BaseMessage) -> int:
    characters = FRAME + len(_text(message))
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            characters += len(call["id"] or "") + len(call["name"]) + len(json.dumps(call["args"]))
    elif isinstance(message, ToolMessage):
        characters += len(message.tool_call_id)
    return -(-characters // CHARACTERS)


def _plain(message: BaseMessage) -> Message:
    text = _text(message)
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": text}
    if isinstance(message, HumanMessage):
        return {"role": "user", "content": text}
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
    plain: Message = {"role": "assistant", "content": text}
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    if calls:
        plain["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": _function(call["name"], call["args"])} for call in calls
        ]
    return plain


def _function(name: str, arguments: Any) -> dict[str, str]:
    return {"name": name, "arguments": json.dumps(arguments)}


def _call(call: Message) -> Any:
    return {
        "id": call["id"],
        "name": call["function"]["name"],
        "args": json.loads(call["function"]["arguments"]),
        "type": "tool_call",
    }


def _text(message: BaseMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(part if isinstance(part, str) else part.get("text", "") for part in message.content)


def _request(messages: Iterable[BaseMessage]) -> str:
    return render(map(_plain, messages))


def _result(text: str) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=AIMessage(content=text))])
