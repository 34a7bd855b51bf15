"""The report of the suite: one JSON document, and one page with tables and all answers side by side.

Pure but for the files. All texts of models and transcripts are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.evaluation import html
from summarizing_context.evaluation.html import Cell, Html
from summarizing_context.evaluation.outcomes import DRAWS, GateOutcome, indented
from summarizing_context.evaluation.real.arms import COMPACT, OURS
from summarizing_context.evaluation.real.recording import ABSENT, ABSTAINED, CATEGORIES, PARTLY, RIGHT, WRONG
from summarizing_context.evaluation.real.scores import ArmScore, Count, RealOutcome, Shown, ViewRead
from summarizing_context.evaluation.report import bounds, gates_section, percent
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
    write_private(folder / JSON, indented(document))
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
    badge = html.gates_badge(sum(gate.failed for gate in gates), len(gates))
    words = f"Intervals: {DRAWS:,} draws of sessions, seeded. Tokens by the built-in estimate."
    parts = [
        html.tag("h1", f"{_TITLE} ", badge),
        html.soft(claim, "p"),
        _makers(outcome),
        html.section("Right answers", _WORDS, *_main(outcome.arms)),
        html.section("By category", _CATEGORY_WORDS, _categories(outcome.arms)),
        gates_section(gates),
        html.section("Views", _VIEW_WORDS, *_views(outcome.views)),
        html.section("Questions", "Open a session and a question: answers of all arms.", *_cases(outcome)),
        html.tag("footer", html.tag("p", words)),
    ]
    return html.page(_TITLE, parts)


_TITLE = "Answers of a model from views"
_VIEW_WORDS = "Whether the recorded answers were read from the view as it is now."
_WORDS = (
    "Right answers and half of the partly right ones, of the questions that the record answers: a mean over sessions "
    f"with its 95 % interval. All arms have the same number of tokens. Ahead: points more than {COMPACT}, paired. "
    "Never said: abstentions where the record has no answer."
)
_CATEGORY_WORDS = f"Points out of questions, and how many points of a hundred ahead of {COMPACT} with the interval."


def ahead(count: Count) -> str:
    """Points of a hundred ahead of one-shot compaction."""
    return f"{100 * count.ahead.mean:+.1f}" if count.ahead is not None else "–"


def total(count: Count) -> str:
    """Points out of questions."""
    return f"{count.points:g}/{count.questions}"


def _main(arms: Sequence[ArmScore]) -> Iterator[Html]:
    rows = (
        html.Row(
            (
                html.tag("b", score.arm),
                Cell(percent(score.score.mean), (bounds(score.score.mean),)),
                Cell(ahead(score.score), (bounds(score.score.ahead, points=True),)),
                total(score.score),
                str(score.wrong),
                total(score.absent),
                str(score.cases),
            ),
            _look(score),
        )
        for score in arms
    )
    yield html.table(("arm", "right", "ahead", "points", "wrong", "never said", "cases"), rows)
    legend = (html.joined(html.tag("b", score.arm), f": {score.about}") for score in arms)
    yield html.fold("What the arms are", html.bullets(legend))


def _categories(arms: Sequence[ArmScore]) -> Html:
    def cell(count: Count) -> Cell:
        return Cell(total(count), (ahead(count), bounds(count.ahead, points=True)))

    rows = (
        html.Row((html.tag("b", score.arm), *(cell(score.categories[name]) for name in CATEGORIES)), _look(score))
        for score in arms
    )
    return html.table(("arm", *CATEGORIES), rows)


def _look(score: ArmScore) -> str:
    return "ours" if score.arm == OURS else ""


def _views(views: Sequence[ViewRead]) -> Iterator[Html]:
    other = [view for view in views if view.reading != "this view"]
    current = len(views) - len(other)
    yield html.tag("p", f"For {current:,} of {len(views):,} views the answers belong to exactly this view.")
    if other:
        listed = html.bullets(f"{view.case}, {view.arm}: {view.reading}" for view in other)
        yield html.fold(f"{len(other):,} others", listed)


def _makers(outcome: RealOutcome) -> Html:
    makers = [f"{name}: {'; '.join(makers)}" for name, makers in outcome.made_by.items() if makers]
    return html.card(html.tag("h3", "Who wrote what"), html.bullets(makers)) if makers else Html()


def _cases(outcome: RealOutcome) -> Iterator[Html]:
    for case in dict.fromkeys(shown.case for shown in outcome.questions):
        questions = (_question(shown) for shown in outcome.questions if shown.case == case)
        yield html.fold(case, *questions, look="session")


def _question(shown: Shown) -> Html:
    question = shown.question
    answers = [
        (arm, html.joined(_badge(mark, question.category), f" {words}")) for arm, (words, mark) in shown.answers.items()
    ]
    ours = _badge(shown.answers[OURS][1], question.category) if OURS in shown.answers else ""
    return html.fold(
        html.joined(ours, " ", html.soft(question.category), f" {question.question}"),
        html.facts([("gold", question.answer), *answers], style="grid-template-columns: 8.5em 1fr"),
    )


def _badge(mark: int | None, category: str) -> Html:
    marks = _ABSENT_MARKS if category == ABSENT else _MARKS
    tone, word = marks.get(mark, ("plain", "not marked")) if mark is not None else ("plain", "not marked")
    return html.badge(word, tone)
