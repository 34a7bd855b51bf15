"""Tables as plain text, for hosts that show what a command says.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

_WIDEST = 60  # characters of a cell


def text_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows under their columns; figures stand to the right, all else to the left. The last column is not cut."""
    cells = [list(columns), *([_cell(value, at < len(columns) - 1) for at, value in enumerate(row)] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(columns))]
    right = [bool(rows) and all(isinstance(row[at], int | float) for row in rows) for at in range(len(columns))]
    lines = []
    for line in cells:
        placed = zip(line, widths, right, strict=True)
        lines.append("  ".join(cell.rjust(wide) if figures else cell.ljust(wide) for cell, wide, figures in placed))
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def text_facts(rows: Sequence[tuple[str, object]]) -> str:
    """Names and values, one a line."""
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name.ljust(width)}  {_cell(value, False)}" for name, value in rows)


def _cell(value: object, cut: bool) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = " ".join(str("–" if value is None else value).split())
    return text if len(text) <= _WIDEST or not cut else text[: _WIDEST - 1] + "…"
