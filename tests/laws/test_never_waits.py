"""never_waits: a view awaits no model. The summarizer here waits for an event that nobody sets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from .builders import session
from .judge import watched
from .summarizers import Sleeping


class Timers:
    """Notes each timer that the watched task starts: a wait with a limit would need one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started = 0
        self.watching: asyncio.Task[Any] | None = None
        loop = asyncio.get_running_loop()
        original: Callable[..., Any] = loop.call_at

        def call_at(*arguments: Any, **options: Any) -> Any:
            self.started += self.watching is not None and asyncio.current_task() is self.watching
            return original(*arguments, **options)

        monkeypatch.setattr(loop, "call_at", call_at)

    async def watch(self, call: Callable[[], Any]) -> None:
        self.watching = asyncio.current_task()
        try:
            await call()
        finally:
            self.watching = None


async def test_views_come_while_the_summarizer_sleeps_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    summarizer, timers = Sleeping(), Timers(monkeypatch)
    with anyio.fail_after(120):
        async with watched(summarizer, budget=2_000, call_timeout=3_600.0) as judge:
            for message in session(24, 160):
                await judge.add(message)
                await timers.watch(judge.view)
            assert judge.views > 150
            assert judge.activations > 3
            assert judge.covered > 100
            assert summarizer.calls > 0  # they were asked for, and none has answered
            assert judge.context.statistics().stand_ins > 0
    assert timers.started == 0
