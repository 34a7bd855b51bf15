"""The HTML of reports: one page without script, made of headings, cards, tables and parts that fold up.

Pure. A text is escaped unless it is `Html`, which only this module and its callers' own markup make.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from summarizing_context.messages.text import inert


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


class Cell(NamedTuple):
    """One cell of a table: its text, smaller lines below it, and its look."""

    text: str
    small: Sequence[str] = ()
    look: str = ""  # classes of the style
    style: str = ""
    about: str = ""  # shown where the pointer rests


class Row(NamedTuple):
    """One row of a table."""

    cells: Sequence[str | Cell]
    look: str = ""


def joined(*parts: str) -> Html:
    """Parts one after the other, texts escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def tag(name: str, *inner: str, look: str = "", style: str = "", about: str = "") -> Html:
    """One element."""
    given = (("class", look), ("style", style), ("title", about))
    attributes = "".join(f' {attribute}="{escape(value)}"' for attribute, value in given if value)
    return Html(f"<{name}{attributes}>{joined(*inner)}</{name}>")


def page(title: str, parts: Sequence[str]) -> str:
    """A page of parts in the style of the reports. Control characters become dots, as on a terminal."""
    style = (files("summarizing_context.evaluation") / "report.css").read_text(encoding="utf8")
    return inert(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        + "\n".join(joined(part) for part in parts if part)
        + "</main></body></html>\n"
    )


def section(title: str, words: str, *body: str) -> Html:
    """A heading, what it is about, and a card."""
    return joined(tag("h2", title), soft(words, "p"), card(*body))


def card(*body: str) -> Html:
    return tag("div", *body, look="card")


def soft(words: str, name: str = "span") -> Html:
    """Words in the colour of remarks."""
    return tag(name, words, look="soft")


def badge(words: str, tone: str) -> Html:
    """A word on a coloured ground: good, bad, warn or plain."""
    return tag("span", words, look=f"badge {tone}")


def gates_badge(failed: int, gates: int) -> Html:
    """How the gates of a run ended."""
    if failed:
        return badge(f"{failed} {'gate' if failed == 1 else 'gates'} failed", "bad")
    return badge("all gates passed", "good") if gates else badge("no gates", "plain")


def bullets(items: Iterable[str]) -> Html:
    return tag("ul", *(tag("li", item) for item in items))


def table(head: Sequence[str | Cell], rows: Iterable[Row]) -> Html:
    """A table that scrolls by itself where the page is narrow."""
    titles = tag("tr", *(_cell("th", cell) for cell in head))
    lines = (tag("tr", *(_cell("td", cell) for cell in row.cells), look=row.look) for row in rows)
    return tag("div", tag("table", tag("thead", titles), tag("tbody", *lines)), look="scroll")


def _cell(name: str, cell: str | Cell) -> Html:
    told = cell if isinstance(cell, Cell) else Cell(cell)
    small = (tag("small", words) for words in told.small if words)
    return tag(name, told.text, *small, look=told.look, style=told.style, about=told.about)


def fold(summary: str, *body: str, look: str = "") -> Html:
    """A part that opens where its summary is touched."""
    return tag("details", tag("summary", summary), *body, look=look)


def facts(rows: Iterable[tuple[str, str]], style: str = "") -> Html:
    """Names with what is said of each."""
    listed = (part for name, words in rows for part in (tag("dt", name), tag("dd", words)))
    return tag("div", tag("dl", *listed, style=style), look="probe")


def quote(*words: str) -> Html:
    return tag("div", *words, look="quote")
