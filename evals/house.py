"""Report the size of the package beside its budget, and how far a call travels through it.

    python -m evals.house

The budgets are those of the design (lines of Python a room, give or take a fifth). Numeric constants are names of
modules and classes that hold a number; regular expressions are calls of `re.compile`; caches are decorators and
classes of `functools` that remember. A test file uses public names alone if it imports nothing of the package but
the names of `summarizing_context`, its errors, its test fakes, and the modules that the documents name.

A call passes a file when a function in it is entered. It changes from one file to another when the function and the
nearest function of the package that has called it stand in different files. Only the foreground counts: the call
itself, the tasks that it starts, what it has a thread decide, and what the store calls back in the event loop. The
worker is idle before each call, so the figures are the same in each run.
"""

from __future__ import annotations

import ast
import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_high
from types import FrameType
from typing import Any
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from evals.performance.fake_model import FakeModel
from evals.performance.managers.ours import ByFakeModel
from evals.performance.scenario import steps
from summarizing_context import Settings, open_context
from summarizing_context.cli.output import table
from summarizing_context.concurrency import WorkerThread

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "summarizing_context"

BUDGETS = {  # lines; a room of today stands in the row of the room that it becomes
    "errors": 220, "concurrency": 120, "settings": 400, "messages": 1_900, "facts": 850, "stores": 1_900, "log": 1_500,
    "summarizers": 2_500, "worker": 900, "views": 2_300, "session": 1_000, "retrieval": 1_500, "context": 450,
    "commands": 350, "assembly": 250, "transcripts": 1_600, "adapters": 2_500, "cli": 1_800, "evaluation": 3_200,
    "contrib": 4_000,
}  # fmt: skip
BECOMES = {"extraction": "facts", "sessions": "session"}
TOTALS = {"summarizing_context": 30_000, "tests": 24_000, "evals": 3_000}

PUBLIC = (  # modules that the documents name
    "summarizing_context.adapters.",
    "summarizing_context.cli",
    "summarizing_context.contrib.",
    "summarizing_context.errors",
    "summarizing_context.evaluation",
    "summarizing_context.testing",
    "summarizing_context.transcripts",
)
CACHES = {"lru_cache", "cached_property"}  # and the decorator `cache`

TURNS, BUDGET = 300, 16_000  # of the session in which calls are followed
WARM = 3  # activations after which they are
_is_foreground: ContextVar[bool] = ContextVar("is_foreground", default=False)


def sources(folder: str) -> dict[Path, str]:
    """Return the Python files of a folder with their text, without those of environments that were made in it."""
    paths = [path for path in (ROOT / folder).rglob("*.py") if ".environments" not in path.parts]
    return {path.relative_to(ROOT / folder): path.read_text(encoding="utf-8") for path in paths}


def lines(texts: Iterable[str]) -> int:
    """Return the number of lines of some files."""
    return sum(len(text.splitlines()) for text in texts)


def rooms(package: dict[Path, str]) -> Table:
    """Return a table of the lines of each room, by the name that the room has in the design, and of each total."""
    found: Counter[str] = Counter()
    for path, text in package.items():
        room = path.with_suffix("").parts[0]
        room = BECOMES.get(room, room)
        found[room if room in BUDGETS else "others"] += lines([text])
    shown = Table("room", "lines", "budget", "over", title="The house", title_justify="left")
    for column in shown.columns[1:]:
        column.justify = "right"
    for room, budget in BUDGETS.items():
        shown.add_row(room, f"{found[room]:,}", f"{budget:,}", f"{found[room] / budget - 1:+.0%}")
    if found["others"]:
        shown.add_row("others", f"{found['others']:,}", "0", "")
    shown.add_section()
    for name, budget in TOTALS.items():
        total = lines(sources(name).values())
        shown.add_row(name, f"{total:,}", f"{budget:,}", f"{total / budget - 1:+.0%}")
    return shown


def costs(package: dict[Path, str]) -> dict[str, int]:
    """Count what a maintainer must carry beside lines: constants, expressions, tuples with names, caches."""
    found = Counter(modules=len(package), numeric_constants=0, regular_expressions=0, named_tuples=0, caches=0)
    for node in (node for text in package.values() for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.Call):
            found["regular_expressions"] += ast.unparse(node.func) == "re.compile"
        elif isinstance(node, ast.Name):
            found["caches"] += node.id in CACHES
        elif isinstance(node, ast.FunctionDef):
            found["caches"] += sum(ast.unparse(one) == "cache" for one in node.decorator_list)
        elif isinstance(node, ast.Module | ast.ClassDef):
            bases = node.bases if isinstance(node, ast.ClassDef) else []
            found["named_tuples"] += any(ast.unparse(base) == "NamedTuple" for base in bases)
            found["numeric_constants"] += sum(map(_is_numeric_constant, node.body))
    return dict(found)


def _is_numeric_constant(node: ast.stmt) -> bool:
    """Return whether a statement gives a number to a name in capitals."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(
        node.value, ast.Constant | ast.BinOp | ast.UnaryOp
    ):
        return False
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    numbers = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
    are_numbers = bool(numbers) and all(isinstance(number, int | float) for number in numbers)
    return isinstance(target, ast.Name) and target.id.isupper() and are_numbers


def uses_public_names_alone(test: str) -> bool:
    """Return whether a test imports nothing of the package that the documents do not name."""
    names: list[str] = []
    for node in ast.walk(ast.parse(test)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "summarizing_context":
            names += [f"{node.module}.{alias.name}" for alias in node.names if (PACKAGE / alias.name).is_dir()]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return all(name.startswith(PUBLIC) for name in names if name.startswith("summarizing_context."))


@dataclass
class Trip:
    """What one call has passed."""

    changes: int = 0
    calls: int = 0
    files: set[str] = field(default_factory=set)

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        """A profiler's function: something was entered or left."""
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(str(PACKAGE)):
            return
        if not _is_foreground.get() and asyncio.current_task() is not None:  # a callback belongs to no task
            return
        self.calls += 1
        self.files.add(file)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(str(PACKAGE)):
            caller = caller.f_back
        self.changes += caller is not None and caller.f_code.co_filename != file


@contextmanager
def travelling() -> Iterator[Trip]:
    """Follow what this task does, the tasks that it starts, and what it has a thread do."""
    trip, run = Trip(), WorkerThread.run

    async def followed(thread: WorkerThread, work: Callable[[], Any]) -> Any:
        context = copy_context()

        def done() -> Any:
            sys.setprofile(trip.note if context.get(_is_foreground) else None)
            try:
                return context.run(work)
            finally:
                sys.setprofile(None)

        return await run(thread, done)

    token = _is_foreground.set(True)
    sys.setprofile(trip.note)
    try:
        with patch.object(WorkerThread, "run", followed):
            yield trip
    finally:
        sys.setprofile(None)
        _is_foreground.reset(token)


async def travel() -> Table:
    """Return a table of three calls in a session that has activated before: medians, and the largest behind."""
    adds, views, activations = list[Trip](), list[Trip](), list[Trip]()
    added = 0
    settings = Settings(max_tokens=BUDGET, token_counter="estimate", idle_after="never")
    async with open_context(settings, summarizer=ByFakeModel(FakeModel(0.0))) as context:
        for message in steps(TURNS):
            is_warm = context.statistics().activations >= WARM
            with travelling() as trip:
                await (context.get_messages_for_request() if message is None else context.add_message(message))
            activated = message is None and context.last_view is not None and context.last_view.activation is not None
            if is_warm and message is not None:
                adds.append(trip)
            elif is_warm and activated:
                activations.append(trip)
            elif is_warm and added == 2:
                views.append(trip)
            added = 0 if message is None else added + 1
            await context.wait_idle()
            await asyncio.sleep(0)  # a view wakes the worker in the next turn of the event loop
    shown = table("Median (largest)", "way", "#times", "#files", "#changes of file", "#calls", wide="way")
    ways = {"add_message": adds, "view that adds two messages": views, "view with an activation": activations}
    for way, taken in ways.items():
        figures = ([len(one.files) for one in taken], [one.changes for one in taken])
        typical = [f"{median_high(of):,} ({max(of):,})" for of in figures]
        shown.add_row(way, f"{len(taken):,}", *typical, f"{median_high(trip.calls for trip in taken):,}")
    return shown


def main() -> None:
    """Count and show."""
    console, package, tests = Console(), sources("summarizing_context"), sources("tests")
    console.print(rooms(package))
    console.print(", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in costs(package).items()))
    public = lines(filter(uses_public_names_alone, tests.values()))
    console.print(f"{public / lines(tests.values()):.0%} of the lines of tests use public names alone")
    console.print(asyncio.run(travel()))


if __name__ == "__main__":
    main()
