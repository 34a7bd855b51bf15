"""The HTML page of a run: tables, gates, and single probes. One file without script.

Pure. All text from a transcript is escaped here. The number of probes is limited: lost ones come first, the kinds in
turn. `summary` computes the figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from summarizing_context.evaluation.arms import REFERENCE
from summarizing_context.evaluation.cases.model import KINDS
from summarizing_context.evaluation.gates import BASELINE
from summarizing_context.evaluation.intervals import DRAWS, Interval
from summarizing_context.evaluation.outcomes import (
    GateOutcome,
    ProbeOutcome,
    RunOutcome,
    SessionOutcome,
)
from summarizing_context.evaluation.report.summary import (
    Row,
    by_kind,
    columns_of,
    headline,
    table_of,
    unequal_views,
)
from summarizing_context.evaluation.scoring.figures import FIGURES
from summarizing_context.messages.text import inert

MOST_BYTES = 1_250_000  # of all probes together

_MARKED = ("lost", "kept", "stale")


def probes_html(run: RunOutcome) -> str:
    """The sessions with their probes, folded up."""
    shown, left = _chosen(run)
    parts = [_session_html(session, shown[session.id]) for session in run.sessions if shown[session.id]]
    if left:
        parts.append(f'<p class="soft">{left:,} more probes are in report.json; here only so many are shown.</p>')
    return "\n".join(parts)


def _chosen(run: RunOutcome) -> tuple[dict[str, list[str]], int]:
    """The rows of each session, and how many probes were left out."""
    shown: dict[str, list[str]] = {session.id: [] for session in run.sessions}
    queues = [(session, list(_in_turn(session.probes))) for session in run.sessions]
    total = sum(len(queue) for _, queue in queues)
    size = count = 0
    while queues:
        for session, queue in list(queues):
            if not queue:
                queues.remove((session, queue))
                continue
            row = _probe_html(queue.pop(0))
            if size + (more := len(row.encode(errors="replace"))) > MOST_BYTES:
                return shown, total - count
            size, count = size + more, count + 1
            shown[session.id].append(row)
    return shown, 0


def _in_turn(probes: Sequence[ProbeOutcome]) -> Iterator[ProbeOutcome]:
    """Lost ones before kept ones, the kinds in turn."""
    for wanted in (False, True):
        by_kind: dict[str, list[ProbeOutcome]] = {}
        for probe in probes:
            if (probe.kept.get(REFERENCE) == 1) == wanted:
                by_kind.setdefault(probe.kind, []).append(probe)
        while any(by_kind.values()):
            for kind in by_kind:
                if by_kind[kind]:
                    yield by_kind[kind].pop(0)


def _session_html(session: SessionOutcome, rows: Sequence[str]) -> str:
    kept = sum(probe.kept.get(REFERENCE) == 1 for probe in session.probes)
    about = f"{session.messages:,} messages, {session.tokens:,} tokens, {kept} of {len(session.probes)} probes kept"
    return (
        f'<details class="session"><summary>{escape(session.title)} '
        f'<span class="soft">– {escape(about)}</span></summary>{"".join(rows)}</details>'
    )


def _probe_html(probe: ProbeOutcome) -> str:
    mark = probe.kept.get(REFERENCE, 0)
    tone = "good" if mark == 1 else "bad"
    evidence = "".join(
        f'<div class="quote"><span class="soft">message {at}</span> {highlighted(words, probe.literals)}</div>'
        for at, words in probe.evidence
    )
    expected = ", ".join(f"<code>{escape(literal)}</code>" for literal in probe.literals) or "nothing"
    forbidden = ", ".join(f"<code>{escape(literal)}</code>" for literal in probe.forbid)
    found = f'<div class="quote">{highlighted(probe.words, probe.literals)}</div>' if probe.words else "nothing of it"
    used = f", used in message {probe.used_at}" if probe.used_at is not None else ""
    others = " ".join(
        f'<span class="badge {"good" if kept == 1 else "plain"}">{escape(arm)}: {_MARKED[kept]}</span>'
        for arm, kept in probe.kept.items()
        if arm != REFERENCE
    )
    rows = [
        ("expected", expected + (f' <span class="soft">and not</span> {forbidden}' if forbidden else "")),
        ("evidence", evidence or "none, it was never said"),
        ("the view", found),
        (
            "verdict",
            f"{escape(probe.why)} <span class='soft'>({probe.age:,} tokens before message {probe.cut}{used})</span>",
        ),
        ("other arms", others),
    ]
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{words}</dd>" for name, words in rows)
    return (
        f'<details><summary><span class="badge {tone}">{_MARKED[mark]}</span> '
        f'<span class="soft">{escape(probe.kind)}</span> {escape(probe.question)}</summary>'
        f'<div class="probe"><dl>{listed}</dl></div></details>'
    )


def highlighted(words: str, literals: Sequence[str]) -> str:
    """The words, escaped, with the literals marked."""
    wanted = sorted({literal for literal in literals if literal.strip()}, key=len, reverse=True)
    if not wanted:
        return escape(words)
    pattern = re.compile("|".join(r"\s+".join(map(re.escape, literal.split())) for literal in wanted), re.IGNORECASE)
    parts, at = [], 0
    for found in pattern.finditer(words):
        parts += [escape(words[at : found.start()]), f"<mark>{escape(found[0])}</mark>"]
        at = found.end()
    return "".join([*parts, escape(words[at:])])


_BADGES = {"passed": "good", "failed": "bad", "vacuous": "warn", "nothing to look at": "bad"}


def html_page(title: str, parts: Sequence[str]) -> str:
    """A page of parts in the style of the reports. Control characters become dots, as on a terminal."""
    style = (files("summarizing_context.evaluation.report") / "style.css").read_text(encoding="utf8")
    return inert(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        + "\n".join(part for part in parts if part)
        + "</main></body></html>\n"
    )


def page(run: RunOutcome) -> str:
    """The whole page of a run of evals."""
    rows = table_of(run)
    parts = [
        _top(run),
        section("Strategies and baselines", _table(rows), _TABLE_WORDS),
        section("Retention by kind of question", _kinds(run, rows), "Shares of the probes of each kind that are kept."),
        gates_section(run.gates),
        _unsupported(run),
        section("Probes", probes_html(run), "Open a session and a question to see why it was kept or lost."),
        _bottom(run),
    ]
    return html_page(f"Summary evals: {run.suite}", parts)


_TABLE_WORDS = (
    "Means over sessions with 95 % intervals (bootstrap over sessions). All arms but the references, in grey, were "
    "given the same number of tokens at each cut. The best of each column is bold."
)


def _top(run: RunOutcome) -> str:
    failed = sum(gate.failed for gate in run.gates)
    passed = ("good", "all gates passed") if run.gates else ("plain", "no gates")
    tone, verdict = ("bad", f"{failed} failed") if failed else passed
    cuts = sum(len(session.views.get(REFERENCE, ())) for session in run.sessions)
    numbers = [
        (f"{len({session.group for session in run.sessions}):,}", "sessions"),
        (f"{len({session.budget for session in run.sessions}):,}", "budgets"),
        (f"{cuts:,}", "cuts"),
        (f"{sum(len(session.probes) for session in run.sessions):,}", "probes"),
        (f"{sum(session.tokens for session in run.sessions):,}", "tokens of history"),
        (f"{len(run.arms)}", "arms"),
    ]
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in headline(run))
    tiles = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in numbers)
    return (
        f'<h1>Summary evals: {escape(run.suite)} <span class="badge {tone}">{verdict}</span></h1>'
        f'<p class="soft">{escape(run.claim)}</p>'
        f'<div class="numbers">{tiles}</div>'
        f'<div class="card"><h3>What it says</h3><ul>{sentences}</ul></div>'
    )


def gates_section(gates: Sequence[GateOutcome]) -> str:
    """What became of the gates; figures that are as accepted are folded up."""
    if not gates:
        return ""
    accepted = [gate for gate in gates if gate.name.startswith(BASELINE)]
    own = [gate for gate in gates if gate not in accepted or gate.failed]
    body = _gates_table(own) if own else ""
    if accepted:
        worse = sum(gate.failed for gate in accepted)
        title = f"{len(accepted)} figures against the accepted scores, {worse} worse"
        body += f"<details><summary>{title}</summary>{_gates_table(accepted)}</details>"
    return section("Gates", body, "A gate that every arm passes is vacuous: it tells nothing.")


def _gates_table(gates: Sequence[GateOutcome]) -> str:
    rows = [
        f'<tr><td class="words">{escape(gate.name)}</td><td><span class="badge {_BADGES[gate.result]}">{gate.result}'
        f'</span></td><td class="words">{escape(gate.words)}</td></tr>'
        for gate in gates
    ]
    return wide_table('<tr><th class="words">gate</th><th></th><th class="words">figures</th></tr>', rows)


def _table(rows: Sequence[Row]) -> str:
    columns = columns_of(rows)
    best = {figure: _best(rows, figure) for figure in columns}
    head = "".join(
        f'<th title="{escape(FIGURES[figure].about)}">{escape(FIGURES[figure].title)}{_arrow(figure)}</th>'
        for figure in columns
    )
    body = []
    for row in rows:
        tone = "ours" if row.arm == REFERENCE else "reference" if row.role == "reference" else ""
        cells = "".join(_cell(row, figure, best[figure]) for figure in columns)
        body.append(f'<tr class="{tone}"><td title="{escape(row.about)}"><b>{escape(row.arm)}</b></td>{cells}</tr>')
    legend = "".join(f"<li><b>{escape(row.arm)}</b>: {escape(row.about)}</li>" for row in rows)
    return (
        f"{wide_table(f'<tr><th>arm</th>{head}</tr>', body)}"
        f"<details><summary>What the arms are</summary><ul>{legend}</ul></details>"
        f"<details><summary>What the figures mean</summary><ul>{_figures(columns)}</ul></details>"
    )


def _figures(columns: Sequence[str]) -> str:
    return "".join(
        f"<li><b>{escape(FIGURES[figure].title)}</b>: {escape(FIGURES[figure].about)}</li>" for figure in columns
    )


def _cell(row: Row, figure: str, best: float | None) -> str:
    cell = row.cells.get(figure)
    if cell is None:
        return '<td class="soft">–</td>'
    shown = written(cell.mean, figure)
    bold = ' class="best"' if row.role != "reference" and best is not None and abs(cell.mean - best) < 5e-4 else ""
    interval = (
        f"<small>{written(cell.low, figure)} – {written(cell.high, figure)}</small>" if cell.high > cell.low else ""
    )
    return f"<td><span{bold}>{shown}</span>{interval}</td>"


def _best(rows: Sequence[Row], figure: str) -> float | None:
    better = FIGURES[figure].better
    means = [row.cells[figure].mean for row in rows if row.role != "reference" and figure in row.cells]
    return (max if better > 0 else min)(means) if means and better else None


def _arrow(figure: str) -> str:
    return {1: " ↑", -1: " ↓", 0: ""}[FIGURES[figure].better]


def written(value: float, figure: str) -> str:
    """A figure as people read it."""
    if FIGURES[figure].share:
        return f"{value:.1%}"
    return f"{value:,.0f}" if figure == "tokens" else f"{value:.2f}"


def _kinds(run: RunOutcome, rows: Sequence[Row]) -> str:
    kinds = [kind for kind in KINDS if any(kind in row.cells for row in rows)]
    head = "".join(f"<th>{escape(kind)}</th>" for kind in kinds)
    body = []
    for row in rows:
        tone = "ours" if row.arm == REFERENCE else "reference" if row.role == "reference" else ""
        cells = "".join(_share_cell(by_kind(run, kind, row.arm)) for kind in kinds)
        body.append(f'<tr class="{tone}"><td><b>{escape(row.arm)}</b></td>{cells}</tr>')
    return wide_table(f"<tr><th>arm</th>{head}</tr>", body)


def wide_table(head: str, rows: Sequence[str]) -> str:
    """A table that scrolls by itself where the page is narrow."""
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _share_cell(found: Interval | None) -> str:
    if found is None:
        return '<td class="soft">–</td>'
    return f'<td style="background: rgba(var(--heat), {0.45 * found.mean:.3f})">{found.mean:.0%}</td>'


def _unsupported(run: RunOutcome) -> str:
    rows = []
    for name in ("unsupported", "drifted"):
        found = [
            (session.id, view.cut, value)
            for session in run.sessions
            for view in session.views.get(REFERENCE, ())
            for value in getattr(view, name)
        ]
        items = "".join(
            f"<li><code>{escape(value)}</code> <span class='soft'>{escape(id)} at {cut}</span></li>"
            for id, cut, value in found[:40]
        )
        if items:
            rows.append(
                f"<details><summary>{name}: {len(found):,} in views of {REFERENCE}</summary><ul>{items}</ul></details>"
            )
    words = "Values in summaries that their source does not hold, and numbers that stand where they never stood."
    return section("Unsupported values", "".join(rows), words) if rows else ""


def _bottom(run: RunOutcome) -> str:
    unequal, skipped = unequal_views(run), [(s.id, words) for s in run.sessions for words in s.skipped]
    parts = [f"<p>Intervals: {DRAWS:,} draws of sessions, seeded. Tokens by the built-in estimate.</p>"]
    for title, lines in (
        ("views that could not be brought to equal tokens", unequal),
        ("cuts that were not scored", [f"{id}: {words}" for id, words in skipped]),
    ):
        if lines:
            items = "".join(f"<li>{escape(line)}</li>" for line in lines[:60])
            parts.append(f"<details><summary>{len(lines):,} {title}</summary><ul>{items}</ul></details>")
    return f"<footer>{''.join(parts)}</footer>"


def section(title: str, body: str, words: str) -> str:
    """A heading, what it is about, and a card."""
    return f'<h2>{escape(title)}</h2><p class="soft">{escape(words)}</p><div class="card">{body}</div>'
