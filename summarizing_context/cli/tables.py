"""Tables, figures and texts as people read them on one line."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from summarizing_context.errors import TranscriptError
from summarizing_context.messages.text import inert
from summarizing_context.settings.addresses import shown_store

PROGRAM = "summarizing-context"


def table(
    title: str, *columns: str, rows: Iterable[Iterable[object] | None] = (), wide: str = "", fold: bool = False
) -> Table:
    """Return a table. Columns that begin with `#` hold figures; the `wide` one takes what room the others leave.

    Long cells are cut; `fold` breaks those of the wide column, or of all if none is wide. A row of None draws a line.
    """
    made = Table(title=title, title_justify="left", title_style="bold", header_style="dim", caption_justify="left")
    made.box, made.pad_edge, made.padding, made.expand = box.SIMPLE_HEAD, False, (0, 1, 0, 0), bool(wide)
    for name in columns:
        folds = fold and wide in ("", name)
        made.add_column(
            name.removeprefix("#"),
            justify="right" if name.startswith("#") else "left",
            no_wrap=not folds,
            overflow="fold" if folds else "ellipsis",
            ratio=1 if name == wide else None,
        )
    for row in rows:
        if row is None:
            made.add_section()
        else:
            made.add_row(*map(cell, row))
    return made


def facts(title: str, rows: Iterable[tuple[str, object, str]]) -> Table:
    """Return a table of single figures: name, value, remark."""
    made = table(title, "", "#", " ", rows=((name, value, dim(remark)) for name, value, remark in rows))
    made.show_header = False
    made.columns[-1].no_wrap, made.columns[-1].overflow = False, "fold"
    return made


def cell(value: object) -> Text | str:
    """Return what a table shows for a value: figures grouped, text on one line."""
    if isinstance(value, Text):
        return value
    return number(value) if value is None or isinstance(value, int | float) else plain(value)


def plain(text: object, width: int = 0) -> str:
    """Return a text on one line, inert, cut to `width` characters if given."""
    line = inert(" ".join(str(text).split()))
    return line if not width or len(line) <= width else line[: width - 1] + "…"


def dim(text: object, width: int = 0) -> Text:
    """Return a remark, which stands back."""
    return Text(plain(text, width), style="dim")


def verdict(value: int) -> Text:
    """Return a figure that should be 0."""
    return Text(f"{value:,}", style="green" if value == 0 else "bold red")


def number(value: float | None) -> str:
    """Return a figure as people read it."""
    if value is None:
        return "–"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def dollars(value: float | None) -> str:
    """Return US dollars; small sums keep the places that tell something."""
    if value is None:
        return "–"
    return f"${value:,.2f}" if value >= 100 or value == 0 else f"${value:,.4f}"


def counted(count: int, name: str) -> str:
    """Return a number of things that have this name."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def shell_line(command: str, *arguments: object, store: str | Path) -> str:
    """Return one of our commands as it is typed into a shell."""
    return shlex.join((PROGRAM, command, *map(str, arguments), "--store", shown_store(store)))


def told_lines(skipped: Sequence[str], unreadable: Sequence[TranscriptError] = ()) -> list[str]:
    """Return remarks on lines that were skipped, the first ones of many, and on files that could not be read."""
    told = [f"skipped: {plain(line)}" for line in skipped[:5]]
    if len(skipped) > 5:
        told.append(f"skipped: {len(skipped) - 5} more lines that cannot be read")
    return told + [f"not read: {plain(error)}" for error in unreadable]
