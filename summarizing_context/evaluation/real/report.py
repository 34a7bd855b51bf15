"""The report of the suite: one JSON document, and one page with tables and all answers side by side.

Pure but for the files. All texts of models and transcripts are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.evaluation.intervals import DRAWS, Interval
from summarizing_context.evaluation.outcomes import GateOutcome
from summarizing_context.evaluation.real.arms import COMPACT, OURS
from summarizing_context.evaluation.real.recording import ABSENT, ABSTAINED, CATEGORIES, PARTLY, RIGHT, WRONG
from summarizing_context.evaluation.real.scores import ArmScore, Count, RealOutcome, Shown, ViewRead
from summarizing_context.evaluation.report.page import gates_section, html_page, section, wide_table
from summarizing_context.stores.private_files import make_private_folder, write_private

JSON, HTML = "report.json", "report.html"
_MARKS = {
    RIGHT: ("good", "right"),
    PARTLY: ("warn", "partly"),
    ABSTAINED: ("plain", "abstains"),
    WRONG: ("bad", "wrong"),
}
_ABSENT_MARKS = {RIGHT: ("good", "abstains"), WRONG: ("bad", "makes something up")}


def write_reports(outcome: RealOutcome, claim: str, gates: Sequence[GateOutcome], folder: Path) -> Path:
    """Write both reports; the page. Equal runs write equal bytes."""
    make_private_folder(folder)
    document = {**document_of(outcome, gates), "questions": msgspec.to_builtins(outcome.questions)}
    write_private(folder / JSON, msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    write_private(folder / HTML, page(outcome, claim, gates))
    return folder / HTML


def document_of(outcome: RealOutcome, gates: Sequence[GateOutcome]) -> dict[str, Any]:
    """Scores, views and gates as JSON values."""
    return {
        "suite": "real",
        "arms": {score.arm: msgspec.to_builtins(score) for score in outcome.arms},
        "views": msgspec.to_builtins(outcome.views),
        "made_by": outcome.made_by,
        "missing": outcome.missing,
        "gates": msgspec.to_builtins(gates),
    }


def page(outcome: RealOutcome, claim: str, gates: Sequence[GateOutcome] = ()) -> str:
    """The whole page."""
    failed = sum(gate.failed for gate in gates)
    passed = ("good", "all gates passed") if gates else ("plain", "no gates")
    tone, verdict = ("bad", f"{failed} gates failed") if failed else passed
    parts = [
        f'<h1>Answers of a model from views <span class="badge {tone}">{verdict}</span></h1>'
        f'<p class="soft">{escape(claim)}</p>{_makers(outcome)}',
        section("Right answers", _main(outcome.arms), _WORDS),
        section("By category", _categories(outcome.arms), _CATEGORY_WORDS),
        gates_section(gates),
        section("Views", _views(outcome.views), "Whether the recorded answers were read from the view as it is now."),
        section("Questions", "".join(_cases(outcome)), "Open a session and a question: answers of all arms."),
        f"<footer><p>Intervals: {DRAWS:,} draws of sessions, seeded. Tokens by the built-in estimate.</p></footer>",
    ]
    return html_page("Answers of a model from views", parts)


_WORDS = (
    "Right answers and half of the partly right ones, of the questions that the record answers: a mean over sessions "
    f"with its 95 % interval. All arms have the same number of tokens. Ahead: points more than {COMPACT}, paired. "
    "Never said: abstentions where the record has no answer."
)
_CATEGORY_WORDS = f"Points out of questions, and how many points of a hundred ahead of {COMPACT} with the interval."


def percent(interval: Interval | None) -> str:
    """A share as people read it."""
    return f"{interval.mean:.1%}" if interval is not None else "–"


def bounds(interval: Interval | None, *, points: bool = False) -> str:
    """The ends of an interval, of shares or of points; nothing where one session has none."""
    if interval is None or interval.sessions < 2:
        return ""
    low, high = (f"{100 * value:+.1f}" if points else f"{value:.1%}" for value in (interval.low, interval.high))
    return f"{low} … {high}"


def ahead(count: Count) -> str:
    """Points of a hundred ahead of one-shot compaction."""
    return f"{100 * count.ahead.mean:+.1f}" if count.ahead is not None else "–"


def total(count: Count) -> str:
    """Points out of questions."""
    return f"{count.points:g}/{count.questions}"


def _main(arms: Sequence[ArmScore]) -> str:
    columns = ("arm", "right", "ahead", "points", "wrong", "never said", "cases")
    head = f"<tr>{''.join(f'<th>{column}</th>' for column in columns)}</tr>"
    rows = [
        f"<tr{_tone(score)}><td><b>{escape(score.arm)}</b></td>"
        f"<td>{percent(score.score.mean)}<small>{bounds(score.score.mean)}</small></td>"
        f"<td>{ahead(score.score)}<small>{bounds(score.score.ahead, points=True)}</small></td>"
        f"<td>{total(score.score)}</td><td>{score.wrong}</td><td>{total(score.absent)}</td><td>{score.cases}</td></tr>"
        for score in arms
    ]
    legend = "".join(f"<li><b>{escape(score.arm)}</b>: {escape(score.about)}</li>" for score in arms)
    return f"{wide_table(head, rows)}<details><summary>What the arms are</summary><ul>{legend}</ul></details>"


def _categories(arms: Sequence[ArmScore]) -> str:
    head = f"<tr><th>arm</th>{''.join(f'<th>{category}</th>' for category in CATEGORIES)}</tr>"
    rows = []
    for score in arms:
        counts = [score.categories[category] for category in CATEGORIES]
        cells = "".join(
            f"<td>{total(count)}<small>{ahead(count)}</small><small>{bounds(count.ahead, points=True)}</small></td>"
            for count in counts
        )
        rows.append(f"<tr{_tone(score)}><td><b>{escape(score.arm)}</b></td>{cells}</tr>")
    return wide_table(head, rows)


def _tone(score: ArmScore) -> str:
    return ' class="ours"' if score.arm == OURS else ""


def _views(views: Sequence[ViewRead]) -> str:
    current = sum(view.reading == "this view" for view in views)
    other = [view for view in views if view.reading != "this view"]
    items = "".join(f"<li>{escape(view.case)}, {escape(view.arm)}: {view.reading}</li>" for view in other)
    listed = f"<details><summary>{len(other):,} others</summary><ul>{items}</ul></details>" if other else ""
    return f"<p>For {current:,} of {len(views):,} views the answers belong to exactly this view.</p>{listed}"


def _makers(outcome: RealOutcome) -> str:
    items = "".join(
        f"<li>{name}: {escape('; '.join(makers))}</li>" for name, makers in outcome.made_by.items() if makers
    )
    return f'<div class="card"><h3>Who wrote what</h3><ul>{items}</ul></div>' if items else ""


def _cases(outcome: RealOutcome) -> Iterator[str]:
    for case in dict.fromkeys(shown.case for shown in outcome.questions):
        questions = "".join(_question(shown) for shown in outcome.questions if shown.case == case)
        yield f'<details class="session"><summary>{escape(case)}</summary>{questions}</details>'


def _question(shown: Shown) -> str:
    question = shown.question
    rows = [("gold", escape(question.answer))]
    rows += [
        (arm, f"{_badge(mark, question.category)} {escape(words)}") for arm, (words, mark) in shown.answers.items()
    ]
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{words}</dd>" for name, words in rows)
    ours = _badge(shown.answers[OURS][1], question.category) if OURS in shown.answers else ""
    return (
        f'<details><summary>{ours} <span class="soft">{escape(question.category)}</span> {escape(question.question)}'
        f'</summary><div class="probe"><dl style="grid-template-columns: 8.5em 1fr">{listed}</dl></div></details>'
    )


def _badge(mark: int | None, category: str) -> str:
    marks = _ABSENT_MARKS if category == ABSENT else _MARKS
    tone, word = marks.get(mark, ("plain", "not marked")) if mark is not None else ("plain", "not marked")
    return f'<span class="badge {tone}">{word}</span>'
