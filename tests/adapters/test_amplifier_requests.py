"""What a request is made of beside the log: the prompt factory, timestamps, tools, usage of other calls."""

import asyncio
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from amplifier_core.testing import MockCoordinator

from summarizing_context import SettingsError
from summarizing_context.adapters.amplifier import SummarizingContextManager
from tests.adapters.host import SMALL, mounted, unstamped
from tests.behaviour.contexts import Provider

HELLO = {"role": "user", "content": "Hello"}


@pytest.mark.parametrize(("model", "stays"), [("claude-opus-4-8", True), ("claude-opus-5-5", False)])
async def test_thinking_of_the_open_turn_goes_where_the_model_refuses_it(model, stays):
    provider = Provider("anthropic", model, context_window=6_000, max_output_tokens=1_000)
    thinking = {"type": "thinking", "thinking": "Which one?", "signature": "c2ln"}
    rows: list[Any] = []
    async with mounted(SMALL) as context:
        await context.add_message({"role": "user", "content": "Fix it."})
        for step in range(20):
            call = {"type": "tool_call", "id": f"c{step}", "name": "read", "input": {}}
            await context.add_message({"role": "assistant", "content": [thinking, call]})
            await context.add_message({"role": "tool", "tool_call_id": f"c{step}", "content": "a line of code; " * 80})
            rows = await context.get_messages_for_request(provider=provider)
            if context.statistics().activations:
                break
    assert len(rows) < 2 * step
    assert any("Which one?" in str(row["content"]) for row in rows if row["role"] == "assistant") == stays


async def test_a_hook_may_wrap_the_factory_as_the_hosts_own_hooks_do_and_one_that_fails_fails_its_request_alone():
    def broken() -> str:
        raise LookupError("a file that is gone")

    async with mounted() as manager:
        await manager.set_system_prompt_factory(lambda: "You are kind.")
        base = manager._system_prompt_factory
        await manager.set_system_prompt_factory(lambda: f"{base()} It is a git repository.")
        await manager.add_message(HELLO)
        assert (await manager.get_messages_for_request())[0]["content"] == "You are kind. It is a git repository."
        with pytest.raises(SettingsError, match="it is a function, or None"):
            await manager.set_system_prompt_factory("You are kind.")
        await manager.set_system_prompt_factory(broken)
        with pytest.raises(LookupError):
            await manager.get_messages_for_request()
        await manager.set_system_prompt_factory(None)
        assert unstamped(await manager.get_messages_for_request()) == [HELLO]


async def test_the_time_is_stamped_and_nothing_else_is_touched():
    async with mounted() as manager:
        beside = (None, {"source": "hook"}, {"timestamp": "then"}, "odd")
        rows = [HELLO, *({**HELLO, "metadata": metadata} for metadata in beside)]
        for row in rows:
            await manager.add_message(row)
        kept = await manager.get_messages()
        assert HELLO == {"role": "user", "content": "Hello"}, "the caller's own is left alone"
        for row in kept[:3]:
            assert datetime.fromisoformat(row["metadata"].pop("timestamp")).utcoffset() is not None
        assert kept == [{**HELLO, "metadata": {}}] * 2 + rows[2:]


async def test_only_the_answer_to_its_own_newest_view_teaches_a_session():
    taught: list[float] = []

    async def note(event: str, data: dict[str, Any]) -> None:
        taught.append(round(data["ratio"], 1))

    coordinator = MockCoordinator()
    hooks = coordinator.hooks
    hooks.register("context:usage_calibrated", note, 0, "note")
    child = SummarizingContextManager({"token_counter": "estimate"})
    child.use_host(SimpleNamespace(hooks=hooks, session_id="child"))  # as a child's session shares them

    async def answered(manager: Any, factor: float, asked: str = "a", told: str = "a") -> None:
        """The manager's next view is sent, and counted at so much of what it takes."""
        for number in range(20):
            await manager.add_message({"role": "user", "content": f"{number}: " + "plain words " * 50})
        await manager.get_messages_for_request()
        tokens = int(factor * (await manager.opened()).last_view.tokens)
        await hooks.emit("llm:request", {"request_id": asked})
        await hooks.emit("llm:response", {"request_id": told, "usage": {"input_tokens": tokens}})
        await hooks.emit("llm:response", {"request_id": told, "usage": {"input_tokens": 9 * tokens}})

    async with mounted({"token_counter": "estimate"}, coordinator) as parent:
        await parent.add_message(HELLO)
        await parent.get_messages_for_request()
        await asyncio.create_task(answered(child, 2.0))
        await answered(parent, 1.5, "b", "z")
        await answered(parent, 1.5)
    await child.close()
    assert taught == [2.0, 1.5]
