"""The HTML page of a run, with tables, gates and single probes, and the files of its reports.

The number of probes is limited: lost ones come first, the kinds in turn. Equal runs write equal bytes; timings have a
file of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.evaluation import html
from summarizing_context.evaluation.arms import REFERENCE
from summarizing_context.evaluation.cases.model import KINDS
from summarizing_context.evaluation.figures import FIGURES
from summarizing_context.evaluation.html import Cell, Html
from summarizing_context.evaluation.outcomes import (
    BASELINE,
    DRAWS,
    GateOutcome,
    ProbeOutcome,
    RunOutcome,
    SessionOutcome,
    indented,
)
from summarizing_context.evaluation.report import (
    HTML,
    JSON,
    MARKDOWN,
    TIMINGS,
    Row,
    by_kind,
    columns_of,
    headline,
    markdown,
    table_document,
    table_of,
    unequal_views,
    written,
)
from summarizing_context.stores.private_files import make_private_folder, write_private

MOST_BYTES = 1_250_000  # of all probes together
_MARKED = ("lost", "kept", "stale")
_BADGES = {"passed": "good", "failed": "bad", "vacuous": "warn", "nothing to look at": "bad"}
_NONE = Cell("–", look="soft")
_TABLE_WORDS = (
    "Means over sessions with 95 % intervals (bootstrap over sessions). All arms but the references, in grey, were "
    "given the same number of tokens at each cut. The best of each column is bold."
)


def page(run: RunOutcome) -> str:
    """The whole page of a run of evals."""
    rows = table_of(run)
    kinds = "Shares of the probes of each kind that are kept."
    probes = "Open a session and a question to see why it was kept or lost."
    parts = [
        *_top(run),
        html.section("Strategies and baselines", _TABLE_WORDS, *_table(rows)),
        html.section("Retention by kind of question", kinds, _kinds(run, rows)),
        gates_section(run.gates),
        _unsupported(run),
        html.section("Probes", probes, *_sessions(run)),
        _bottom(run),
    ]
    return html.page(f"Summary evals: {run.suite}", parts)


def _top(run: RunOutcome) -> Iterator[Html]:
    failed = sum(gate.failed for gate in run.gates)
    yield html.tag("h1", f"Summary evals: {run.suite} ", html.gates_badge(failed, len(run.gates)))
    yield html.soft(run.claim, "p")
    cuts = sum(len(session.views.get(REFERENCE, ())) for session in run.sessions)
    yield html.tiles(
        [
            (f"{len({session.group for session in run.sessions}):,}", "sessions"),
            (f"{len({session.budget for session in run.sessions}):,}", "budgets"),
            (f"{cuts:,}", "cuts"),
            (f"{sum(len(session.probes) for session in run.sessions):,}", "probes"),
            (f"{sum(session.tokens for session in run.sessions):,}", "tokens of history"),
            (f"{len(run.arms)}", "arms"),
        ]
    )
    yield html.card(html.tag("h3", "What it says"), html.bullets(headline(run)))


def gates_section(gates: Sequence[GateOutcome]) -> Html:
    """What became of the gates; figures that are as accepted are folded up."""
    if not gates:
        return Html()
    accepted = [gate for gate in gates if gate.name.startswith(BASELINE)]
    own = [gate for gate in gates if gate not in accepted or gate.failed]
    body = [_gates_table(own)] if own else []
    if accepted:
        worse = sum(gate.failed for gate in accepted)
        title = f"{len(accepted)} figures against the accepted scores, {worse} worse"
        body.append(html.fold(title, _gates_table(accepted)))
    return html.section("Gates", "A gate that every arm passes is vacuous: it tells nothing.", *body)


def _gates_table(gates: Sequence[GateOutcome]) -> Html:
    return html.table(
        [Cell("gate", look="words"), "", Cell("figures", look="words")],
        (
            html.Row(
                (
                    Cell(gate.name, look="words"),
                    html.badge(gate.result, _BADGES[gate.result]),
                    Cell(gate.words, look="words"),
                )
            )
            for gate in gates
        ),
    )


def _table(rows: Sequence[Row]) -> Iterator[Html]:
    columns = columns_of(rows)
    best = {figure: _best(rows, figure) for figure in columns}
    head = [Cell(FIGURES[figure].title + _arrow(figure), about=FIGURES[figure].about) for figure in columns]
    yield html.table(
        ["arm", *head],
        (html.Row((_name(row), *(_cell(row, figure, best[figure]) for figure in columns)), _look(row)) for row in rows),
    )
    arms = (html.joined(html.tag("b", row.arm), f": {row.about}") for row in rows)
    yield html.fold("What the arms are", html.bullets(arms))
    figures = (html.joined(html.tag("b", FIGURES[name].title), f": {FIGURES[name].about}") for name in columns)
    yield html.fold("What the figures mean", html.bullets(figures))


def _name(row: Row) -> Cell:
    return Cell(html.tag("b", row.arm), about=row.about)


def _look(row: Row) -> str:
    return "ours" if row.arm == REFERENCE else "reference" if row.role == "reference" else ""


def _cell(row: Row, figure: str, best: float | None) -> Cell:
    cell = row.cells.get(figure)
    if cell is None:
        return _NONE
    is_best = row.role != "reference" and best is not None and abs(cell.mean - best) < 5e-4
    mean = html.tag("span", written(cell.mean, figure), look="best" if is_best else "")
    ends = f"{written(cell.low, figure)} – {written(cell.high, figure)}" if cell.high > cell.low else ""
    return Cell(mean, (ends,))


def _best(rows: Sequence[Row], figure: str) -> float | None:
    better = FIGURES[figure].better
    means = [row.cells[figure].mean for row in rows if row.role != "reference" and figure in row.cells]
    return (max if better > 0 else min)(means) if means and better else None


def _arrow(figure: str) -> str:
    return {1: " ↑", -1: " ↓", 0: ""}[FIGURES[figure].better]


def _kinds(run: RunOutcome, rows: Sequence[Row]) -> Html:
    kinds = [kind for kind in KINDS if any(kind in row.cells for row in rows)]
    return html.table(
        ["arm", *kinds],
        (html.Row((_name(row), *(_share(run, kind, row.arm) for kind in kinds)), _look(row)) for row in rows),
    )


def _share(run: RunOutcome, kind: str, arm: str) -> Cell:
    found = by_kind(run, kind, arm)
    if found is None:
        return _NONE
    return Cell(f"{found.mean:.0%}", style=f"background: rgba(var(--heat), {0.45 * found.mean:.3f})")


def _unsupported(run: RunOutcome) -> Html:
    folds = []
    for name in ("unsupported", "drifted"):
        found = [
            html.joined(html.tag("code", value), " ", html.soft(f"{session.id} at {view.cut}"))
            for session in run.sessions
            for view in session.views.get(REFERENCE, ())
            for value in getattr(view, name)
        ]
        if found:
            folds.append(html.fold(f"{name}: {len(found):,} in views of {REFERENCE}", html.bullets(found[:40])))
    words = "Values in summaries that their source does not hold, and numbers that stand where they never stood."
    return html.section("Unsupported values", words, *folds) if folds else Html()


def _bottom(run: RunOutcome) -> Html:
    skipped = [f"{session.id}: {words}" for session in run.sessions for words in session.skipped]
    folds = [
        html.fold(f"{len(lines):,} {title}", html.bullets(lines[:60]))
        for title, lines in (
            ("views that could not be brought to equal tokens", unequal_views(run)),
            ("cuts that were not scored", skipped),
        )
        if lines
    ]
    words = f"Intervals: {DRAWS:,} draws of sessions, seeded. Tokens by the built-in estimate."
    return html.tag("footer", html.tag("p", words), *folds)


def _sessions(run: RunOutcome) -> Iterator[Html]:
    """The sessions with their probes, folded up."""
    shown, left = _chosen(run)
    for session in run.sessions:
        if rows := shown[session.id]:
            kept = sum(probe.kept.get(REFERENCE) == 1 for probe in session.probes)
            about = f"{session.messages:,} messages, {session.tokens:,} tokens"
            about = f"– {about}, {kept} of {len(session.probes)} probes kept"
            yield html.fold(html.joined(f"{session.title} ", html.soft(about)), *rows, look="session")
    if left:
        yield html.soft(f"{left:,} more probes are in report.json; here only so many are shown.", "p")


def _chosen(run: RunOutcome) -> tuple[dict[str, list[Html]], int]:
    """The rows of each session, and how many probes were left out."""
    shown: dict[str, list[Html]] = {session.id: [] for session in run.sessions}
    queues: list[tuple[SessionOutcome, list[ProbeOutcome]]] = [
        (session, list(_in_turn(session.probes))) for session in run.sessions
    ]
    total = sum(len(queue) for _, queue in queues)
    size = count = 0
    while queues:
        for session, queue in list(queues):
            if not queue:
                queues.remove((session, queue))
                continue
            row = _probe(queue.pop(0))
            if size + (more := len(row.encode(errors="replace"))) > MOST_BYTES:
                return shown, total - count
            size, count = size + more, count + 1
            shown[session.id].append(row)
    return shown, 0


def _in_turn(probes: Sequence[ProbeOutcome]) -> Iterator[ProbeOutcome]:
    """Lost ones before kept ones, the kinds in turn."""
    for wanted in (False, True):
        kinds: dict[str, list[ProbeOutcome]] = {}
        for probe in probes:
            if (probe.kept.get(REFERENCE) == 1) == wanted:
                kinds.setdefault(probe.kind, []).append(probe)
        while any(kinds.values()):
            for kind in kinds:
                if kinds[kind]:
                    yield kinds[kind].pop(0)


def _probe(probe: ProbeOutcome) -> Html:
    mark = probe.kept.get(REFERENCE, 0)
    evidence = [
        html.quote(html.soft(f"message {at}"), " ", highlighted(words, probe.literals)) for at, words in probe.evidence
    ]
    used = f", used in message {probe.used_at}" if probe.used_at is not None else ""
    when = html.soft(f"({probe.age:,} tokens before message {probe.cut}{used})")
    others = [
        html.joined(html.badge(f"{arm}: {_MARKED[kept]}", "good" if kept == 1 else "plain"), " ")
        for arm, kept in probe.kept.items()
        if arm != REFERENCE
    ]
    rows = [
        ("expected", _expected(probe)),
        ("evidence", html.joined(*evidence) if evidence else "none, it was never said"),
        ("the view", html.quote(highlighted(probe.words, probe.literals)) if probe.words else "nothing of it"),
        ("verdict", html.joined(f"{probe.why} ", when)),
        ("other arms", html.joined(*others)),
    ]
    badge = html.badge(_MARKED[mark], "good" if mark == 1 else "bad")
    return html.fold(html.joined(badge, " ", html.soft(probe.kind), f" {probe.question}"), html.facts(rows))


def _expected(probe: ProbeOutcome) -> str:
    literals = _codes(probe.literals) or "nothing"
    return html.joined(literals, " ", html.soft("and not"), " ", _codes(probe.forbid)) if probe.forbid else literals


def _codes(words: Sequence[str]) -> Html:
    return Html(", ".join(html.tag("code", word) for word in words))


def highlighted(words: str, literals: Sequence[str]) -> Html:
    """The words with the literals marked."""
    wanted = sorted({literal for literal in literals if literal.strip()}, key=len, reverse=True)
    if not wanted:
        return html.joined(words)
    pattern = re.compile("|".join(r"\s+".join(map(re.escape, literal.split())) for literal in wanted), re.IGNORECASE)
    parts: list[str] = []
    at = 0
    for found in pattern.finditer(words):
        parts += [words[at : found.start()], html.tag("mark", found[0])]
        at = found.end()
    return html.joined(*parts, words[at:])


def write_reports(run: RunOutcome, folder: Path, *, timings: dict[str, Any] | None = None) -> None:
    """All reports of a run. Equal runs write equal bytes, timings apart."""
    make_private_folder(folder)
    document = {"table": table_document(run), **msgspec.to_builtins(run)}
    write_private(folder / JSON, _encoded(document) + b"\n")
    write_private(folder / HTML, page(run))
    write_private(folder / MARKDOWN, markdown(run))
    if timings is not None:
        write_private(folder / TIMINGS, indented(timings))


def _encoded(document: dict[str, Any]) -> bytes:
    """JSON; halves of characters, which transcripts may hold, become question marks as they do in the other reports."""
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
