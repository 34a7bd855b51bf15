"""What background work costs the foreground: adders and views beside summaries, as ratios of one run.

Each side is measured by turns, so that whatever else the machine does falls on both.

    python -m evals.performance.background [--messages 10000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from evals.performance.clockwork import Clockwork
from evals.performance.session import add_by_many, messages, plain
from evals.performance.tokens import Message
from summarizing_context import Settings, SummarizingContext, SummaryJob, open_context

ROUNDS = 3
PAUSE = 0.002  # seconds between two views
VIEWS = 250  # of a round, at most
BUSY_LOG = 3_000  # messages that are summarized beside the views
WORDS = 250  # of a summary


class QuickModel:
    """Answers after ten milliseconds with words of its source, so that each reply is checked against it."""

    recipe = "quick-model/1"

    async def summarize(self, job: SummaryJob) -> str:
        await asyncio.sleep(0.01)
        if job.kind == "rules":
            return "none"
        return (
            "## Done\n- " + " ".join(word for word in job.content.split()[: 2 * WORDS] if word.isalnum())[: 6 * WORDS]
        )


async def adders(rows: list[Message], folder: Path, *, model: bool = False, alone: bool = False) -> float:
    """Seconds until many adders have stored all rows."""
    strategy = "truncate" if alone else "hierarchical"
    settings = Settings(store=folder / "adders.db", token_counter="estimate", max_tokens=16_000, strategy=strategy)
    async with open_context(settings, summarizer=QuickModel() if model else None) as context:
        began = time.perf_counter()
        await add_by_many(context, iter(rows))
        return time.perf_counter() - began


def adder_figures(count: int) -> dict[str, float]:
    """The best of some rounds by turns, over that of the store alone."""
    rows = list(plain(count))
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, asked in (("alone", {"alone": True}), ("extractive", {}), ("model", {"model": True})):
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                seconds = asyncio.run(adders(rows, Path(folder), **asked))
            best[name] = min(seconds, best.get(name, seconds))
    return {f"adders_{name}_over_alone": best[name] / best["alone"] for name in ("extractive", "model")}


async def view_figures() -> dict[str, float]:
    """Views of one session, by turns with and without another one being summarized in the same process."""
    settings = Settings(token_counter="estimate", max_tokens=16_000)
    idle: list[float] = []
    busy: list[float] = []
    clock = Clockwork()
    async with open_context(settings) as context:
        for message in messages(1_000, seed=1):
            await context.add_message(message)
        await context.wait_idle()
        await context.get_messages_for_request()
        for seed in range(ROUNDS):
            idle += [seconds async for seconds in _views(context, lambda: True)]
            async with open_context(settings, summarizer=QuickModel()) as other:
                await other.set_messages(messages(BUSY_LOG, seed=10 + seed))
                await other.get_messages_for_request()
                beating = asyncio.create_task(clock.beat())
                busy += [seconds async for seconds in _views(context, lambda: other.statistics().summaries_pending > 0)]
                beating.cancel()
    return {
        "view_busy_over_idle": statistics.median(busy) / statistics.median(idle),
        "view_busy_p50_ms": statistics.median(busy) * 1e3,
        "views_while_busy": len(busy),
        "stall_busy_ms": clock.stall * 1e3,
    }


async def _views(context: SummarizingContext, goes_on: Callable[[], bool]) -> AsyncIterator[float]:
    """Seconds of each of some views, as long as it goes on."""
    for at in range(VIEWS):
        if at % 25 == 0 and not goes_on():
            return
        began = time.perf_counter()
        await context.get_messages_for_request()
        yield time.perf_counter() - began
        await asyncio.sleep(PAUSE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    figures = adder_figures(parser.parse_args().messages) | asyncio.run(view_figures())
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
