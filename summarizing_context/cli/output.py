"""The output of all commands: tables, JSON, progress, errors on one line, exit statuses.

Messages may hold control characters. The console makes them inert.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from summarizing_context.errors import (
    BudgetError,
    CassetteLimitError,
    PromptError,
    SummarizingContextError,
    TranscriptError,
    UndoError,
)
from summarizing_context.messages.text import inert
from summarizing_context.settings.addresses import shown_store

if TYPE_CHECKING:
    from rich.progress import Progress

PROGRAM = "summarizing-context"
_MOST_LINES = 5  # of transcripts, that are named as skipped
_PIPE_WIDTH = 120  # columns where there is no terminal to ask


class Status(IntEnum):
    """Exit statuses of the command line."""

    OK = 0
    LAW_BROKEN = 1
    BAD_INPUT = 2
    REFUSED = 3
    ENVIRONMENT = 4  # the store, the disk, a missing key
    INTERRUPTED = 130


class InputError(SummarizingContextError, ValueError):
    """An argument of the command line is wrong."""


def screen() -> Console:
    """Where results go."""
    return _console(stderr=False)


def notices() -> Console:
    """Where progress and errors go, apart from the results."""
    return _console(stderr=True)


def progress_bar(name: str, *, remaining: bool = False, markup: bool = False) -> Progress:
    """A bar with a name, a count and the field `words`. It is shown on a terminal only and leaves no trace.

    Args:
        name: What is counted.
        remaining: Also estimate the remaining time.
        markup: Interpret the markup in `words`.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn(name), BarColumn(bar_width=24), MofNCompleteColumn()]
    columns += [TimeRemainingColumn()] if remaining else []
    columns.append(TextColumn("{task.fields[words]}", markup=markup))
    console = notices()
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def show_result(json_path: str | None, document: Any, *shown: RenderableType) -> None:
    """Write the document as JSON where that is asked for. Print the rest, unless the JSON goes to standard output."""
    if json_path is not None:
        write_json(json_path, document)
    if json_path != "-":
        console = screen()
        for one in shown:
            console.print(one, soft_wrap=isinstance(one, str))


def write_json(path: str, document: Any) -> None:
    """Write a result as JSON; `-` is standard output."""
    from summarizing_context.stores.private_files import write_private

    text = json.dumps(document, indent=2) + "\n"
    if path == "-":
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            _close_stdout()
    else:
        write_private(Path(path), text)


def harmless_json(value: object) -> str:
    """`value` as JSON for a terminal: what could drive one is written as escapes."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if inert(text) == text else "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    return char if inert(char) == char else json.dumps(char)[1:-1]


def plain(text: str, width: int = 0) -> str:
    """`text` on one line, inert, cut to `width` characters if given."""
    line = inert(" ".join(text.split() if not width else text[: width * 4 + 200].split()))
    return line if not width or len(line) <= width else line[: width - 1] + "…"


def table(title: str, *columns: str, wide: str = "") -> Table:
    """An empty table. Columns whose name begins with `#` hold figures; `wide` takes what room the others leave."""
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        expand=bool(wide),
    )
    for name in columns:
        figures = name.startswith("#")
        made.add_column(
            name.removeprefix("#"),
            justify="right" if figures else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if name == wide else None,
        )
    return made


def facts(title: str, rows: Sequence[tuple[str, str | Text, str]]) -> Table:
    """A table of single figures: name, value, remark."""
    made = table(title, "", "#", " ")
    made.show_header = False
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"
    for name, value, remark in rows:
        made.add_row(name, value, Text(remark, style="dim"))
    return made


def shell_line(command: str, *arguments: object, store: str | Path) -> str:
    """One of our commands as it is typed into a shell."""
    return shlex.join((PROGRAM, command, *map(str, arguments), "--store", shown_store(store)))


def help_text(command: Callable[..., object]) -> str:
    """A command's docstring with each paragraph on one line, as typer wraps it."""
    return "\n\n".join(" ".join(part.split()) for part in (command.__doc__ or "").split("\n\n"))


def examples(*lines: str, heading: str = "Examples", more: Mapping[str, str] | None = None) -> str:
    """What a command's help shows at its end: how it is called, and `more` by headings of their own.

    A remark, four spaces and `#` behind a line, is set above it, where nothing wraps.
    """
    told = [f"[bold]{heading}[/bold]"]
    for line in lines:
        command, _, remark = line.partition("    # ")
        command = command if f"{PROGRAM} " in command else f"{PROGRAM} {command}"
        told.append(f"[dim]# {remark}[/dim]\n{command}" if remark else command)
    for title, text in (more or {}).items():
        told += [f"[bold]{title}[/bold]", text]
    return "\n\n".join(told)


def number(value: float | None) -> str:
    """A figure as people read it."""
    if value is None:
        return "–"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def counted(count: int, name: str) -> str:
    """A number of things that have this name."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def dollars(value: float | None) -> str:
    """US dollars; small sums keep the places that tell something."""
    if value is None:
        return "–"
    return f"${value:,.2f}" if value >= 100 or value == 0 else f"${value:,.4f}"


def verdict(value: int) -> Text:
    """A figure that should be 0."""
    return Text(f"{value:,}", style="green" if value == 0 else "bold red")


def tell_unreadable(unreadable: Sequence[TranscriptError]) -> Status:
    """Name the files that could not be read. The status says whether there were any."""
    for error in unreadable:
        notices().print(plain(f"not read: {error}"))
    return Status.BAD_INPUT if unreadable else Status.OK


def tell_skipped_lines(lines: Sequence[str]) -> None:
    """Name the lines of files that were skipped because they could not be read; the first ones of many."""
    for line in lines[:_MOST_LINES]:
        notices().print(plain(f"skipped: {line}"))
    if len(lines) > _MOST_LINES:
        notices().print(f"skipped: {len(lines) - _MOST_LINES} more lines that cannot be read")


def explain_failure(error: BaseException) -> int:
    """Say on one line of standard error what went wrong; the exit status for it."""
    if isinstance(error, BrokenPipeError):
        _close_stdout()
        return Status.OK
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        _complain("stopped; nothing that was stored is lost")
        return Status.INTERRUPTED
    usage = getattr(error, "format_message", None)
    if usage is not None:
        if type(error).__name__ == "NoArgsIsHelpError":  # its help is printed already
            return Status.BAD_INPUT
        _complain(f"{usage().rstrip('.')}; see --help")
        return Status.BAD_INPUT
    if isinstance(error, (SummarizingContextError, OSError)):
        _complain(_words_of(error))
        return _status_of(error)
    _complain(f"unexpected {type(error).__name__}: {error}; this is a fault of the program, please report it")
    return Status.ENVIRONMENT


def _close_stdout() -> None:
    """The reader of a pipe has seen enough: write no more to it. The exit status stays that of the command."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _status_of(error: Exception) -> Status:
    if isinstance(error, BudgetError):
        return Status.REFUSED
    if isinstance(error, CassetteLimitError):
        return Status.ENVIRONMENT
    if isinstance(error, (ValueError, LookupError, PromptError, UndoError)):  # what was given is wrong, or not there
        return Status.BAD_INPUT
    return Status.ENVIRONMENT


def _words_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror or type(error).__name__}; check the path and its rights"
    return "; ".join((str(error) or type(error).__name__, *getattr(error, "__notes__", ())))


def _complain(words: str) -> None:
    notices().print(Text.assemble(("error: ", "bold red"), plain(words)), soft_wrap=True)


class _InertConsole(Console):
    """A console that shows names and texts from anywhere and obeys nothing in them: no markup, no escape."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _close_stdout()

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=inert(segment.text))


def _console(*, stderr: bool) -> Console:
    console = _InertConsole(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.soft_wrap = True  # only tables have a width there: a message stays on its line, whatever paths it names
        console.width = console.width if "COLUMNS" in os.environ else _PIPE_WIDTH
    return console
