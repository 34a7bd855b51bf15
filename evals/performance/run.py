"""Drive one context manager through the scripted session in a process of its own; print its figures as a line of JSON.

    python -m evals.performance.run ours --turns 200 --latency 0.05 --agent-latency 0.01

`live` asks for a view before every call of the agent, `cold` loads the whole history and asks for one view, `reopen`
opens the session of a live run again, and loads its messages into another session of the same store.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.performance.clockwork import Clockwork, percentile, resident
from evals.performance.fake_model import MODES, FakeModel
from evals.performance.manager import Manager, Setup
from evals.performance.managers import MANAGERS, open_manager
from evals.performance.scenario import steps
from evals.performance.tokens import Message, message_tokens, shared_prefix_tokens, wire

ANSWER = "result: "  # begins the line that holds the figures; frameworks may print others
WAITED = 0.8  # of the summarizer's latency: a view in which the process did nothing for longer has waited for it
VIEW_LIMIT = 20.0  # seconds after which a view counts as hung, and the run ends

Opener = Callable[[str], Awaitable[Manager]]  # opens the session of that name


@dataclass
class Run:
    """One run and what is counted in it. Times are seconds."""

    budget: int
    latency: float
    agent_latency: float
    model: FakeModel
    clock: Clockwork = field(default_factory=Clockwork)
    adds: list[float] = field(default_factory=list)
    views: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)  # of a view, the time in which the process did nothing
    activations: list[float] = field(default_factory=list)  # views that do not begin with the view before
    view_tokens: list[int] = field(default_factory=list)
    history_tokens: int = 0
    cached_tokens: int = 0
    over_budget: int = 0
    unsafe: int = 0
    errors: int = 0
    first_fault: str = ""
    before: list[str] | None = None  # the request before

    async def live(self, manager: Manager, turns: int) -> None:
        """Add every message, and ask for a view where the agent would."""
        for message in steps(turns):
            if message is None:
                own = self.clock.own
                await self.view(manager)
                await asyncio.sleep(max(0.0, self.agent_latency - (self.clock.own - own)))
                continue
            self.history_tokens += message_tokens(message)
            native = manager.taken(message)
            began = time.perf_counter()
            await manager.add(native)
            self.adds.append(time.perf_counter() - began)

    async def cold(self, manager: Manager, turns: int) -> None:
        """Load the whole history, then ask for one view."""
        messages = [message for message in steps(turns) if message is not None]
        self.history_tokens = sum(map(message_tokens, messages))
        await manager.load([manager.taken(message) for message in messages])
        await self.view(manager)
        await manager.settle()

    async def view(self, manager: Manager) -> None:
        """Ask for one view, and judge it by what a provider would refuse or bill."""
        native: Any = None
        began, busy = time.perf_counter(), time.process_time()
        try:
            async with asyncio.timeout(VIEW_LIMIT):
                native = await manager.view()
        except Exception as error:  # whatever a framework raises into the agent's turn
            self.errors += 1
            self.first_fault = self.first_fault or f"{type(error).__name__}: {error}"[:160]
        seconds = time.perf_counter() - began
        self.views.append(seconds)
        self.idle.append(seconds - (time.process_time() - busy))
        if native is None:
            return
        with self.clock.measuring():
            view = manager.shown(native)
            wires, tokens = [wire(message) for message in view], sum(map(message_tokens, view))
            self.view_tokens.append(tokens)
            self.over_budget += tokens > self.budget
            if fault := first_fault(view):
                self.unsafe += 1
                self.first_fault = self.first_fault or fault
            if self.before is not None:
                self.cached_tokens += shared_prefix_tokens(self.before, wires, view)
                if wires[: len(self.before)] != self.before:
                    self.activations.append(seconds)
            self.before = wires

    def figures(self) -> dict[str, Any]:
        """Return what was counted; times in milliseconds."""
        sent = sum(self.view_tokens)
        return {
            "views": len(self.views),
            "view_p50_ms": percentile(self.views, 0.50) * 1e3,
            "view_p99_ms": percentile(self.views, 0.99) * 1e3,
            "view_max_ms": max(self.views) * 1e3,
            "activation_max_ms": max(self.activations, default=0.0) * 1e3,
            "activations": len(self.activations),
            "waiting_views": sum(idle >= WAITED * self.latency for idle in self.idle) if self.latency else 0,
            "faults": self.over_budget + self.unsafe + self.errors,
            "first_fault": self.first_fault,
            "add_p50_ms": percentile(self.adds, 0.50) * 1e3,
            "mean_view_tokens": statistics.fmean(self.view_tokens) if self.view_tokens else 0,
            "history_tokens": self.history_tokens,
            "uncached_over_history": (sent - self.cached_tokens) / self.history_tokens,
            "model_calls": self.model.calls,
            "model_input_over_history": self.model.input_tokens / self.history_tokens,
            "largest_model_input": self.model.largest_input,
            "stall_ms": self.clock.stall * 1e3,
        }


def first_fault(view: Sequence[Message]) -> str:
    """Return the first call or result that a provider would refuse; empty if there is none."""
    at = 0
    while at < len(view):
        if view[at]["role"] == "tool":
            return f"row {at} answers a call that is not there"
        calls = sorted(call["id"] for call in view[at].get("tool_calls") or ())
        stop = at + 1
        while calls and stop < len(view) and view[stop]["role"] == "tool":
            stop += 1
        if calls != sorted(row["tool_call_id"] for row in view[at + 1 : stop]):
            return f"row {at} makes {len(calls)} calls; {stop - at - 1} results follow"
        at = stop
    return ""


async def reopened(opener: Opener, model: FakeModel, turns: int) -> dict[str, Any]:
    """Return calls and time to the first view of a session opened again, and calls for its messages in a new one."""
    calls, began = model.calls, time.perf_counter()
    manager = await opener("first")
    await manager.view()
    seconds = time.perf_counter() - began
    await manager.settle()
    await manager.close()
    again = model.calls - calls
    fork = await opener("fork")
    await fork.load([fork.taken(message) for message in steps(turns) if message is not None])
    await fork.view()
    await fork.settle()
    await fork.close()
    return {"reopen_ms": seconds * 1e3, "reopen_calls": again, "fork_calls": model.calls - calls - again}


async def drive(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the figures of the run that was asked for."""
    model = FakeModel(asked.latency, asked.mode)

    async def opener(session: str) -> Manager:
        own = folder / session
        own.mkdir(exist_ok=True)
        return await open_manager(Setup(asked.manager, asked.budget, model, own))

    run = Run(asked.budget, asked.latency, asked.agent_latency, model)
    manager = await opener("first")
    base = resident()
    beating = asyncio.create_task(run.clock.beat())
    try:
        await (run.cold if asked.kind == "cold" else run.live)(manager, asked.turns)
    finally:
        beating.cancel()
    figures = run.figures() | {"grown_mb": (resident() - base) / 1e6, "notes": manager.notes()}
    if asked.kind == "reopen":
        await manager.settle()  # else what was still to be made is made, and paid, when it is opened again
        await manager.close()
        return figures | await reopened(opener, model, asked.turns)
    await manager.close()
    return figures


def main() -> None:
    """Read the command line, run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manager", choices=MANAGERS)
    parser.add_argument("--kind", choices=("live", "cold", "reopen"), default="live")
    parser.add_argument("--mode", choices=MODES, default="works", help="how the summarizer behaves")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--budget", type=int, default=16_000, help="tokens")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds of a summary")
    parser.add_argument("--agent-latency", type=float, default=0.01, help="seconds of a call of the agent")
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        print(ANSWER + json.dumps(asyncio.run(drive(asked, Path(folder)))), flush=True)
    os._exit(0)  # threads of a framework may wait for ever for a model that never answers


if __name__ == "__main__":
    main()
