"""Pydantic AI's `Agent` with a compaction of its harness or this package's capability. The history is a run's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from evals.hosts_beside.play import Stage
from evals.hosts_beside.rows import DESCRIPTION, PROMPT, Call, Row, tokens, wire

_KEEP = 0.10  # of the window, as in the example of the harness: 20,000 tokens of 200,000
_TRIGGER = _START = 0.85  # of the window, and of that; from the same example


class PydanticHost:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._history: list[ModelMessage] = []

    async def __aenter__(self) -> PydanticHost:
        self._capability = _capability(self._stage)
        model = FunctionModel(self._reply)
        self._agent: Any = Agent(model, instructions=PROMPT, capabilities=[self._capability])

        @self._agent.tool_plain(description=DESCRIPTION)
        async def read(path: str) -> str:
            return self._stage.result(path)

        return self

    async def __aexit__(self, *_: object) -> None:
        if self._stage.arm == "Pydantic AI in the background":
            await self._capability.aclose()
        elif self._stage.arm == "ours in Pydantic AI":
            await self._capability.close()

    async def _reply(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        rows = _request(messages, info)
        reply = await self._stage.reply(rows)
        calls = [ToolCallPart("read", {"path": call.path}, call.id) for call in reply.calls]
        usage = RequestUsage(input_tokens=tokens(wire(rows)), output_tokens=tokens(reply.wire))
        return ModelResponse(parts=[TextPart(reply.text), *calls], usage=usage)

    async def ask(self, prompt: str) -> None:
        run = await self._agent.run(prompt, message_history=self._history, conversation_id="beside")
        self._history = run.all_messages()


def _capability(stage: Stage) -> Any:
    if stage.arm == "ours in Pydantic AI":
        from evals.hosts_beside.ours import options
        from summarizing_context.adapters.pydantic_ai import SummarizingCapability

        settings, beside = options(stage.setting, stage.reader)
        return SummarizingCapability(settings, **beside)
    from pydantic_ai_harness.compaction import FallbackCompaction, SlidingWindowCompaction, SummarizingCompaction

    async def summarize(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(await stage.reader.summarize(_request(messages, info)))])

    model = FunctionModel(summarize)
    if stage.arm == "Pydantic AI":
        return SummarizingCompaction(model=model, max_tokens=stage.setting)
    keep = int(stage.setting * _KEEP)
    return FallbackCompaction(
        max_fraction=_TRIGGER,
        context_window=stage.setting,
        background_start=_START,
        fallback_chain=[
            SummarizingCompaction(model=model, max_messages=1, keep_tokens=keep),
            SlidingWindowCompaction(max_messages=1, keep_tokens=keep),
        ],
    )


def _request(messages: Sequence[ModelMessage], info: AgentInfo) -> list[Row]:
    return [Row("system", info.instructions or ""), *_rows(messages)]


def _rows(messages: Sequence[ModelMessage]) -> Iterator[Row]:
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                yield _row(part)
            continue
        calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
        others = [part.content or "" for part in message.parts if not isinstance(part, ToolCallPart)]  # type: ignore[union-attr]
        made = tuple(Call(call.tool_call_id, call.args_as_dict()["path"]) for call in calls)
        yield Row("assistant", "\n".join(map(str, others)), made)


def _row(part: Any) -> Row:
    if isinstance(part, ToolReturnPart):
        return Row("tool", part.model_response_str(), answers=part.tool_call_id)
    content = part.content
    if not isinstance(content, str):
        content = "\n".join(str(getattr(piece, "content", piece)) for piece in content)
    return Row("system" if part.part_kind == "system-prompt" else "user", content)
