"""pydantic-ai-harness: SummarizingCompaction in the request, or FallbackCompaction with its background start.

A failure of the model reaches it as pydantic-ai's own ModelHTTPError, as from a real provider.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.compaction import FallbackCompaction, SlidingWindowCompaction, SummarizingCompaction

from evals.performance.fake_model import FakeModel, ModelDown
from evals.performance.manager import TRIGGER, Manager, OneByOne, Setup
from evals.performance.tokens import Message, render, text_tokens

DOCUMENTED_KEEP = 0.10  # of the window: the README's 20,000 tokens of 200,000
DOCUMENTED_START = 0.85  # of the trigger
CONVERSATION = "one"


class PydanticHarness(OneByOne):
    """The hook that the agent loop calls before each request of a model."""

    def __init__(self, compaction: Any, model: FunctionModel) -> None:
        self.compaction, self.model = compaction, model
        self.messages: list[ModelMessage] = []
        self.system: list[SystemPromptPart] = []

    def taken(self, message: Message) -> Any:
        if message["role"] == "assistant":
            calls = [_call(call) for call in message.get("tool_calls") or ()]
            return ModelResponse(parts=[TextPart(message["content"]), *calls])
        if message["role"] == "tool":
            return ToolReturnPart("read_file", message["content"], tool_call_id=message["tool_call_id"])
        return (SystemPromptPart if message["role"] == "system" else UserPromptPart)(message["content"])

    async def add(self, message: Any) -> None:
        if isinstance(message, SystemPromptPart):
            self.system.append(message)
        elif isinstance(message, UserPromptPart):
            self.messages.append(ModelRequest(parts=[*self.system, message]))
            self.system = []
        elif isinstance(message, ToolReturnPart):
            self._answer(message)
        else:
            self.messages.append(message)

    async def view(self) -> list[ModelMessage]:
        run = RunContext(
            deps=None, model=self.model, usage=RunUsage(), messages=self.messages, conversation_id=CONVERSATION
        )
        request = ModelRequestContext(
            model=self.model,
            messages=list(self.messages),
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        request = await self.compaction.before_model_request(run, request)
        self.messages = run.messages
        return list(request.messages)

    def shown(self, view: Any) -> list[Message]:
        return list(_plain(view))

    async def close(self) -> None:
        if isinstance(self.compaction, FallbackCompaction):
            await self.compaction.aclose()

    def _answer(self, result: ToolReturnPart) -> None:
        last = self.messages[-1]
        if isinstance(last, ModelRequest):
            self.messages[-1] = replace(last, parts=[*last.parts, result])
        else:
            self.messages.append(ModelRequest(parts=[result]))


async def open_manager(setup: Setup) -> Manager:
    model = _model(setup.model)
    if setup.name == "pydantic":
        trigger = int(setup.budget * TRIGGER)
        alone = SummarizingCompaction(model=model, max_tokens=trigger, tokenizer=text_tokens, keep_messages=20)
        return PydanticHarness(alone, model)
    tokens = int(setup.budget * DOCUMENTED_KEEP)
    chain = FallbackCompaction(
        max_fraction=TRIGGER,
        context_window=setup.budget,
        background_start=DOCUMENTED_START,
        tokenizer=text_tokens,
        fallback_chain=[
            SummarizingCompaction(model=model, max_messages=1, keep_tokens=tokens, tokenizer=text_tokens),
            SlidingWindowCompaction(max_messages=1, keep_tokens=tokens, tokenizer=text_tokens),
        ],
    )
    return PydanticHarness(chain, model)


def _model(fake: FakeModel) -> FunctionModel:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        try:
            text = await fake.summarize(f"{info.instructions or ''}\n{render(_plain(messages))}")
            return ModelResponse(parts=[TextPart(text)])
        except ModelDown as error:
            raise ModelHTTPError(503, "fake") from error

    return FunctionModel(answer)


def _plain(messages: Iterable[ModelMessage]) -> Iterator[Message]:
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                yield _row(part)
            continue
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
        row: Message = {"role": "assistant", "content": text}
        yield row | ({"tool_calls": [_plain_call(call) for call in calls]} if calls else {})


def _row(part: Any) -> Message:
    if isinstance(part, SystemPromptPart):
        return {"role": "system", "content": part.content}
    if isinstance(part, ToolReturnPart):
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.content}
    if isinstance(part, CompactionPart):
        return {"role": "user", "content": part.content or ""}
    content = part.content
    if not isinstance(content, str):
        content = "".join(piece if isinstance(piece, str) else getattr(piece, "content", "") for piece in content)
    return {"role": "user", "content": content}


def _call(call: Message) -> ToolCallPart:
    return ToolCallPart("read_file", call["function"]["arguments"], tool_call_id=call["id"])


def _plain_call(call: ToolCallPart) -> Message:
    arguments = call.args if isinstance(call.args, str) else json.dumps(call.args)
    return {"id": call.tool_call_id, "type": "function", "function": {"name": call.tool_name, "arguments": arguments}}
