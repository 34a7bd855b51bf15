"""Drive one manager through the session and measure it: the time of `add`, `load` and `view`, nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from evals.performance.checks import look_at
from evals.performance.clockwork import Clockwork, peak, resident
from evals.performance.fake_model import FakeModel
from evals.performance.manager import Manager
from evals.performance.metrics import (
    Figures,
    Tally,
    append_figures,
    cost_figures,
    memory_of_text_figures,
    milliseconds,
    view_figures,
)
from evals.performance.runs import Ask
from evals.performance.scenario import steps
from evals.performance.tokens import message_tokens, wire

Opener = Callable[[str], Awaitable[Manager]]  # a session name -> that session, opened


class Drive:
    """One run. `opener` is called again for the sessions that come after the first."""

    def __init__(self, ask: Ask, model: FakeModel, opener: Opener) -> None:
        self.ask, self.model, self.opener = ask, model, opener
        self.clock = Clockwork()
        self.tally = Tally(ask.budget)
        self.wires: list[str] | None = None
        self.stopped = ""

    async def run(self) -> Figures:
        """The figures of the kind of run that was asked for."""
        manager = await self.opener("first")
        base = resident()
        beating = asyncio.create_task(self.clock.beat())
        began = time.perf_counter()
        try:
            extra = await (self._cold(manager) if self.ask.kind == "cold" else self._live(manager))
        finally:
            beating.cancel()
        wall = time.perf_counter() - began
        with self.clock.measuring():
            figures = self._figures(manager) | extra
        figures |= {"wall_s": round(wall, 2), "measuring_s": round(self.clock.own, 2), "stopped": self.stopped}
        figures |= self._memory(base)
        if self.ask.kind == "reopen":
            await manager.settle()  # else what was still to be made is made, and paid, when it is opened again
        await manager.close()
        return figures | (await self._reopened() if self.ask.kind == "reopen" else {})

    async def _live(self, manager: Manager) -> Figures:
        began, turn = time.perf_counter(), 0
        for message in steps(self.ask.turns):
            if message is not None:
                turn += message["role"] == "user"
                await self._add(manager, message)
                continue
            own = self.clock.own
            if not await self._view(manager, turn):
                break
            await asyncio.sleep(max(0.0, self.ask.agent_latency - (self.clock.own - own)))
            if time.perf_counter() - began > self.ask.limit:
                self.stopped = f"stopped after {self.ask.limit:.0f} s at turn {turn} of {self.ask.turns}"
                break
        return {}

    async def _cold(self, manager: Manager) -> Figures:
        with self.clock.measuring():
            messages = [message for message in steps(self.ask.turns) if message is not None]
            for message in messages:
                self._note(message)
            natives = [manager.taken(message) for message in messages]
        began = time.perf_counter()
        await manager.load(natives)
        loaded = time.perf_counter() - began
        await self._view(manager, 0)
        first = self.tally.last_view
        began = time.perf_counter()
        await manager.settle()
        settled = time.perf_counter() - began
        with self.clock.measuring():
            self.tally.last_view = first
        return {"load_ms": milliseconds(loaded), "settled_s": round(settled, 2)}

    async def _reopened(self) -> Figures:
        """Calls and time to the first view of the session opened again, and of a fork of it."""
        calls = self.model.calls
        began = time.perf_counter()
        manager = await self.opener("first")
        await manager.view()
        reopened = time.perf_counter() - began
        await manager.settle()
        await manager.close()
        calls_of_reopening = self.model.calls - calls
        fork = await self.opener("fork")
        natives = [fork.taken(message) for message in steps(self.ask.turns) if message is not None]
        await fork.load(natives)
        await fork.view()
        await fork.settle()
        await fork.close()
        return {
            "reopen_ms": milliseconds(reopened),
            "reopen_calls": calls_of_reopening,
            "fork_calls": self.model.calls - calls - calls_of_reopening,
        }

    async def _add(self, manager: Manager, message: dict[str, Any]) -> None:
        with self.clock.measuring():
            self._note(message)
            native = manager.taken(message)
        began = time.perf_counter()
        await manager.add(native)
        self.tally.add_seconds.append(time.perf_counter() - began)

    def _note(self, message: dict[str, Any]) -> None:
        self.tally.log.add(wire(message))
        self.tally.history_tokens += message_tokens(message)
        self.tally.lineage.added(message)

    async def _view(self, manager: Manager, turn: int) -> bool:
        """One view, measured; False if the run must end because it hung."""
        self.tally.lineage.viewable = self.tally.lineage.pieces
        native: Any = None
        error: Exception | None = None
        began, busy = time.perf_counter(), time.process_time()
        try:
            async with asyncio.timeout(self.ask.view_limit) as patience:
                began, busy = time.perf_counter(), time.process_time()
                native = await manager.view()
        except Exception as raised:  # whatever a framework raises into the agent's turn
            error = raised
        seconds = time.perf_counter() - began
        self.tally.idle_seconds.append(seconds - (time.process_time() - busy))
        with self.clock.measuring():
            self._judge(manager, native, None if patience.expired() else error, seconds, turn)
        if patience.expired():
            self.tally.hung += 1
            self.stopped = f"a view had not come back after {self.ask.view_limit:g} s at turn {turn}"
        return not patience.expired()

    def _judge(self, manager: Manager, native: Any, error: Exception | None, seconds: float, turn: int) -> None:
        self.tally.view_seconds.append(seconds)
        self.tally.lineage.learn(self.model.readings)
        if error is not None:
            self.tally.failed(error)
        if native is None:
            return
        view = manager.shown(native)
        seen = look_at(view, self.wires, self.tally.log)
        self.wires = seen.wires
        self.tally.saw(view, seen, seconds, turn)

    def _figures(self, manager: Manager) -> Figures:
        self.tally.lineage.learn(self.model.readings)
        return {
            **view_figures(self.tally, self.ask.latency),
            **append_figures(self.tally),
            **cost_figures(self.tally, self.model),
            **memory_of_text_figures(self.tally),
            "stall_ms": milliseconds(self.clock.stall),
            "notes": manager.notes(),
        }

    def _memory(self, base: int) -> Figures:
        grown = resident() - base
        return {
            "base_mb": round(base / 1e6, 1),
            "grown_mb": round(grown / 1e6, 1),
            "peak_mb": round(peak() / 1e6, 1),
            "bytes_per_message": round(grown / max(1, len(self.tally.log))),
        }
