"""The output of all commands: results for people or as JSON, tables, progress, errors, exit statuses."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, TextIO, TypeVar

import typer
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from summarizing_context import errors, evaluation
from summarizing_context.messages.text import inert
from summarizing_context.settings import shown_store
from summarizing_context.stores.private_files import write_private

PROGRAM = "summarizing-context"
T = TypeVar("T")


class Status(IntEnum):
    """Exit statuses of the command line."""

    OK = 0
    LAW_BROKEN = 1
    BAD_INPUT = 2
    REFUSED = 3
    ENVIRONMENT = 4  # the store, the disk, a missing key
    INTERRUPTED = 130


class InputError(errors.SummarizingContextError, ValueError):
    """An argument of the command line is wrong."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command: `document` is for `--json`, `shown` for people, `remarks` follow on standard error."""

    document: object
    shown: Iterable[RenderableType]
    status: int = Status.OK
    remarks: Sequence[str] = ()

    def deliver(self, json_path: str | None) -> int:
        """Write the document where that is asked for, print the rest unless the JSON goes to standard output."""
        write_json(self.document, json_path, indent=2)
        if json_path != "-":
            console = screen()
            for one in self.shown:
                console.print(one, soft_wrap=True if isinstance(one, str | Text) else None)
        for remark in self.remarks:
            tell(remark)
        return self.status


def write_json(document: object, path: str | None, *, indent: int | None = None, output: TextIO | None = None) -> None:
    """Write a document to a file that is named, or for `-` to the `output`, else the standard one."""
    if path is not None:
        text = json.dumps(document, indent=indent) + "\n"
        print(text, end="", flush=True, file=output) if path == "-" else write_private(Path(path), text)


class _InertConsole(Console):
    """A console that shows names and texts from anywhere and obeys nothing in them: no markup, no escape."""

    def on_broken_pipe(self) -> None:  # its reader has seen enough; the exit status stays that of the command
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=inert(segment.text))


def screen(*, stderr: bool = False) -> Console:
    """Return the console for results; `stderr` is the one for progress and errors."""
    console = _InertConsole(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.soft_wrap = True  # only tables have a width there: a message stays on its line, whatever paths it names
        console.width = console.width if "COLUMNS" in os.environ else 120
    return console


def tell(text: RenderableType) -> None:
    """Print a remark or a warning, apart from the results."""
    screen(stderr=True).print(text, soft_wrap=True)


_TOLD = 30.0  # seconds after which what is written to a file gets another line
_OUTER: ContextVar[Callable[..., None] | None] = ContextVar("outer", default=None)  # the update of the bar around


@contextmanager
def progress(name: str, total: int | None, announced: str = "", times: int = 0) -> Iterator[Callable[..., None]]:
    """Yield `update(text="", steps=1, total=None)`, which moves a bar on a terminal; elsewhere print what is
    `announced`, and every half minute how far it is. A total begins another stage. Where none is known, or it was too
    low, no remaining time is shown. Logs that are played so many `times` move the bar with each message. Within another
    bar only the texts are shown."""
    from rich import progress as bars

    console = screen(stderr=True)
    if announced and not console.is_terminal:
        tell(announced)
    if (outer := _OUTER.get()) is not None:
        yield lambda text="", steps=1, total=None: outer(text, 0)
        return
    clocks = (bars.TimeElapsedColumn(),) if total is None else (bars.MofNCompleteColumn(), bars.TimeRemainingColumn())
    shown = bars.TextColumn("{task.fields[text]}", markup=False)
    columns = (bars.TextColumn(name), bars.BarColumn(bar_width=24), *clocks, shown)
    with bars.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        bar.add_task(name, total=total, text="")
        (task,), said = bar.tasks, time.monotonic()

        def move(steps: float) -> None:
            nonlocal said
            if task.total is not None and task.completed + steps > task.total + 0.01:
                task.total = None
            bar.update(task.id, completed=task.completed + steps)
            if not console.is_terminal and time.monotonic() - said >= _TOLD:
                said = time.monotonic()
                far = " of ".join(f"{one or 0:,.1f}".removesuffix(".0") for one in (task.completed, task.total))
                tell(f"{far} {name}" if task.total else task.fields["text"] or name)

        def update(text: str = "", steps: int = 1, total: int | None = None) -> None:
            task.fields["text"] = plain(text, 60) if text else task.fields["text"]
            if total is not None:
                bar.reset(task.id, total=total)
            move(0 if times else steps)

        played = evaluation.replay.PLAYED
        before = played.set(lambda share: move(share / times) if times else None), _OUTER.set(update)
        try:
            yield update
        finally:
            played.reset(before[0])
            _OUTER.reset(before[1])


def confirm(question: str, yes: bool, done: str) -> None:
    """Ask, unless `yes` answers already. Raise `InputError` where the answer is no; `done` is what then was not."""
    if yes:
        return
    try:
        agreed = typer.confirm(plain(question), err=True)
    except typer.Abort as error:
        tell("")
        raise InputError(f"nothing was {done}: there was no answer; give --yes to do it without asking") from error
    if not sys.stdin.isatty():  # where the answer would have ended the line
        tell("")
    if not agreed:
        raise InputError(f"nothing was {done}")


def explain_failure(error: BaseException) -> int:
    """Say on standard error what went wrong, each problem of a file of settings on a line; return the exit status."""
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError) or type(error).__name__ == "NoArgsIsHelpError":  # help is printed already
        return Status.OK
    problems = ["; ".join((str(error) or type(error).__name__, *getattr(error, "__notes__", ())))]
    status = Status.ENVIRONMENT
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        problems, status = [f"stopped; {str(error) or 'nothing that was stored is lost'}"], Status.INTERRUPTED
    elif hasattr(error, "format_message"):  # of typer
        said = error.format_message().rstrip(".").replace(": Value error, ", ": ")
        problems, status = [f"{said}; see --help"], Status.BAD_INPUT
    elif isinstance(error, OSError) and error.filename is not None:
        problems = [f"{error.filename}: {error.strerror or type(error).__name__}; check the path and its rights"]
    elif isinstance(error, errors.BudgetError):
        status = Status.REFUSED
    elif isinstance(error, errors.SettingsError):
        problems, status = list(error.problems), Status.BAD_INPUT
    elif not isinstance(error, errors.SummarizingContextError | OSError):
        problems = [f"unexpected {type(error).__name__}: {error}; this is a fault of the program, please report it"]
    elif isinstance(error, ValueError | LookupError | errors.PromptError | errors.UndoError):
        is_called = isinstance(error.__cause__, errors.SummarizerError)  # a model, that did not answer
        is_well = is_called or isinstance(error, errors.CassetteLimitError)
        status = status if is_well else Status.BAD_INPUT  # wrong, or not there
    for problem in problems:
        tell(Text.assemble(("error: ", "bold red"), plain(problem)))
    return status


# Tables, figures and texts as people read them


def table(title: str, columns: Iterable[str], rows: Iterable[Any] = (), *, wide: str = "", fold: bool = False) -> Table:
    """Return a table. Columns that begin with `#` hold figures; the `wide` one takes what room the others leave. A row
    has a cell for each column, or is a JSON object whose figures `columns` name by heading. Long cells are cut; `fold`
    breaks those of the wide column, or of all if none is wide."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="dim", caption_justify="left")
    made.box, made.pad_edge, made.padding, made.expand = box.SIMPLE_HEAD, False, (0, 1, 0, 0), bool(wide)
    for name in columns:
        shape: Any = {"justify": "right" if name.startswith("#") else "left", "ratio": 1 if name == wide else None}
        folds = fold and wide in ("", name)
        made.add_column(name.removeprefix("#"), no_wrap=not folds, overflow="fold" if folds else "ellipsis", **shape)
    for row in rows:
        values = [row[figure] for figure in columns.values()] if isinstance(columns, Mapping) else row
        cells = (number(one) if one is None or isinstance(one, int | float) else one for one in values)
        made.add_row(*(one if isinstance(one, Text) else plain(one) for one in cells))
    return made


def facts(title: str, rows: Iterable[tuple[str, object, str]]) -> Table:
    """Return a table of single figures: name, value, remark."""
    made = table(title, ("", "#", " "), ((name, value, dim(remark)) for name, value, remark in rows))
    made.show_header = False
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"
    return made


def plain(text: object, width: int = 0) -> str:
    """Return a text on one line, inert, cut to `width` characters if given."""
    line = inert(" ".join(str(text).split()))
    return line if not width or len(line) <= width else line[: width - 1] + "…"


def dim(text: object) -> Text:
    return Text(plain(text), style="dim")


def mark(is_good: bool, good: str, bad: str) -> Text:
    return Text(good, "green") if is_good else Text(bad, "bold red")


def number(value: float | None) -> str:
    """Return a figure as people read it."""
    return "–" if value is None else f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def counted(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def shell_line(command: str, *arguments: object, store: str | Path) -> str:
    """Return one of our commands as it is typed into a shell."""
    return shlex.join((PROGRAM, command, *map(str, arguments), "--store", shown_store(store)))


def told_lines(skipped: Sequence[str], unreadable: Iterable[object] = (), notes: Sequence[str] = ()) -> list[str]:
    """Return remarks on lines that were skipped, the first of many, files that could not be read, and what is noted."""
    told = [*map(plain, skipped[:5]), *([f"{len(skipped) - 5} more"] if len(skipped) > 5 else [])]
    others = [f"not read: {plain(error)}" for error in unreadable] + [f"note: {plain(one)}" for one in notes]
    return [f"skipped: {one}" for one in told] + others
