"""The runner and the session of the OpenAI Agents SDK with its `ScriptedModel`; every second run is streamed."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Self

import pytest

pytest.importorskip("agents")

from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai.types.responses.response_reasoning_item import ResponseReasoningItem, Summary

from summarizing_context import Settings
from summarizing_context.adapters.openai_agents import summarizing_filter
from tests.hosts.contract.judge import Call, Row, unchanged
from tests.hosts.contract.script import PROMPT, SIZES, STEPS, Host

Item = dict[str, Any]


class OpenAIHost(Host):
    async def __aenter__(self) -> Self:
        @function_tool
        def read(path: str) -> str:
            """Read a file."""
            return self.conversation.result(path)

        self._session = SQLiteSession(self.session, self.store.with_name("session.db"))
        settings = Settings(store=self.store, session_id=self.session, **SIZES)
        self.shorten = summarizing_filter(settings, **self.options)
        model = ScriptedModel([ModelStep.respond(self._reply)] * STEPS)
        self._agent = Agent(name="coder", instructions=PROMPT, tools=[read, *self.tools], model=model)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shorten.close()
        self._session.close()

    def _reply(self, call: Any) -> ModelStep:
        assert call.system_instructions == PROMPT
        return ModelStep(output=output_of(self.conversation.reply([row for row, _ in rows_of(call.input)])))

    async def ask(self, prompt: str) -> None:
        config = RunConfig(call_model_input_filter=self.shorten, tracing_disabled=True)
        options: Any = {"session": self._session, "run_config": config, "max_turns": 30}
        if self.turns % 2:
            await Runner.run(self._agent, prompt, **options)
            return
        _ = [event async for event in Runner.run_streamed(self._agent, prompt, **options).stream_events()]

    async def put(self, log: Sequence[Row]) -> None:
        found = list(rows_of(await self._session.get_items()))
        same = unchanged([row for row, _ in found], log)
        kept = [item for _, items in found[:same] for item in items]
        kept += [item for row in log[same:] for item in items_of(row)]
        await self._session.clear_session()
        await self._session.add_items(kept)

    async def history(self) -> list[Row]:
        return [row for row, _ in rows_of(await self._session.get_items())]

    async def figures(self) -> Any:
        return (await self.shorten.context()).statistics()


def output_of(row: Row) -> list[Any]:
    """A reply as the items of a response."""
    summary = [Summary(text=row.thinking, type="summary_text")]
    reasoning = ResponseReasoningItem(id=f"rs_{row.mark}", type="reasoning", summary=summary, encrypted_content="gA")
    calls = [function_call(call.name, json.loads(call.arguments), call_id=call.id) for call in row.calls]
    said = assistant_message(row.text).model_copy(update={"id": f"msg_{row.mark}"})
    named = [call.model_copy(update={"id": f"fc_{call.call_id}"}) for call in calls]
    return [*([reasoning] if row.thinking else []), said, *named]


def items_of(row: Row) -> list[Any]:
    if row.role == "user":
        return [{"role": "user", "content": row.text}]
    if row.role == "tool":
        return [{"type": "function_call_output", "call_id": row.answers, "output": row.text}]
    return [item.model_dump(exclude_unset=True) for item in output_of(row)]


def rows_of(items: Sequence[Any]) -> Iterator[tuple[Row, list[Item]]]:
    """What a model gave between two inputs is one row; each input is one."""
    said: list[Item] = []
    for item in [*items, {"role": "end"}]:
        is_said = "output" not in item and item.get("role", "assistant") == "assistant"
        if said and (not is_said or item.get("type") == "reasoning"):  # of another response
            yield _response(said), said
            said = []
        if is_said:
            said.append(item)
        elif "output" in item:
            yield Row("tool", _text(item["output"]), answers=item["call_id"], wire=json.dumps(item)), [item]
        elif "content" in item:
            yield Row(item["role"], _text(item["content"]), wire=json.dumps(item)), [item]


def _response(items: Sequence[Item]) -> Row:
    texts, thinking, calls = [], [], []
    for item in items:
        if item["type"] == "function_call":
            calls.append(Call(item["call_id"], item["name"], json.dumps(json.loads(item["arguments"]))))
        elif item["type"] == "reasoning":
            thinking.append(_text(item["summary"]))
        else:
            texts.append(_text(item["content"]))
    return Row("assistant", "\n".join(texts), tuple(calls), thinking="\n".join(thinking), wire=json.dumps(items))


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(block["text"] for block in content)
