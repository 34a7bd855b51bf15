"""Microsoft's agent-framework: TokenBudgetComposedStrategy over SummarizationStrategy, applied to the whole history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

from agent_framework import (
    Content,
    SummarizationStrategy,
    TokenBudgetComposedStrategy,
    apply_compaction,
)
from agent_framework import (
    Message as FrameworkMessage,
)

from evals.performance.fake_model import FakeModel
from evals.performance.manager import TRIGGER, Manager, OneByOne, Setup
from evals.performance.tokens import Message, render, text_tokens


class Counter:
    """Its tokenizer port."""

    def count_tokens(self, text: str) -> int:
        return text_tokens(text)


class Client:
    """Its chat client port, over the fake model."""

    def __init__(self, fake: FakeModel) -> None:
        self.fake = fake

    async def get_response(self, messages: Any, **_: Any) -> Any:
        return SimpleNamespace(text=await self.fake.summarize(render(_plain(messages))))


class AgentFramework(OneByOne):
    """One annotated list of messages, as a session keeps it."""

    def __init__(self, strategy: Any) -> None:
        self.strategy, self.counter = strategy, Counter()
        self.messages: list[Any] = []
        self.ids = count(1)

    def taken(self, message: Message) -> Any:
        if message["role"] == "tool":
            contents = [Content.from_function_result(message["tool_call_id"], result=message["content"])]
        else:
            contents = [Content.from_text(message["content"]), *map(_call, message.get("tool_calls") or ())]
        return FrameworkMessage(message["role"], contents, message_id=f"m{next(self.ids)}")

    async def add(self, message: Any) -> None:
        self.messages.append(message)

    async def view(self) -> Any:
        return await apply_compaction(self.messages, strategy=self.strategy, tokenizer=self.counter)

    def shown(self, view: Any) -> list[Message]:
        return list(_plain(view))


async def open_manager(setup: Setup) -> Manager:
    summaries = SummarizationStrategy(client=Client(setup.model), tokenizer=Counter())
    budget = int(setup.budget * TRIGGER)
    return AgentFramework(TokenBudgetComposedStrategy(token_budget=budget, tokenizer=Counter(), strategies=[summaries]))


def _call(call: Message) -> Any:
    function = call["function"]
    return Content.from_function_call(call["id"], function["name"], arguments=function["arguments"])


def _plain(messages: Iterable[Any]) -> Iterator[Message]:
    for message in messages:
        role = str(getattr(message.role, "value", message.role))
        if role == "tool":
            for content in message.contents:
                if content.type == "function_result":
                    yield {"role": "tool", "tool_call_id": content.call_id, "content": str(content.result)}
            continue
        text = "".join(content.text for content in message.contents if content.type == "text")
        calls = [_plain_call(content) for content in message.contents if content.type == "function_call"]
        yield {"role": role, "content": text} | ({"tool_calls": calls} if calls else {})


def _plain_call(content: Any) -> Message:
    arguments = content.arguments if isinstance(content.arguments, str) else json.dumps(content.arguments)
    return {"id": content.call_id, "type": "function", "function": {"name": content.name, "arguments": arguments}}
