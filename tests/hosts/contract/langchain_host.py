"""LangChain's `create_agent` with its fake chat model and a checkpointer, in turn synchronous and asynchronous."""

import json
from collections.abc import Sequence
from typing import Any, Self

import anyio.to_thread
import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from summarizing_context import Settings
from summarizing_context.adapters.langchain import SummarizingMiddleware
from tests.hosts.contract.judge import Call, Row
from tests.hosts.contract.script import PROMPT, SIZES, Host

CONFIG: Any = {"configurable": {"thread_id": "contract"}, "recursion_limit": 100}


class Model(GenericFakeChatModel):
    messages: Any = iter(())
    conversation: Any = None

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *rest: Any, **named: Any) -> Any:
        assert isinstance(messages[0], SystemMessage)
        assert messages[0].content == PROMPT
        reply = self.conversation.reply([row_of(message) for message in messages[1:]])
        self.messages = iter([message_of(reply)])
        return super()._generate(messages, *rest, **named)


class LangChainHost(Host):
    session = "langchain:contract"

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._saver = InMemorySaver()

    async def __aenter__(self) -> Self:
        @tool
        def read(path: str) -> str:
            """Read a file."""
            return self.conversation.result(path)

        self.middleware = SummarizingMiddleware(Settings(store=self.store, **SIZES), **self.options)
        self._agent: Any = create_agent(
            Model(conversation=self.conversation),
            [read, *self.tools],
            system_prompt=PROMPT,
            middleware=[self.middleware],
            checkpointer=self._saver,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await anyio.to_thread.run_sync(self.middleware.close)

    async def ask(self, prompt: str) -> None:
        asked = {"messages": [HumanMessage(prompt)]}
        if self.turns % 2:
            await self._agent.ainvoke(asked, CONFIG)
        else:
            await anyio.to_thread.run_sync(self._agent.invoke, asked, CONFIG)

    async def put(self, log: Sequence[Row]) -> None:
        state = self._state()
        changes: list[BaseMessage] = []
        for message, row in zip(state, log, strict=False):
            if row_of(message) != row:
                changes.append(message_of(row).model_copy(update={"id": message.id}))
        changes += [RemoveMessage(str(message.id)) for message in state[len(log) :]]
        changes += [message_of(row) for row in log[len(state) :]]
        await self._agent.aupdate_state(CONFIG, {"messages": changes})

    async def history(self) -> list[Row]:
        return [row_of(message) for message in self._state()]

    async def figures(self) -> Any:
        return self.middleware.statistics()[self.session]

    def _state(self) -> list[BaseMessage]:
        found: list[BaseMessage] = self._agent.get_state(CONFIG).values["messages"]
        return found


def message_of(row: Row) -> BaseMessage:
    if row.role == "user":
        return HumanMessage(row.text)
    if row.role == "tool":
        return ToolMessage(row.text, tool_call_id=row.answers)
    calls = [{"name": call.name, "args": json.loads(call.arguments), "id": call.id} for call in row.calls]
    thinking = [{"type": "thinking", "thinking": row.thinking, "signature": "c2lnbmVk"}] if row.thinking else []
    used = [{"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]} for call in calls]
    return AIMessage([*thinking, {"type": "text", "text": row.text}, *used], tool_calls=calls)


def row_of(message: BaseMessage) -> Row:
    role = {"human": "user", "ai": "assistant", "tool": "tool"}.get(message.type, message.type)
    asked, answers = getattr(message, "tool_calls", []), getattr(message, "tool_call_id", None)
    blocks: list[Any] = [message.content] if isinstance(message.content, str) else message.content
    texts = [block if isinstance(block, str) else block.get("text", "") for block in blocks]
    thinking = [block["thinking"] for block in blocks if isinstance(block, dict) and block["type"] == "thinking"]
    calls = tuple(Call(call["id"], call["name"], json.dumps(call["args"])) for call in asked)
    wire = json.dumps([role, message.content, asked, answers])
    return Row(role, "\n".join(filter(None, texts)), calls, answers, "\n".join(thinking), wire)
