"""Events: translated, bounded, in the background."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from summarizing_context.adapters.amplifier.events import ANNOUNCED, HostEvents, translated

pytestmark = pytest.mark.anyio


class Hooks:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    async def emit(self, event: str, data: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        self.told.append((event, data))


async def test_events_arrive_in_order_and_the_task_ends() -> None:
    hooks = Hooks()
    events, tasks = HostEvents(hooks.emit), asyncio.all_tasks()
    for number in range(100):
        events.emit("summary_ready", {"rank": number})
    assert hooks.told == [], "emitting returns before anything is sent"
    await events.close()
    assert [data["rank"] for _, data in hooks.told] == list(range(100))
    assert asyncio.all_tasks() == tasks


async def test_only_the_newest_wait_when_hooks_are_slow() -> None:
    hooks = Hooks()
    events = HostEvents(hooks.emit)
    for number in range(10_000):
        events.emit("summary_ready", {"rank": number})
    await events.close()
    assert len(hooks.told) <= 256
    assert hooks.told[-1][1]["rank"] == 9_999


async def test_a_failing_hook_does_not_stop_the_next_event() -> None:
    hooks, calls = Hooks(), []

    async def fail_once(event: str, data: dict[str, Any]) -> None:
        calls.append(event)
        if len(calls) == 1:
            raise ValueError("no")
        await hooks.emit(event, data)

    events = HostEvents(fail_once)
    events.emit("summary_failed", {})
    events.emit("summary_ready", {})
    await events.close()
    assert [event for event, _ in hooks.told] == ["context:summary_ready"]


async def test_a_hook_that_hangs_is_left_behind_at_the_end() -> None:
    async def hang(event: str, data: dict[str, Any]) -> None:
        await asyncio.sleep(3_600)

    events, tasks = HostEvents(hang), asyncio.all_tasks()
    events.emit("summary_ready", {})
    async with asyncio.timeout(120):
        await events.close()
        await events.close()
    events.emit("summary_ready", {})  # nobody listens any longer
    assert asyncio.all_tasks() == tasks


async def test_closing_before_anything_happened_is_fine() -> None:
    await HostEvents(Hooks().emit).close()


def test_payloads_are_finite_json_with_the_fields_of_the_documents() -> None:
    report = {"activated": True, "reason": "high_water", "tokens_before": 900, "tokens_after": 200, "freed": 700}
    after, compaction = translated("activation", {**report, "messages": 12})
    assert after == ("context:post_compact", {"message_count": 12, "tokens": 200, "token_count": 200})
    assert compaction[1]["reason"] == "high_water"
    assert compaction[1]["freed"] == 700
    (before,) = translated("pre_compact", {"messages": 90, "tokens": 900})
    assert before == ("context:pre_compact", {"message_count": 90, "tokens": 900, "token_count": 900})
    (odd,) = translated("summary_failed", {"a": float("nan"), "b": float("inf"), "c": object(), "d": "x" * 999})
    assert json.loads(json.dumps(odd[1], allow_nan=False))["a"] is None
    assert len(odd[1]["d"]) == 300
    assert {name for name, _ in (after, compaction, before, odd)} <= set(ANNOUNCED)
