"""Time and memory of one session of 100,000 messages: does anything grow with the log?

Claims checked: appending and viewing cost the same at the end as at the beginning (at most 1.3 times), memory stays
under three times the text, reopening takes under 3 s to the first view, 100,000 durable messages by 64 tasks at once
take under 10 s, the extractive summarizer reads at least a million tokens a second on one core.
Prints a table; `--json PATH` for machines.
Ratios within one run are what counts: single times depend on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from summarizing_context import Settings, open_context
from summarizing_context.core.door import check_message
from summarizing_context.core.entries import ESTIMATE, make_entry
from summarizing_context.core.estimate import estimate_text
from summarizing_context.core.segments import Limits
from summarizing_context.summarizers.extractive import summarize_extractively
from summarizing_context.timeline import Timeline

PHRASE = (
    "the build failed because src/parser.py line 88 expects a list; retry with --verbose and read the log before "
    "changing config/default.toml, then run pytest -q tests/test_parser.py and commit to the branch fix/parser"
)
WORDS = PHRASE.split()
VIEW_EVERY = 10  # messages
BUDGET = 16_000  # tokens


def messages(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """A plain agent session: a question, calls with results, an answer."""
    chance = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(chance.choices(WORDS, k=words))

    made = 0
    while made < count:
        yield {"role": "user", "content": f"{made}: {text(30)}"}
        for step in range(4):
            id = f"call_{made}_{step}"
            call = {
                "id": id,
                "type": "function",
                "function": {"name": "run", "arguments": json.dumps({"cmd": text(8)})},
            }
            yield {"role": "assistant", "content": text(15), "tool_calls": [call]}
            yield {"role": "tool", "tool_call_id": id, "content": text(120)}
        yield {"role": "assistant", "content": text(40)}
        made += 10


async def measure(count: int, path: Path) -> dict[str, float]:
    settings = Settings(store=path, session_id="bench", max_tokens=BUDGET, token_counter="estimate")
    appends: list[float] = []
    views: list[float] = []
    activations: list[float] = []
    characters = 0
    gc.collect()
    before = _resident()
    with Progress(transient=True) as progress:
        bar = progress.add_task("messages", total=count)
        async with open_context(settings) as context:
            for at, message in enumerate(messages(count)):
                characters += len(json.dumps(message))
                began = time.perf_counter()
                await context.add_message(message)
                appends.append(time.perf_counter() - began)
                if at % VIEW_EVERY == VIEW_EVERY - 1:
                    began = time.perf_counter()
                    await context.get_messages_for_request()
                    view = context.last_view
                    assert view is not None
                    (activations if view.activation else views).append(time.perf_counter() - began)
                    progress.update(bar, completed=at + 1)
            await context.wait_idle()
            gc.collect()
            memory = _resident() - before
            messages_kept = context.statistics().messages
    began = time.perf_counter()
    async with open_context(settings) as context:
        await context.get_messages_for_request()
        reopened = time.perf_counter() - began
    return {
        "messages": messages_kept,
        "append_us_p50": statistics.median(appends) * 1e6,
        "append_last_over_first_tenth": _growth(appends),
        "view_ms_p50": statistics.median(views) * 1e3,
        "view_ms_p99": _percentile(views, 0.99) * 1e3,
        "view_last_over_first_tenth": _growth(views),
        "activations": len(activations),
        "activation_ms_p50": statistics.median(activations) * 1e3,
        "activation_ms_p99": _percentile(activations, 0.99) * 1e3,
        "activation_last_over_first_tenth": _growth(activations),
        "memory_bytes_per_message": memory / messages_kept,
        "text_bytes_per_message": characters / messages_kept,
        "memory_over_text": memory / characters,
        "reopen_to_first_view_s": reopened,
    }


def extractive_speed(count: int) -> float:
    """Estimated tokens a second that the extractive summarizer reads on one core."""
    timeline = Timeline(Limits(), image_tokens=0)
    for message in messages(count, seed=2):
        timeline.extend(make_entry(check_message(message), estimate_text, ESTIMATE))
    contents = [timeline.content(leaf) for leaf in range(len(timeline.segments))]
    began = time.process_time()
    for content in contents:
        summarize_extractively(content, max_tokens=400, count=estimate_text)
    return sum(map(estimate_text, contents)) / (time.process_time() - began)


async def many_adders(count: int, adders: int, path: Path) -> float:
    """Seconds for `count` durable messages from `adders` tasks at once."""
    source = iter(list(messages(count)))
    async with open_context(Settings(store=path, session_id="many", token_counter="estimate")) as context:

        async def add() -> None:
            for message in source:
                await context.add_message({"role": "user", "content": str(message.get("content"))})

        began = time.perf_counter()
        await asyncio.gather(*(add() for _ in range(adders)))
        return time.perf_counter() - began


def _growth(times: list[float]) -> float:
    """Median of the last tenth over that of the first; the very first ones, which fill caches, are left out."""
    tenth = max(1, len(times) // 10)
    return statistics.median(times[-tenth:]) / statistics.median(times[tenth // 2 : tenth // 2 + tenth])


def _percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def _resident() -> int:
    """Bytes of memory in use; the peak where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--json", type=Path, default=None, help="write the figures here as well")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(asked.messages, Path(folder) / "bench.db"))
        figures["extractive_tokens_per_s"] = extractive_speed(min(asked.messages, 10_000))
        figures["adders_64_seconds"] = asyncio.run(many_adders(asked.messages, 64, Path(folder) / "many.db"))
        figures["file_mb"] = (Path(folder) / "bench.db").stat().st_size / 1e6
    table = Table("figure", "value", title=f"one session, {asked.messages:,} messages, views of {BUDGET:,} tokens")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.3f}" if isinstance(value, float) else f"{value:,}")
    Console().print(table)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
