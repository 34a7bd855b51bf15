"""The tool `context_recall` on the real coordinator: mounted on demand, called by a loop, unmounted at cleanup."""

import pytest
from amplifier_core import ToolResult
from amplifier_core.testing import MockCoordinator

from summarizing_context import ContextClosedError
from tests.adapters.host import SMALL, Model, Obedient, mounted, session_of


async def test_a_model_in_a_real_session_gets_back_what_its_view_has_lost():
    async with session_of({**SMALL, "recall_tool": True}, model=Obedient(window=6_000)) as session:
        await session.execute("The walrus listens on port 48231.")
        for turn in range(12):
            await session.execute(f"Turn {turn}: read the next files.")
        told = await session.execute('context_recall {"query": "which port does the walrus use"}')
        assert "48231" in told


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
    other = type("Other", (), {"name": "context_recall"})()
    async with mounted({"recall_tool": True}, coordinator):
        await coordinator.mount("tools", other, name="context_recall")
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
    async with mounted({**SMALL, "max_tokens": 2_000}, coordinator) as context:
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
