"""`hooks: await`: the host acts before a compaction, as long as it does not take too long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from amplifier_core import ProviderInfo
from amplifier_core.testing import MockCoordinator

from summarizing_context.adapters.amplifier import events as amplifier_events
from tests.adapters.host import mounted

SMALL = {"max_tokens": 1_000, "segment_min": 100, "segment_target": 200, "segment_max": 400, "summary_max_tokens": 20}


@asynccontextmanager
async def filled(hook: Any) -> AsyncIterator[Any]:
    """A manager whose next view compacts, with a hook of `context:pre_compact` that is awaited."""
    coordinator = MockCoordinator()
    coordinator.hooks.register("context:pre_compact", hook, 0, "hook")
    async with mounted({**SMALL, "idle_after": "never", "hooks": "await"}, coordinator) as manager:
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


async def test_a_hook_that_fails_or_hangs_costs_no_view(monkeypatch):
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
        async with filled(hook) as manager:
            assert len(await manager.get_messages_for_request()) < 80
    assert ended == ["hang", "fail"]


class Provider:
    """A provider whose window leaves so much room."""

    def __init__(self, name: str, room: int) -> None:
        self.name, self._room = name, room

    def get_info(self) -> ProviderInfo:
        limits = {"context_window": self._room + 1_200, "max_output_tokens": 200}
        return ProviderInfo(id=self.name, display_name=self.name, defaults=limits)


FIRST, SECOND = Provider("first", 900), Provider("second", 800)


async def activated(manager: Any) -> int:
    return sum((await manager.opened()).statistics().activations_by_reason.values())


async def turns(number: int = 50) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.parametrize("other", [FIRST, SECOND], ids=["same provider", "another provider"])
@pytest.mark.parametrize("together", [True, False], ids=["together", "later"])
async def test_other_requests_that_would_compact_wait_until_hooks_have_acted(other, together):
    told: list[int] = []
    acts, may_act = asyncio.Event(), asyncio.Event()

    async def hook(event: str, data: dict[str, Any]) -> None:
        told.append(await activated(manager))
        acts.set()
        await may_act.wait()

    async with filled(hook) as manager:
        first = asyncio.create_task(manager.get_messages_for_request(provider=FIRST))
        if not together:
            await acts.wait()
        second = asyncio.create_task(manager.get_messages_for_request(provider=other))
        await acts.wait()
        await turns()
        assert (len(told), await activated(manager), first.done(), second.done()) == (1, 0, False, False)
        may_act.set()
        assert max(len(await first), len(await second)) < 80
        assert told == list(range(await activated(manager))), "each is announced once, and before it"
        assert len(told) == len({FIRST, other})


async def test_a_request_that_would_not_compact_does_not_wait_for_hooks():
    may_act = asyncio.Event()
    may_act.set()

    async def hook(event: str, data: dict[str, Any]) -> None:
        await may_act.wait()

    async with filled(hook) as manager:
        view = await manager.get_messages_for_request(provider=FIRST)
        may_act.clear()
        waiting = asyncio.create_task(manager.get_messages_for_request(provider=SECOND))
        await turns()
        assert await manager.get_messages_for_request(provider=FIRST) == view
        assert not waiting.done()
        may_act.set()
        await waiting


async def test_a_hook_that_always_compacts_comes_to_an_end():
    told: list[int] = []

    async def hook(event: str, data: dict[str, Any]) -> None:
        told.append(data["message_count"])
        for _ in range(2):
            await (await manager.opened()).compact(focus=f"the plain words {len(told)} {await activated(manager)}")

    async with filled(hook) as manager:
        await manager.get_messages_for_request(provider=FIRST)
        assert len(await manager.get_messages_for_request(provider=SECOND)) < 80
        assert len(told) < 100
