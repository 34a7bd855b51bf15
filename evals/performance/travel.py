"""How far one call travels through the package: the files that it passes, and how often it changes from one to another.

Three ways are measured in a session that has activated before: adding one message, a view that adds two messages, and a
view with an activation. Each is taken many times; the figures are medians, with the largest behind.

A file is passed when a function in it is entered. A file changes when the function and the nearest function of the
package that has called it stand in different files. A coroutine that goes on after waiting is entered again. Only the
foreground counts: the call itself, the tasks that it starts, what it has a thread decide, and what the store calls back
in the event loop. The worker is idle before each call, so files and changes are the same in each run.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_high
from types import FrameType
from typing import Any
from unittest.mock import patch

from rich.table import Table

import summarizing_context
from evals.performance.fake_model import FakeModel
from evals.performance.managers.ours import ByFakeModel
from evals.performance.scenario import steps
from summarizing_context import Settings, open_context
from summarizing_context.cli.output import table
from summarizing_context.concurrency import WorkerThread

WAYS = ("add_message", "view that adds two messages", "view with an activation")
WARM = 3  # activations after which it is measured

_PACKAGE = str(Path(summarizing_context.__file__).parent)
_is_foreground: ContextVar[bool] = ContextVar("is_foreground", default=False)


@dataclass
class Trip:
    """What one call has passed."""

    changes: int = 0
    calls: int = 0
    files: set[str] = field(default_factory=set)

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        """A profiler's function: something was entered or left."""
        file = frame.f_code.co_filename
        is_counted = _is_foreground.get() or asyncio.current_task() is None  # or a callback that belongs to no task
        if event != "call" or not file.startswith(_PACKAGE) or not is_counted:
            return
        self.calls += 1
        self.files.add(file.removeprefix(_PACKAGE).lstrip("/"))
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(_PACKAGE):
            caller = caller.f_back
        self.changes += caller is not None and caller.f_code.co_filename != file


@contextmanager
def travelling() -> Iterator[Trip]:
    """Follow what this task does, the tasks that it starts, and what it has a thread do."""
    trip, token, run = Trip(), _is_foreground.set(True), WorkerThread.run

    async def followed(thread: WorkerThread, work: Callable[[], Any]) -> Any:
        context = copy_context()

        def done() -> Any:
            sys.setprofile(trip.note if context.get(_is_foreground) else None)
            try:
                return context.run(work)
            finally:
                sys.setprofile(None)

        return await run(thread, done)

    sys.setprofile(trip.note)
    try:
        with patch.object(WorkerThread, "run", followed):
            yield trip
    finally:
        sys.setprofile(None)
        _is_foreground.reset(token)


async def measure(turns: int, budget: int) -> Table:
    """Return a table of the three ways, in a session of so many turns: medians, and the largest behind."""
    trips: dict[str, list[Trip]] = {name: [] for name in WAYS}
    added = 0
    settings = Settings(max_tokens=budget, token_counter="estimate", idle_after="never")
    async with open_context(settings, summarizer=ByFakeModel(FakeModel(0.0))) as context:
        for message in steps(turns):
            is_warm = context.statistics().activations >= WARM
            with travelling() as trip:
                await (context.get_messages_for_request() if message is None else context.add_message(message))
            name = WAYS[0]
            if message is None:
                activated = context.last_view is not None and context.last_view.activation is not None
                name = WAYS[2] if activated else WAYS[1] if added == 2 else ""
            if is_warm and name:
                trips[name].append(trip)
            added = 0 if message is None else added + 1
            await context.wait_idle()
            await asyncio.sleep(0)  # a view wakes the worker in the next turn of the event loop
    shown = table("Median (largest)", "way", "#times", "#files", "#changes of file", "#calls", wide="way")
    for name, taken in trips.items():
        figures = ([len(one.files) for one in taken], [one.changes for one in taken])
        typical = [f"{median_high(of):,} ({max(of):,})" for of in figures]
        shown.add_row(name, f"{len(taken):,}", *typical, f"{median_high(trip.calls for trip in taken):,}")
    return shown
