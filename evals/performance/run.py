"""Drive one context manager through the scripted session in a process of its own; print its figures as a line of JSON.

    python -m evals.performance.run ours --turns 200 --latency 0.05 --agent-latency 0.01
    python -m evals.performance.run langchain --kind steps

`live` asks for a view before every call of the agent and takes the time, `steps` counts without a clock: the summarizer
answers at every fifth request or when the agent waits for it, so that all machines count the same. `cold` loads the
whole history and asks for one view. `chats` plays the chats of a JSON file and prints their last views.
"""

import argparse
import asyncio
import hashlib
import json
import logging
import os
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.clients.rules import Seal, problem
from evals.performance.fake_model import MODES, FakeModel, Reader, view_number
from evals.performance.managers import MANAGERS, Manager, open_manager
from evals.performance.tokens import CHARACTERS, Message, anthropic_body, message_tokens, shared_characters, steps, wire

WAITED = 0.8  # of the summarizer's latency: a view in which the process did nothing for longer has waited for it
VIEW_LIMIT = 20.0  # seconds after which a view counts as hung, and the run ends
PACE = 5  # requests of the agent that a summary takes, as in the runs that take the time
BLOCKED = 0.02  # seconds after which a view has begun to wait for an answer that it has asked for itself
LOST = 1.0  # likewise, for an answer that an earlier view has asked for
CHAT_SUMMARY = 1_500  # tokens
PRICES = {"written": 1.25, "read": 0.1, "input": 1.0, "output": 5.0}  # of a token, over that of a plain one of input
BEAT = 0.002  # seconds
FAULTS = ("over_budget", "refused_by_chat", "refused_by_anthropic", "errors")


@dataclass
class Run:
    """One run of a manager and what is counted in it. Times are seconds."""

    manager: Manager
    agent_latency: float = 0.0
    own: float = 0.0  # went into measuring: it is no stall, and the agent's pause is shortened by it
    stall: float = 0.0  # the longest time between two beats of the event loop, less the beat itself
    views: list[float] = field(default_factory=list)
    waiting: int = 0  # of these, in which the process did nothing for long
    activation: float = 0.0  # the slowest view that does not begin with the view before
    view_tokens: list[int] = field(default_factory=list)
    digest: Any = field(default_factory=hashlib.sha256)  # of all views
    history_tokens: int = 0
    cached_tokens: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    first_fault: str = ""
    before: list[str] = field(default_factory=list)  # the request before
    last: str = ""  # view, as text

    def __post_init__(self) -> None:
        self.model, self.budget = self.manager.model, self.manager.budget

    async def play(self, messages: Iterable[Message | None]) -> None:
        """Add every message, and ask for a view where the agent would."""
        for message in messages:
            own = self.own
            if message is not None:
                self.history_tokens += message_tokens(message)
                await self.manager.add(message)
                continue
            await self.view()
            if self.model.latency is not None:
                await asyncio.sleep(max(0.0, self.agent_latency - (self.own - own)))
            elif len(self.views) % PACE == 0:
                await self.answered()

    async def answered(self) -> None:
        """Let the model answer, and wait for what is made of it."""
        self.model.is_open = True
        self.model.release()
        await self.manager.settle()
        for _ in range(100):  # turns of the event loop: what a framework does without a clock is done then
            await asyncio.sleep(0)
        self.model.is_open = False

    async def view(self) -> None:
        """Ask for one view, and judge it by what a provider would refuse or bill."""
        native: Any = None
        began, busy = time.perf_counter(), time.process_time()
        try:
            async with asyncio.timeout(VIEW_LIMIT):
                native = await (self.manager.view() if self.model.latency is not None else self.stepped())
        except Exception as error:  # whatever a framework raises into the agent's turn
            self.fault("errors", f"{type(error).__name__}: {error}"[:160])
        self.views.append(seconds := time.perf_counter() - began)
        self.waiting += seconds - (time.process_time() - busy) >= WAITED * (self.model.latency or float("inf"))
        if native is None:
            return
        began = time.perf_counter()
        view = self.manager.shown(native)
        wires, tokens = [wire(message) for message in view], sum(map(message_tokens, view))
        self.view_tokens.append(tokens)
        self.faults["over_budget"] += tokens > self.budget
        self.last = self.model.agent_request = "\n".join(wires)
        self.digest.update(self.last.encode("utf-8", "surrogatepass") + b"\0")
        for dialect, body in (("chat", {"messages": view}), ("anthropic", anthropic_body(view))):
            if refusal := problem(dialect, body, Seal(b"")):
                self.fault(f"refused_by_{dialect}", f"{dialect}: {refusal}")
        for old, new, message in zip(self.before, wires, view, strict=False):
            size = message_tokens(message)
            self.cached_tokens += size if old == new else min(size, shared_characters(old, new) // CHARACTERS)
            if old != new:
                break
        if wires[: len(self.before)] != self.before:
            self.activation = max(self.activation, seconds)
        self.before = wires
        self.own += time.perf_counter() - began

    def fault(self, kind: str, words: str) -> None:
        """Count a fault, and keep the words of the first."""
        self.faults[kind] += 1
        self.first_fault = self.first_fault or words

    async def stepped(self) -> Any:
        """Return the view. What it waits for is answered, and counted as a wait."""
        number, began = len(self.views) + 1, time.monotonic()
        view_number.set(number)
        made = asyncio.create_task(self.manager.view())
        while not (await asyncio.wait({made}, timeout=BLOCKED))[0]:
            self.model.waits += self.model.release(None if time.monotonic() - began > LOST else number)
        return made.result()

    async def beat(self) -> None:
        """Measure how long the event loop stands still, until cancelled."""
        last, own = time.perf_counter(), self.own
        while True:
            await asyncio.sleep(BEAT)
            now = time.perf_counter()
            self.stall = max(self.stall, now - last - BEAT - (self.own - own))
            last, own = now, self.own

    def figures(self) -> dict[str, Any]:
        """Return what was counted; with a clock the times too, in milliseconds."""
        model, history = self.model, self.history_tokens
        uncached = sum(self.view_tokens) - self.cached_tokens
        price = uncached * PRICES["written"] + (self.cached_tokens + model.cached_tokens) * PRICES["read"]
        price += (model.input_tokens - model.cached_tokens) * PRICES["input"] + model.output_tokens * PRICES["output"]
        counts = {
            "views": len(self.views),
            "waits": model.waits,
            "uncached_over_history": uncached / history,
            "price_over_history": price / history,
            "model_input_over_history": model.input_tokens / history,
            "model_output_over_history": model.output_tokens / history,
            "model_calls": model.calls,
            "mean_view_tokens": sum(self.view_tokens) / max(1, len(self.view_tokens)),
            "largest_view_tokens": max(self.view_tokens, default=0),
            **{kind: self.faults[kind] for kind in FAULTS},
            "first_fault": self.first_fault,
            "digest": self.digest.hexdigest()[:16],
        }
        if model.latency is None:
            return counts
        views = sorted(self.views)
        return counts | {
            "view_p50_ms": views[len(views) // 2] * 1e3,
            "view_p99_ms": views[int(0.99 * len(views))] * 1e3,
            "view_max_ms": views[-1] * 1e3,
            "activation_max_ms": self.activation * 1e3,
            "waiting_views": self.waiting,
            "faults": self.faults.total(),
            "stall_ms": self.stall * 1e3,
        }


async def last_view(asked: argparse.Namespace, folder: Path, messages: Sequence[Message]) -> dict[str, Any]:
    """Return the last view of a chat. A view is asked for behind every message of the user."""
    model = FakeModel(None, write=Reader(messages), max_tokens=CHAT_SUMMARY)
    run = Run(await open_manager(asked.manager, asked.budget, model, Path(tempfile.mkdtemp(dir=folder))))
    for message in messages:
        await run.play([message, None] if message["role"] == "user" else [message])
    await run.answered()
    await run.manager.close()
    return {"text": run.last, "tokens": run.view_tokens[-1], "faults": run.faults["errors"] + run.faults["over_budget"]}


async def drive(asked: argparse.Namespace, folder: Path) -> Any:
    """Return the figures of the run that was asked for."""
    if asked.kind == "chats":
        return [await last_view(asked, folder, messages) for messages in json.loads(asked.chats.read_text("utf-8"))]
    model = FakeModel(None if asked.kind == "steps" else asked.latency, asked.mode)
    manager = await open_manager(asked.manager, asked.budget, model, folder)
    run = Run(manager, asked.agent_latency)
    beating = asyncio.create_task(run.beat())
    if asked.kind == "cold":
        messages = [message for message in steps(asked.turns) if message is not None][:-1]  # an answer comes last
        run.history_tokens = sum(map(message_tokens, messages))
        await manager.load(messages)
        await run.view()
        await manager.settle()
    else:
        await run.play(list(steps(asked.turns)))
    beating.cancel()
    if asked.kind == "steps":
        await run.answered()
        model.is_open = True
    figures = run.figures()
    await manager.close()
    return figures


def main() -> None:
    """Read the command line, run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manager", choices=MANAGERS)
    parser.add_argument("--kind", choices=("live", "steps", "cold", "chats"), default="live")
    parser.add_argument("--mode", choices=MODES, default="works", help="how the summarizer behaves")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--budget", type=int, default=16_000, help="tokens")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds of a summary")
    parser.add_argument("--agent-latency", type=float, default=0.01, help="seconds of a call of the agent")
    parser.add_argument("--chats", type=Path, help="a JSON file with a list of messages for each chat")
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        print(json.dumps(asyncio.run(drive(asked, Path(folder)))), flush=True)
    os._exit(0)  # threads of a framework may wait for ever for a model that never answers


if __name__ == "__main__":
    main()
