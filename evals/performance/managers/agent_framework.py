"""Microsoft's agent-framework: SummarizationStrategy inside the strategy that holds a token budget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from agent_framework import Content
from agent_framework import Message as Native
from agent_framework._compaction import SummarizationStrategy, TokenBudgetComposedStrategy, apply_compaction

from evals.performance.managers import KEEP, TRIGGER, Manager, Setup
from evals.performance.tokens import Message, render, text_tokens, tool_call


class Counter:
    """The counter of this benchmark, as the framework wants it."""

    def count_tokens(self, text: str) -> int:
        return text_tokens(text)


class AgentFramework(Manager):
    """Messages of one agent, annotated and projected before each request. It is its own chat client for summaries."""

    def __init__(self, setup: Setup) -> None:
        self.model, self.messages = setup.model, list[Native]()
        strategy = SummarizationStrategy(client=self, target_count=KEEP, threshold=KEEP // 2, tokenizer=Counter())
        budget = int(setup.budget * TRIGGER)
        self.strategy = TokenBudgetComposedStrategy(token_budget=budget, tokenizer=Counter(), strategies=[strategy])

    async def get_response(self, messages: list[Native], **_: Any) -> Any:
        return SimpleNamespace(text=await self.model.summarize(render(self.shown(messages))))

    def taken(self, message: Message) -> Native:
        if message["role"] == "tool":
            return Native("tool", [Content.from_function_result(message["tool_call_id"], result=message["content"])])
        contents = [Content.from_text(message["content"])]
        for call in message.get("tool_calls") or ():
            function = call["function"]
            asked = Content.from_function_call(call["id"], function["name"], arguments=function["arguments"])
            contents.append(asked)
        return Native(message["role"], contents)

    async def add(self, message: Native) -> None:
        self.messages.append(message)

    async def view(self) -> Any:
        return await apply_compaction(self.messages, strategy=self.strategy, tokenizer=Counter())

    def shown(self, view: Any) -> list[Message]:
        return [row for message in view for row in _rows(message)]


def _rows(message: Native) -> list[Message]:
    results = [content for content in message.contents if content.type == "function_result"]
    if results:
        return [{"role": "tool", "tool_call_id": one.call_id, "content": str(one.result)} for one in results]
    text = "".join(content.text for content in message.contents if content.type == "text")
    row: Message = {"role": str(message.role), "content": text}
    calls = [content for content in message.contents if content.type == "function_call"]
    if calls:
        row["tool_calls"] = [tool_call(call.call_id, call.name, call.arguments) for call in calls]
    return [row]


async def open_manager(setup: Setup) -> Manager:
    return AgentFramework(setup)
