"""One session of 100,000 messages: does anything grow with the log?

Two thousand messages one by one with a view after every tenth, then many tasks at once up to the whole number, then the
file opened again, then two thousand more. Medians of the end over those of the beginning are what counts; single times
depend on the machine.

After opening, a long log is read once more in the background. The end is measured when that is done, as the beginning
has nothing to read either; what an append takes meanwhile is a figure of its own.

    python -m evals.performance.session [--messages 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evals.performance.clockwork import percentile, resident
from evals.performance.tokens import Message
from summarizing_context import Settings, SummarizingContext, open_context
from summarizing_context.log.entries import make_entry
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.segments import Limits
from summarizing_context.messages.shapes import check_message
from summarizing_context.messages.tokens import ESTIMATE_COUNTER, estimate_text
from summarizing_context.summarizers.extractive.summarizer import summarize_extractively

PHRASE = (
    "the build failed because src/parser.py line 88 expects a list; retry with --verbose and read the log before "
    "changing config/default.toml, then run pytest -q tests/test_parser.py and commit to the branch fix/parser"
)
WORDS = PHRASE.split()
VIEW_EVERY = 10  # messages
BUDGET = 16_000  # tokens
STRETCH = 2_000  # messages that are timed at either end
ADDERS = 64
SAMPLE = 100  # messages that are timed while the log is read
SPEED_SAMPLE = 8_000  # messages


def messages(count: int, seed: int = 1) -> Iterator[Message]:
    """A plain agent session: a question, calls with results, an answer."""
    chance = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(chance.choices(WORDS, k=words))

    made = 0
    while made < count:
        yield {"role": "user", "content": f"{made}: {text(30)}"}
        for step in range(4):
            id = f"call_{seed}_{made}_{step}"
            function = {"name": "run", "arguments": json.dumps({"cmd": text(8)})}
            call = {"id": id, "type": "function", "function": function}
            yield {"role": "assistant", "content": text(15), "tool_calls": [call]}
            yield {"role": "tool", "tool_call_id": id, "content": text(120)}
        yield {"role": "assistant", "content": text(40)}
        made += 10


class Times:
    """Seconds of one stretch of a session."""

    def __init__(self) -> None:
        self.adds: list[float] = []
        self.views: list[float] = []
        self.activations: list[float] = []

    async def one_by_one(self, context: SummarizingContext, source: Iterator[Message]) -> None:
        for at, message in enumerate(source):
            began = time.perf_counter()
            await context.add_message(message)
            self.adds.append(time.perf_counter() - began)
            if at % VIEW_EVERY == VIEW_EVERY - 1:
                await self._view(context)

    async def _view(self, context: SummarizingContext) -> None:
        began = time.perf_counter()
        await context.get_messages_for_request()
        seconds = time.perf_counter() - began
        view = context.last_view
        (self.activations if view is not None and view.activation else self.views).append(seconds)


async def measure(count: int, path: Path) -> dict[str, float]:
    """The figures of the whole life of one session."""
    settings = Settings(store=path, session_id="long", max_tokens=BUDGET, token_counter="estimate")
    stretch = min(STRETCH, count // 4)
    middle = count - 2 * stretch
    early, beside, late = Times(), Times(), Times()
    rows = list(plain(middle))
    async with open_context() as context:  # what is imported when it is first used is no memory of a session
        await early.one_by_one(context, messages(VIEW_EVERY))
    early = Times()
    gc.freeze()  # what is made to be added must not cost a collection that is timed
    base = resident()
    async with open_context(settings) as context:
        await early.one_by_one(context, messages(stretch, seed=1))
        began = time.perf_counter()
        await add_by_many(context, iter(rows))
        filled = time.perf_counter() - began
        await context.wait_idle()
        memory = resident() - base
    began = time.perf_counter()
    async with open_context(settings) as context:
        await context.get_messages_for_request()
        reopened = time.perf_counter() - began
        await beside.one_by_one(context, messages(SAMPLE, seed=4))
        await context.wait_idle()
        await late.one_by_one(context, messages(stretch, seed=3))
    characters = sum(len(json.dumps(row)) for row in (*messages(stretch), *rows))
    return {
        "messages": count,
        "append_p50_us": statistics.median(late.adds) * 1e6,
        "append_while_read_p50_us": statistics.median(beside.adds) * 1e6,
        "append_late_over_early": statistics.median(late.adds) / statistics.median(early.adds),
        "view_p50_ms": statistics.median(late.views) * 1e3,
        "view_p99_ms": percentile(late.views, 0.99) * 1e3,
        "view_late_over_early": statistics.median(late.views) / statistics.median(early.views[len(early.views) // 4 :]),
        "activation_max_ms": max(late.activations, default=0.0) * 1e3,
        "adders_s": filled,
        "adders_s_per_100k": filled / middle * 1e5,
        "memory_over_text": memory / characters,
        "memory_bytes_per_message": memory / (count - stretch),
        "reopen_s": reopened,
        "reopen_s_per_100k": reopened / (count - stretch) * 1e5,
    }


def extractive_speed(count: int) -> float:
    """Estimated tokens a second that the extractive summarizer reads on one core."""
    timeline = MessageLog(Limits(), image_tokens=0)
    for message in messages(count, seed=4):
        timeline.extend(make_entry(check_message(message), ESTIMATE_COUNTER))
    contents = [timeline.content(leaf) for leaf in range(len(timeline.segments))]
    tokens = sum(map(estimate_text, contents))
    began = time.process_time()
    for content in contents:
        summarize_extractively(content, max_tokens=400)
    return tokens / (time.process_time() - began)


def plain(count: int) -> Iterator[Message]:
    """Rows that may arrive in any order: no calls, as large as the others on average."""
    chance = random.Random(5)
    for at in range(count):
        words = " ".join(chance.choices(WORDS, k=60))
        yield {"role": "assistant" if at % 2 else "user", "content": f"{at}: {words}"}


async def add_by_many(context: SummarizingContext, source: Iterator[Message]) -> None:
    """Add all messages by many tasks at once."""

    async def add() -> None:
        for message in source:
            await context.add_message(message)

    await asyncio.gather(*(add() for _ in range(ADDERS)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        figures: dict[str, Any] = asyncio.run(measure(asked.messages, Path(folder) / "session.db"))
    figures["extractive_mtokens_per_s"] = extractive_speed(min(SPEED_SAMPLE, asked.messages)) / 1e6
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
