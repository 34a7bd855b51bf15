"""Report the size of the package beside its budget, and how far a call travels through it.

    python -m evals.house

A call passes a file when a function in it is entered. It changes from one file to another when the function and the
nearest function of the package that has called it stand in different files. Only the foreground counts: the call
itself, the tasks that it starts, what it has a thread decide, and what the store calls back in the event loop. The
worker is idle before each call, so the figures are the same in each run.
"""

import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from pathlib import Path
from statistics import median_high
from traceback import walk_stack
from types import FrameType
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from evals.performance.fake_model import FakeModel
from evals.performance.managers.ours import ByFakeModel
from evals.performance.tokens import steps
from summarizing_context import Settings, open_context
from summarizing_context.cli.output import table
from summarizing_context.concurrency import WorkerThread

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "summarizing_context"

BUDGETS = {  # lines of the design; of a room give or take a fifth
    "errors": 220, "concurrency": 120, "settings": 400, "messages": 1_900, "extraction": 850, "stores": 1_900,
    "log": 1_500, "summarizers": 2_500, "worker": 900, "views": 2_300, "sessions": 1_000, "retrieval": 1_500,
    "context": 450, "commands": 350, "assembly": 250, "transcripts": 1_600, "adapters": 2_500, "cli": 1_800,
    "evaluation": 3_200, "contrib": 4_800, "summarizing_context": 30_000, "tests": 24_000, "evals": 3_000,
}  # fmt: skip

TURNS, BUDGET = 300, 16_000  # of the session in which calls are followed
WARM = 3  # activations after which they are
_is_foreground: ContextVar[bool] = ContextVar("is_foreground", default=False)


def lines_of(folder: str) -> Counter[str]:
    """Return the lines of code by the file or folder in which they are, without hidden folders, which tools make."""
    lines: Counter[str] = Counter()
    for path in (ROOT / folder).rglob("*"):
        parts = path.relative_to(ROOT / folder).with_suffix("").parts
        if path.suffix in (".py", ".sql", ".js", ".css") and not any(part.startswith(".") for part in parts):
            lines[parts[0]] += len(path.read_text(encoding="utf-8").splitlines())
    return lines


def rooms() -> Table:
    """Return a table of the lines of each room of the package, and of each total beside its budget."""
    shown = table("The house", ("room", "#lines", "#budget", "#over"), wide="room")
    totals = [(each, lines_of(each).total()) for each in ("summarizing_context", "tests", "evals")]
    for name, lines in [*lines_of("summarizing_context").most_common(), *totals]:
        budget = BUDGETS.get(name)
        shown.add_row(name, f"{lines:,}", *([f"{budget:,}", f"{lines / budget - 1:+.0%}"] if budget else []))
    return shown


async def followed(call: Coroutine[Any, Any, Any]) -> tuple[int, int, int]:
    """Make a call; return how many files it passes, how often it changes from one to another, and its calls in all."""
    entered: list[tuple[str, str]] = []  # the file of each function, and of that which called it

    def note(frame: FrameType, event: str, argument: object) -> None:
        is_ours = _is_foreground.get() or asyncio.current_task() is None  # a callback belongs to no task
        if event == "call" and is_ours and frame.f_code.co_filename.startswith(str(PACKAGE)):
            files = (each.f_code.co_filename for each, _ in walk_stack(frame.f_back))
            file = frame.f_code.co_filename
            entered.append((file, next((each for each in files if each.startswith(str(PACKAGE))), file)))

    async def run(thread: WorkerThread, work: Callable[[], Any]) -> Any:
        return work()  # in this thread, whose calls are noted

    token = _is_foreground.set(True)
    sys.setprofile(note)
    try:
        with patch.object(WorkerThread, "run", run):
            await call
    finally:
        sys.setprofile(None)
        _is_foreground.reset(token)
    return len({file for file, _ in entered}), sum(file != caller for file, caller in entered), len(entered)


async def travel() -> Table:
    """Return a table of three calls in a session that has activated before: medians, and the largest behind."""
    trips = defaultdict[str, list[tuple[int, int, int]]](list)
    added = 0
    settings = Settings(max_tokens=BUDGET, token_counter="estimate", idle_after="never")
    async with open_context(settings, summarizer=ByFakeModel(FakeModel(0.0))) as context:
        for message in steps(TURNS):
            is_warm = context.statistics().activations >= WARM
            if message is None:
                trip = await followed(context.get_messages_for_request())
                is_activated = context.last_view is not None and context.last_view.activation is not None
                way = "view that activates" if is_activated else f"view that adds {added}"
            else:
                trip, way = await followed(context.add_message(message)), "add_message"
            added = 0 if message is None else added + 1
            if is_warm:
                trips[way].append(trip)
            await context.wait_idle()
            await asyncio.sleep(0)  # a view wakes the worker in the next turn of the event loop
    shown = table("Median (largest)", ("way", "#times", "#files", "#changes of file", "#calls"), wide="way")
    for way in ("add_message", "view that adds 2", "view that activates"):
        figures = (f"{median_high(one):,} ({max(one):,})" for one in zip(*trips[way], strict=True))
        shown.add_row(way, f"{len(trips[way]):,}", *figures)
    return shown


if __name__ == "__main__":
    Console().print(rooms(), asyncio.run(travel()))
