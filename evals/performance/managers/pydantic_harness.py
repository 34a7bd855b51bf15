"""pydantic-ai-harness: SummarizingCompaction in the request, or FallbackCompaction with its background start."""

import json
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import (
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

from evals.performance.managers import KEEP, TRIGGER, Manager
from evals.performance.tokens import Message, calls_of, render, rows_of, text_tokens

DOCUMENTED_KEEP = 0.10  # of the window: the README's 20,000 tokens of 200,000
DOCUMENTED_START = 0.85  # of the trigger


class Adapter(Manager):
    """The hook that the agent loop calls before each request of a model."""

    async def open(self) -> None:
        self.chat, self.messages = FunctionModel(self.answer), list[ModelMessage]()
        counted: Any = {"tokenizer": text_tokens}
        few: Any = {"max_messages": 1, "keep_tokens": int(self.budget * DOCUMENTED_KEEP), **counted}
        self.compaction: Any = FallbackCompaction(
            max_fraction=TRIGGER,
            context_window=self.budget,
            background_start=DOCUMENTED_START,
            fallback_chain=[SummarizingCompaction(model=self.chat, **few), SlidingWindowCompaction(**few)],
            **counted,
        )
        if self.name == "pydantic":
            trigger = int(self.budget * TRIGGER)
            self.compaction = SummarizingCompaction(model=self.chat, max_tokens=trigger, keep_messages=KEEP, **counted)

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        text = await self.model.summarize(f"{info.instructions or ''}\n{render(self.rows(messages))}")
        return ModelResponse(parts=[TextPart(text)])

    async def append(self, message: Message) -> None:
        role, content = message["role"], message["content"]
        if role == "user":
            rules = [SystemPromptPart(row["content"]) for row in self.system]
            self.messages.append(ModelRequest(parts=[*rules, UserPromptPart(content)]))
            self.system = []  # they stand in the first request
        elif role == "tool":
            result = ToolReturnPart("read_file", content, tool_call_id=message["tool_call_id"])
            last = self.messages[-1]
            if isinstance(last, ModelRequest):
                self.messages[-1] = replace(last, parts=[*last.parts, result])
            else:
                self.messages.append(ModelRequest(parts=[result]))
        else:
            calls = [ToolCallPart(name, json.dumps(arguments), id) for id, name, arguments in calls_of(message)]
            self.messages.append(ModelResponse(parts=[TextPart(content), *calls]))

    async def view(self) -> list[ModelMessage]:
        run = RunContext(deps=None, model=self.chat, usage=RunUsage(), messages=self.messages, conversation_id="one")
        request = ModelRequestContext(
            model=self.chat,
            messages=list(self.messages),
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        request = await self.compaction.before_model_request(run, request)
        self.messages = run.messages
        return list(request.messages)

    def plain(self, message: ModelMessage) -> list[Message]:
        if isinstance(message, ModelResponse):
            text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
            calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
            return rows_of("assistant", text, [(call.tool_call_id, call.tool_name, call.args) for call in calls])
        rows: list[Message] = []
        for part in message.parts:
            pieces = [part.content] if isinstance(part.content, str) else part.content or []
            text = "".join(piece if isinstance(piece, str) else getattr(piece, "content", "") for piece in pieces)
            if isinstance(part, ToolReturnPart):
                rows += rows_of("tool", "", results=[(part.tool_call_id, text)])
            else:
                rows += rows_of("system" if isinstance(part, SystemPromptPart) else "user", text)
        return rows

    async def close(self) -> None:
        if isinstance(self.compaction, FallbackCompaction):
            await self.compaction.aclose()
