"""Microsoft's agent-framework: SummarizationStrategy inside the strategy that holds a token budget."""

from types import SimpleNamespace
from typing import Any

from agent_framework import Content
from agent_framework import Message as Native
from agent_framework._compaction import SummarizationStrategy, TokenBudgetComposedStrategy, apply_compaction

from evals.performance.managers import KEEP, TRIGGER, Manager
from evals.performance.tokens import Message, render, rows_of, text_tokens


class Adapter(Manager):
    """Messages of one agent, annotated and projected before each request. It is its own chat client for summaries."""

    async def open(self) -> None:
        self.messages: list[Native] = []
        self.counter: Any = {"tokenizer": SimpleNamespace(count_tokens=text_tokens)}
        strategy = SummarizationStrategy(client=self, target_count=KEEP, threshold=KEEP // 2, **self.counter)
        budget = int(self.budget * TRIGGER)
        self.strategy = TokenBudgetComposedStrategy(token_budget=budget, strategies=[strategy], **self.counter)

    async def get_response(self, messages: list[Native], **_: Any) -> Any:
        return SimpleNamespace(text=await self.model.summarize(render(self.rows(messages))))

    async def add(self, message: Message) -> None:
        contents = [Content.from_text(message["content"])]
        if message["role"] == "tool":
            contents = [Content.from_function_result(message["tool_call_id"], result=message["content"])]
        calls = message.get("tool_calls", ())
        contents += [Content.from_function_call(call["id"], **call["function"]) for call in calls]
        self.messages.append(Native(message["role"], contents))

    async def view(self) -> Any:
        return await apply_compaction(self.messages, strategy=self.strategy, **self.counter)

    def plain(self, message: Native) -> list[Message]:
        results = [content for content in message.contents if content.type == "function_result"]
        calls = [content for content in message.contents if content.type == "function_call"]
        text = "".join(content.text for content in message.contents if content.type == "text")
        asked = [(call.call_id, call.name, call.arguments) for call in calls]
        return rows_of(str(message.role), text, asked, [(one.call_id, str(one.result)) for one in results])
