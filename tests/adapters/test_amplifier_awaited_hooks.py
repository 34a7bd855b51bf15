"""`hooks: await`: the host acts before a compaction, as long as it does not take too long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from amplifier_core.testing import MockCoordinator

from summarizing_context import mount
from summarizing_context.adapters.amplifier import events as amplifier_events

pytestmark = pytest.mark.anyio
SMALL = {"max_tokens": 1_000, "segment_min": 100, "segment_target": 200, "segment_max": 400, "summary_max_tokens": 20}


async def filled(hook: Any, **options: Any) -> tuple[Any, Any]:
    """A manager whose next view compacts, with a hook of `context:pre_compact`."""
    coordinator = MockCoordinator()
    coordinator.hooks.register("context:pre_compact", hook, 0, "hook")
    cleanup = await mount(coordinator, {**SMALL, "idle_after": None, **options})
    manager = coordinator.get("context")
    for number in range(80):
        await manager.add_message({"role": "user", "content": f"{number} " + "plain words " * 12})
    return manager, cleanup


async def test_a_hook_has_acted_before_the_view_and_may_use_the_context() -> None:
    acted: list[int] = []

    async def hook(event: str, data: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        await (await manager.opened()).checkpoint("before the compaction")
        await manager.get_messages_for_request()
        await manager.add_message({"role": "user", "content": "said by the hook"})
        acted.append(data["message_count"])

    manager, cleanup = await filled(hook, hooks="await")
    view = await manager.get_messages_for_request()
    assert acted == [80], "once, although the hook asked for a view"
    assert view[-1]["content"] == "said by the hook"
    assert [mark.seq for mark in await (await manager.opened()).list_checkpoints()] == [80]
    await cleanup()


async def test_a_hook_that_fails_or_hangs_costs_no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amplifier_events, "_SEND_WITHIN", 0.05)
    ended: list[str] = []

    async def hang(event: str, data: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hang")

    async def fail(event: str, data: dict[str, Any]) -> None:
        ended.append("fail")
        raise RuntimeError("a hook")

    for hook in (hang, fail):
        manager, cleanup = await filled(hook, hooks="await")
        assert len(await manager.get_messages_for_request()) < 80
        await cleanup()
    assert ended == ["hang", "fail"]


async def test_by_default_no_request_waits_for_a_hook() -> None:
    released = asyncio.Event()

    async def hook(event: str, data: dict[str, Any]) -> None:
        await released.wait()

    manager, cleanup = await filled(hook)
    assert len(await manager.get_messages_for_request()) < 80
    released.set()
    await cleanup()
