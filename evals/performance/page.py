"""The page of the report: one file of HTML with its style and its charts inside, nothing loaded from elsewhere.

Its style is `page.css`. What is said and drawn comes from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from evals.performance.drawings import Figure
from evals.performance.tables import Table, on_page
from evals.performance.targets import Verdict

STYLE = Path(__file__).with_name("page.css")


def page(title: str, body: Iterable[str]) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE.read_text(encoding='utf-8')}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def heading(title: str, subtitle: str) -> str:
    return f'<h1>{escape(title)}</h1><p class="dim">{escape(subtitle)}</p>'


def chapter(title: str, text: str = "") -> str:
    return f"<h2>{escape(title)}</h2>" + (f"<p>{escape(text)}</p>" if text else "")


def drawn(figure: Figure) -> str:
    legend = "".join(f"<span>{_sign(kind)}{escape(text)}</span>" for kind, text in figure.legend)
    charts = "".join(f'<div class="{name}">{svg}</div>' for name, svg in figure.drawn.items())
    return (
        f"<figure><h3>{escape(figure.title)}</h3>"
        + (f'<div class="legend">{legend}</div>' if legend else "")
        + f"{charts}<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )


def shown(table: Table) -> str:
    note = f'<p class="dim">{escape(table.note)}</p>' if table.note else ""
    return f'<section class="card"><h3>{escape(table.title)}</h3>{note}{on_page(table)}</section>'


def judged(verdicts: Sequence[Verdict]) -> str:
    ends = {True: "<td class=met>met</td>", False: "<td class=missed>missed</td>", None: "<td>-</td>"}
    rows = "".join(
        f"<tr><td>{escape(verdict.what)}</td><td>{escape(verdict.wanted)}</td><td>{escape(verdict.ours)}</td>"
        f"<td class=dim>{escape(verdict.peer)}</td>{ends[verdict.met]}</tr>"
        for verdict in verdicts
    )
    head = "<tr><th>number</th><th>target</th><th>ours</th><th>lowest of the peers</th><th></th></tr>"
    return f'<section class="card"><div class="wide"><table class="targets">{head}{rows}</table></div></section>'


def listed(items: Iterable[str]) -> str:
    return f'<section class="card"><ul>{"".join(f"<li>{escape(item)}</li>" for item in items)}</ul></section>'


def facts(told: Mapping[str, str]) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td class=reason>{escape(text)}</td></tr>" for name, text in told.items()
    )
    return f'<section class="card"><div class="wide"><table>{rows}</table></div></section>'


def commands(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _sign(kind: str) -> str:
    shapes = {
        "dot": '<circle class="dot" cx="6" cy="6" r="5"/>',
        "ring": '<circle class="ring" cx="6" cy="6" r="4.5"/>',
        "most": '<line class="most" x1="6" x2="6" y1="0" y2="12"/>',
    }
    shape = shapes.get(kind, f'<rect class="{kind}" width="12" height="12" rx="2"/>')
    return f'<svg width="12" height="12" viewBox="0 0 12 12">{shape}</svg>'
