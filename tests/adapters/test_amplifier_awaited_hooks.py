"""`hooks: await`: the host acts before a compaction, as long as it does not take too long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from amplifier_core.testing import MockCoordinator

from summarizing_context.adapters.amplifier import manager as amplifier_manager
from tests.adapters.host import mounted
from tests.behaviour.contexts import TINY, Provider

FIRST = Provider("first", context_window=2_100, max_output_tokens=200)
SECOND = Provider("second", context_window=2_000, max_output_tokens=200)
THIRD = Provider("third", context_window=1_900, max_output_tokens=200)


@asynccontextmanager
async def filled(hook: Any, hooks: str = "await") -> AsyncIterator[Any]:
    """A manager whose next view compacts, with a hook of `context:pre_compact`."""
    coordinator = MockCoordinator()
    coordinator.hooks.register("context:pre_compact", hook, 0, "hook")
    async with mounted({**TINY, "max_tokens": 1_000, "idle_after": "never", "hooks": hooks}, coordinator) as manager:
        for number in range(80):
            await manager.add_message({"role": "user", "content": f"{number} " + "plain words " * 12})
        yield manager


async def test_a_hook_has_acted_before_the_view_and_may_use_the_context():
    acted: list[int] = []

    async def hook(event: str, data: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        await (await manager.opened()).checkpoint("before the compaction")
        await manager.get_messages_for_request()
        await manager.add_message({"role": "user", "content": "said by the hook"})
        acted.append(data["message_count"])

    async with filled(hook) as manager:
        view = await manager.get_messages_for_request()
        assert acted == [80], "once, although the hook asked for a view"
        assert view[-1]["content"] == "said by the hook"
        assert [mark.seq for mark in await (await manager.opened()).list_checkpoints()] == [80]


@pytest.mark.parametrize("hooks", ["await", "background"])
async def test_a_hook_that_fails_or_hangs_costs_no_view(monkeypatch, hooks):
    if hooks == "await":
        monkeypatch.setattr(amplifier_manager, "_SEND_WITHIN", 0.5)
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
        async with filled(hook, hooks) as manager:
            assert len(await manager.get_messages_for_request()) < 80
            assert bool(ended) == (hooks == "await" or hook is fail), "a view waits where the options say so"
            for _ in range(150):  # of which no event need wait
                await manager.add_message({"role": "user", "content": "Go on."})
    assert ended == ["hang", "fail"]


async def activated(manager: Any) -> int:
    return sum((await manager.opened()).statistics().activations_by_reason.values())


@pytest.mark.parametrize("other", [FIRST, SECOND], ids=["same provider", "another provider"])
@pytest.mark.parametrize("together", [True, False])
async def test_other_requests_that_would_compact_wait_until_hooks_have_acted(other, together):
    seen: list[int] = []
    acts, may_act = asyncio.Event(), asyncio.Event()

    async def hook(event: str, data: dict[str, Any]) -> None:
        seen.append(await activated(manager))
        acts.set()
        await may_act.wait()

    async with filled(hook) as manager:
        first = asyncio.create_task(manager.get_messages_for_request(provider=FIRST))
        if not together:
            await acts.wait()
        second = asyncio.create_task(manager.get_messages_for_request(provider=other))
        await acts.wait()
        await anyio.wait_all_tasks_blocked()
        assert (len(seen), await activated(manager), first.done(), second.done()) == (1, 0, False, False)
        may_act.set()
        view = await first
        assert max(len(view), len(await second)) < 80
        assert seen == list(range(await activated(manager))), "each is announced once, and before it"
        assert len(seen) == len({FIRST, other})
        may_act.clear()  # a request that would not compact does not wait
        waiting = asyncio.create_task(manager.get_messages_for_request(provider=THIRD))
        await anyio.wait_all_tasks_blocked()
        assert await manager.get_messages_for_request(provider=FIRST) == view
        assert not waiting.done()
        may_act.set()
        await waiting


async def test_a_hook_that_always_compacts_comes_to_an_end():
    seen: list[int] = []

    async def hook(event: str, data: dict[str, Any]) -> None:
        seen.append(data["message_count"])
        for _ in range(2):
            await (await manager.opened()).compact(focus=f"the plain words {len(seen)} {await activated(manager)}")

    async with filled(hook) as manager:
        await manager.get_messages_for_request(provider=FIRST)
        assert len(await manager.get_messages_for_request(provider=SECOND)) < 80
        assert len(seen) < 100
