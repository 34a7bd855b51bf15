"""Does anything grow with the log, and what does work in the background cost? Ratios of one run are what counts.

    python -m evals.performance.session

What is compared is measured by turns, so that whatever else the machine does falls on both sides.
"""

import asyncio
import gc
import json
import os
import resource
import tempfile
import time
from collections.abc import Awaitable, Iterable
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from evals.performance.fake_model import FakeModel
from evals.performance.managers.ours import ByFakeModel
from evals.performance.tokens import Message
from summarizing_context import Settings, SummarizingContext, open_context
from tests.talk import Talk

BUDGET = 16_000  # tokens
MESSAGES = 100_000
STRETCH = 2_000  # messages that are timed at either end
ADDERS = 64
ROUNDS = 3


def resident() -> int:
    """Return the bytes of memory in use, garbage collected first; the peak where the system does not tell."""
    gc.collect()
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def plain(count: int) -> list[Message]:
    """Return rows that may arrive in any order: no calls, as large as the others on average."""
    talk = Talk(tokens=90)
    return [talk.assistant() if at % 2 else talk.user() for at in range(count)]


def quoted(request: str, max_tokens: int) -> str:
    """Answer with words of the request, so that each reply is checked."""
    return "## Done\n- " + " ".join(word for word in request.split()[-500:] if word.isalnum())[:1_200]


async def seconds(work: Awaitable[Any]) -> float:
    """Return how long something takes."""
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def add_by_many(context: SummarizingContext, rows: Iterable[Message]) -> float:
    """Add all messages by many tasks at once; return the seconds."""
    source = iter(rows)

    async def add() -> None:
        for message in source:
            await context.add_message(message)

    return await seconds(asyncio.gather(*(add() for _ in range(ADDERS))))


async def one_by_one(context: SummarizingContext, source: Iterable[Message]) -> tuple[float, float]:
    """Add messages with a view after every tenth; return the medians of both in seconds, activations left out."""
    adds, views = [], []
    for at, message in enumerate(source):
        adds.append(await seconds(context.add_message(message)))
        if at % 10 == 9:
            view = await seconds(context.get_messages_for_request())
            if context.last_view is not None and not context.last_view.activation:
                views.append(view)
    return median(adds), median(views[len(views) // 4 :])  # the first ones show a short log


async def growth(path: Path) -> dict[str, float]:
    """Return the figures of the whole life of one session: some messages one by one with a view after every tenth, many
    by many tasks at once, the file opened again, and some more when what is read after opening is read."""
    settings = Settings(store=path, session_id="long", max_tokens=BUDGET, token_counter="estimate")
    rows, session = plain(MESSAGES - 2 * STRETCH), Talk(tokens=120).turns(MESSAGES)
    first = [*islice(session, STRETCH)]
    async with open_context() as context:  # what is imported when it is first used is no memory of a session
        await one_by_one(context, first[:10])
    gc.freeze()  # what is made to be added must not cost a collection that is timed
    base = resident()
    async with open_context(settings) as context:
        early_add, early_view = await one_by_one(context, first)
        filled = await add_by_many(context, rows)
        await context.wait_idle()
        memory = resident() - base
    began = time.perf_counter()
    async with open_context(settings) as context:
        await context.get_messages_for_request()
        reopened = time.perf_counter() - began
        await context.wait_idle()
        late_add, late_view = await one_by_one(context, islice(session, STRETCH))
    return {
        "append_late_over_early": late_add / early_add,
        "view_late_over_early": late_view / early_view,
        "adders_s_per_100k": filled / len(rows) * 1e5,
        "memory_over_text": memory / sum(len(json.dumps(row)) for row in (*first, *rows)),
        "reopen_s_per_100k": reopened / (MESSAGES - STRETCH) * 1e5,
    }


async def adders() -> dict[str, float]:
    """Return the best of some rounds by turns, over that of the store alone."""
    rows, best = plain(10_000), dict[str, float]()
    for _ in range(ROUNDS):
        for name in ("alone", "extractive", "model"):
            strategy = "truncate" if name == "alone" else "hierarchical"
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                store = Path(folder) / "a.db"
                settings = Settings(store=store, token_counter="estimate", max_tokens=BUDGET, strategy=strategy)
                model = ByFakeModel(FakeModel(0.01, write=quoted)) if name == "model" else None
                async with open_context(settings, summarizer=model) as context:
                    best[name] = min(await add_by_many(context, rows), best.get(name, float("inf")))
    return {f"adders_{name}_over_alone": best[name] / best["alone"] for name in ("extractive", "model")}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        figures = asyncio.run(growth(Path(folder) / "session.db"))
    figures |= asyncio.run(adders())
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))
