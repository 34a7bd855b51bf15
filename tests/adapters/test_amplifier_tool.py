"""The tool `context_recall` on the real coordinator: mounted on demand, called by a loop, unmounted at cleanup."""

from __future__ import annotations

from typing import Any

import pytest
from amplifier_core import ChatResponse, TextBlock, ToolResult
from amplifier_core.message_models import ToolCall, ToolCallBlock
from amplifier_core.testing import MockCoordinator

from summarizing_context import ContextClosedError, mount
from tests.adapters.host import SMALL, Model, session_of


class RecallingModel(Model):
    """A provider that, when asked to remember, calls the tool and then answers with what it said."""

    def _answer(self, request: Any) -> ChatResponse:
        last = request.messages[-1].model_dump()
        if last["role"] == "user" and "remember" in str(last["content"]).lower():
            arguments = {"query": "which port does the walrus use"}
            block = ToolCallBlock(id="recall_1", name="context_recall", input=arguments)
            made = ToolCall(id="recall_1", name="context_recall", arguments=arguments)
            return ChatResponse(content=[block], tool_calls=[made])
        if last["role"] == "tool" and last.get("tool_call_id") == "recall_1":
            return ChatResponse(content=[TextBlock(text=str(last["content"]))])
        return super()._answer(request)


async def test_a_model_in_a_real_session_gets_back_what_its_view_has_lost():
    model = RecallingModel(window=6_000)
    async with session_of({**SMALL, "recall_tool": True}, model=model) as session:
        await session.execute("The walrus listens on port 48231.")
        for turn in range(12):
            await session.execute(f"Turn {turn}: read the next files.")
        answer = await session.execute("Do you remember the port?")
        assert "48231" in answer


async def test_the_tool_follows_the_hosts_protocol_and_leaves_with_the_session():
    async with session_of({"recall_tool": True}) as session:
        coordinator = session.coordinator
        tool = coordinator.get("tools")["context_recall"]
        assert tool.name == "context_recall"
        assert "earlier part of this conversation" in tool.description
        assert tool.input_schema["properties"]["query"]["type"] == "string"
        wrong = await tool.execute({"question": "?"})
        assert isinstance(wrong, ToolResult)
        assert wrong.success
        assert "needs other arguments" in wrong.output
    assert "context_recall" not in (coordinator.get("tools") or {})
    late = await tool.execute({"query": "walrus"})
    assert not late.success
    assert late.error["type"] == "ContextClosedError"


async def test_a_tool_that_somebody_else_mounted_in_its_place_stays():
    coordinator = MockCoordinator()
    cleanup = await mount(coordinator, {"recall_tool": True})
    other = type("Other", (), {"name": "context_recall"})()
    await coordinator.mount("tools", other, name="context_recall")
    await cleanup()
    assert coordinator.get("tools")["context_recall"] is other


async def test_commands_and_the_session_itself_are_reachable_from_the_mounted_context():
    async with session_of(SMALL, model=Model(window=6_000)) as session:
        await session.execute("Never touch the vendor folder.")
        mounted = session.coordinator.get("context")
        status = await mounted.handle_command("/context status")
        assert status.ok
        assert status.data["statistics"]["messages"] == len(before := await mounted.get_messages())
        assert not (await mounted.handle_command("/context stutus")).ok
        context = await mounted.opened()
        pin, mark = await context.pin(index_or_text=0), await context.checkpoint("here")
        assert "Never touch the vendor folder." in [fact.value for fact in context.ledger()]
        await session.execute("Go on.")
        await context.restore(mark)
        assert await mounted.get_messages() == before
        assert [each.id for each in context.pins()] == [pin]
    with pytest.raises(ContextClosedError):
        await mounted.handle_command("/context status")


async def test_the_tools_that_the_host_has_mounted_take_their_part_of_the_budget():
    class Wide:
        name, description = "wide", "reads and writes " * 200
        input_schema = {"type": "object", "properties": {"path": {"type": "string"}}}  # noqa: RUF012

    class Broken:
        name = "broken"

        @property
        def description(self) -> str:
            raise RuntimeError("no words")

    coordinator = MockCoordinator()
    cleanup = await mount(coordinator, {**SMALL, "max_tokens": 2_000})
    context = coordinator.get("context")
    await context.add_message({"role": "user", "content": "hello"})
    await context.get_messages_for_request()
    inner = await context.opened()
    assert inner.last_view.fixed_tokens == 0
    await coordinator.mount("tools", Wide(), name="wide")
    await coordinator.mount("tools", Broken(), name="broken")
    for turn in range(30):
        await context.add_message({"role": "user", "content": f"{turn}: " + "go on and on " * 10})
        await context.get_messages_for_request()
        assert inner.last_view.fixed_tokens > 400
        assert inner.last_view.tokens + inner.last_view.fixed_tokens <= 2_000
    assert inner.statistics().activations > 0
    await cleanup()
