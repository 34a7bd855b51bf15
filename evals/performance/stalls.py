"""How long the event loop stands still: the longest gap between two beats, for sessions of extreme shapes. Of a gap
counts what this process has computed in it, in any thread: other programs on the machine do not matter.

Each shape is measured in a process of its own, and each step of it apart: adding the messages, the first view, the next
view, the background work, a recall.

    python -m evals.performance.stalls [SHAPE ...]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from evals.performance.tokens import Message
from summarizing_context import Settings, SummarizingContext, open_context

ROOT = Path(__file__).parents[2]
BEAT = 0.001  # seconds
BACKGROUND = 20  # seconds of it that are watched
LARGE = 24_000_000  # characters


def lines(characters: int) -> str:
    """A log file of about so many characters."""
    line = "{0:07d} INFO svc-{1} request /api/v1/items/{0} took {2} ms status={3}\n"
    return "".join(line.format(at, at % 97, at % 500, 200 + at % 7) for at in range(characters // 70))


def prose(characters: int) -> str:
    """What a human might paste: sentences, some of which sound like rules."""
    sentence = "Section {0}: always keep the port at {1}, and never touch src/file{0}.py again. It was said before.\n"
    return "".join(sentence.format(at, 8000 + at) for at in range(characters // 100))


def calls(count: int) -> Message:
    functions = [{"name": "bash", "arguments": json.dumps({"command": f"ls {at}"})} for at in range(count)]
    made = [{"id": f"c{at}", "type": "function", "function": function} for at, function in enumerate(functions)]
    return {"role": "assistant", "content": "", "tool_calls": made}


def result(at: int, text: str) -> Message:
    return {"role": "tool", "tool_call_id": f"c{at}", "content": text}


def blocks(count: int) -> list[Message]:
    return [{"type": "text", "text": f"Block {at} of it."} for at in range(count)]


def said(at: int) -> Message:
    text = f"Wrote /srv/data/{at}/file_{at}.json id{at}x{at * 7} at port {10_000 + at} "
    return {"role": "assistant", "content": text * 3}


HELLO: Message = {"role": "user", "content": "Read the log, please."}
DONE: list[Message] = [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "And now?"}]

SHAPES: dict[str, Callable[[], list[Message]]] = {
    "large result": lambda: [HELLO, calls(1), result(0, lines(LARGE)), *DONE],
    "large request": lambda: [{"role": "user", "content": prose(LARGE)}, *DONE],
    "answered calls": lambda: [HELLO, calls(2_000), *(result(at, f"made {at} " + "data " * 10) for at in range(2_000))],
    "open calls": lambda: [HELLO, calls(10_000)],
    "text blocks": lambda: [{"role": "user", "content": blocks(50_000)}, *DONE],
    "many messages": lambda: [said(at) for at in range(10_000)],
}


TokenCounterName = Literal["auto", "tiktoken", "estimate"]


class Watch:
    """Beats beside the session."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last, self._cpu = time.perf_counter(), time.process_time()

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            now, cpu = time.perf_counter(), time.process_time()
            gap = min(now - self._last - BEAT, cpu - self._cpu)  # what other processes take is none of ours
            self.longest, self._last, self._cpu = max(self.longest, gap), now, cpu

    async def over(self, step: Callable[[], Awaitable[object]]) -> float:
        """Milliseconds of the longest gap while the step was taken."""
        await asyncio.sleep(5 * BEAT)
        self.longest = 0.0
        await step()
        await asyncio.sleep(2 * BEAT)
        return round(self.longest * 1e3, 1)


async def measure(shape: str, counter: TokenCounterName) -> dict[str, float]:
    """Milliseconds of the longest gap in each step."""
    rows = SHAPES[shape]()
    gc.freeze()  # what is made to be added must not cost a collection
    watch = Watch()
    beating = asyncio.create_task(watch.beat())
    figures: dict[str, float] = {}
    settings = Settings(max_tokens=8_000 if "calls" in shape else 16_000, token_counter=counter)
    opened: list[SummarizingContext] = []

    async def note(name: str, step: Callable[[], Awaitable[object]]) -> None:
        began = time.perf_counter()
        figures[name] = await watch.over(step)
        figures[f"{name}_s"] = round(time.perf_counter() - began, 2)

    async def add() -> None:
        for row in rows:
            await opened[0].add_message(row)

    async def one_more() -> None:
        await opened[0].add_message({"role": "user", "content": "one more word"})
        await opened[0].get_messages_for_request()

    context = open_context(settings)

    async def enter() -> None:
        opened.append(await context.__aenter__())

    try:
        await note("open", enter)
        await note("add", add)
        await note("view", lambda: opened[0].get_messages_for_request())
        await note("next_view", one_more)
        await note("background", lambda: opened[0].wait_idle(BACKGROUND))
        await note("view_after", one_more)
        await note("recall", lambda: opened[0].recall("status of port 10017"))
    finally:
        await note("close", lambda: context.__aexit__(None, None, None))
        beating.cancel()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", help=", ".join(SHAPES))
    parser.add_argument("--counter", default="estimate")
    asked = parser.parse_args()
    shapes = asked.shapes or list(SHAPES)
    if len(shapes) == 1:
        print(json.dumps({shapes[0]: asyncio.run(measure(shapes[0], asked.counter))}))
        return
    for shape in shapes:
        command = [sys.executable, "-m", __spec__.name, shape, "--counter", asked.counter]
        subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
