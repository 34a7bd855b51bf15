"""Pydantic AI's `Agent` with its `FunctionModel`. Its histories are stored as the JSON that it writes itself."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Self

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai import messages as ai
from pydantic_ai.models.function import AgentInfo, FunctionModel

from summarizing_context import Settings
from summarizing_context.adapters.pydantic_ai import SummarizingCapability
from tests.hosts.contract.judge import Call, Row
from tests.hosts.contract.script import PROMPT, SIZES, Host


class PydanticHost(Host):
    _history: Sequence[ai.ModelMessage] = ()

    async def __aenter__(self) -> Self:
        self.capability = SummarizingCapability(Settings(store=self.store, **SIZES), **self.options)

        def read(path: str) -> str:
            """Read a file."""
            return self.conversation.result(path)

        given: Any = {"tools": [read, *self.tools], "capabilities": [self.capability]}
        self._agent = Agent(FunctionModel(self._reply), instructions=PROMPT, **given)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.capability.close()

    def _reply(self, messages: list[ai.ModelMessage], info: AgentInfo) -> ai.ModelResponse:
        assert info.instructions == PROMPT
        return response_of(self.conversation.reply(list(rows_of(messages))))

    async def ask(self, prompt: str) -> None:
        run = await self._agent.run(prompt, message_history=self._history, conversation_id=self.session)
        self._history = run.all_messages()

    async def put(self, log: Sequence[Row]) -> None:
        kept, at = [], 0
        for message in self._history:
            rows = list(rows_of([message]))
            if list(log[at : at + len(rows)]) != rows:
                break
            kept.append(message)
            at += len(rows)
        self._history = [*kept, *messages_of(log[at:])]

    async def history(self) -> list[Row]:
        return list(rows_of(self._history))

    async def restart(self) -> None:
        self._history = ai.ModelMessagesTypeAdapter.validate_json(ai.ModelMessagesTypeAdapter.dump_json(self._history))
        await super().restart()

    async def figures(self) -> Any:
        return (await self.capability.context_of(self.session)).statistics()


def response_of(row: Row) -> ai.ModelResponse:
    thinking = [ai.ThinkingPart(row.thinking, signature="c2lnbmVk", provider_name="anthropic")] if row.thinking else []
    calls = [ai.ToolCallPart(call.name, json.loads(call.arguments), call.id) for call in row.calls]
    return ai.ModelResponse(parts=[*thinking, ai.TextPart(row.text), *calls])


def messages_of(rows: Sequence[Row]) -> Iterator[ai.ModelMessage]:
    for row in rows:
        if row.role == "assistant":
            yield response_of(row)
        elif row.role == "tool":
            yield ai.ModelRequest(parts=[ai.ToolReturnPart("read", row.text, row.answers or "")])
        else:
            yield ai.ModelRequest(parts=[ai.UserPromptPart(row.text)])


def rows_of(messages: Sequence[ai.ModelMessage]) -> Iterator[Row]:
    """A part of a request is a row, and so is a response."""
    for message in messages:
        if isinstance(message, ai.ModelResponse):
            yield _row_of(message)
            continue
        for part in message.parts:
            if isinstance(part, ai.ToolReturnPart):
                text = part.model_response_str()
                yield Row("tool", text, answers=part.tool_call_id, wire=json.dumps([text, part.tool_call_id]))
            elif isinstance(part, ai.UserPromptPart):
                said = [part.content] if isinstance(part.content, str) else part.content
                yield Row("user", "\n".join(map(str, said)), wire=json.dumps(["user", part.content], default=str))
            else:
                yield Row(part.part_kind, str(part.content), wire=repr(part))


def _row_of(response: ai.ModelResponse) -> Row:
    texts, thinking, calls = [], [], []
    for part in response.parts:
        if isinstance(part, ai.ToolCallPart):
            calls.append(Call(part.tool_call_id, part.tool_name, json.dumps(part.args_as_dict())))
        else:
            (thinking if isinstance(part, ai.ThinkingPart) else texts).append(str(part.content))
    wire = json.dumps([(part.part_kind, getattr(part, "content", None) or part.args) for part in response.parts])
    return Row("assistant", "\n".join(texts), tuple(calls), thinking="\n".join(thinking), wire=wire)
