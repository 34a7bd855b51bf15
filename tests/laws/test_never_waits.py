"""never_waits: a view awaits no model. The summarizer here waits for an event that nobody sets."""

import asyncio
from typing import Any

import anyio
import pytest

from .builders import session
from .judge import watched
from .summarizers import Sleeping


async def test_views_come_while_the_summarizer_sleeps_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    summarizer, loop, started, watching = Sleeping(), asyncio.get_running_loop(), list[Any](), set[Any]()
    original: Any = loop.call_at

    def call_at(*arguments: Any, **options: Any) -> Any:
        """Note each timer that the task starts while it waits for a view: a wait with a limit would need one."""
        started.extend(watching & {asyncio.current_task()})
        return original(*arguments, **options)

    monkeypatch.setattr(loop, "call_at", call_at)
    with anyio.fail_after(120):
        async with watched(summarizer, budget=2_000, call_timeout=3_600.0) as judge:
            for message in session(24, 160):
                await judge.add(message)
                watching.add(asyncio.current_task())
                await judge.view()
                watching.clear()
            assert judge.views > 150
            assert judge.activations > 3
            assert judge.covered > 100
            assert summarizer.calls > 0  # they were asked for, and none has answered
            assert judge.context.statistics().stand_ins > 0
    assert started == []
