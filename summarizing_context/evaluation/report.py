"""The reports of `eval run` and of `tune`: one self-contained page and one JSON document each.

The page has no script. Equal runs write equal bytes. Texts of transcripts and models are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.evaluation.outcomes import DRAWS, GateOutcome, Interval, indented
from summarizing_context.evaluation.real.arms import COMPACT, OURS
from summarizing_context.evaluation.real.recording import ABSENT, ABSTAINED, CATEGORIES, PARTLY, RIGHT, WRONG
from summarizing_context.evaluation.real.scores import Count, RealOutcome
from summarizing_context.evaluation.retention import ARMS, SessionOutcome, scores_of
from summarizing_context.evaluation.tune import TuneOutcome
from summarizing_context.messages.text import inert
from summarizing_context.stores.private_files import make_private_folder, write_private

_MAX_LISTED = 200  # probes of one session


def percent(interval: Interval | None) -> str:
    """Return a share as people read it."""
    return f"{interval.mean:.1%}" if interval is not None else "–"


def bounds(interval: Interval | None, *, points: bool = False) -> str:
    """Return the ends of an interval, of shares or of points; nothing where one session has none."""
    if interval is None or interval.sessions < 2:
        return ""
    low, high = (f"{100 * value:+.1f}" if points else f"{value:.1%}" for value in (interval.low, interval.high))
    return f"{low} … {high}"


def ahead(count: Count) -> str:
    """Return points of a hundred ahead of one-shot compaction."""
    return _lead(count.ahead)[0]


def _share(interval: Interval | None) -> tuple[str, str]:
    return percent(interval), bounds(interval)


def _lead(interval: Interval | None) -> tuple[str, str]:
    return f"{100 * interval.mean:+.1f}" if interval is not None else "–", bounds(interval, points=True)


def total(count: Count) -> str:
    """Return points out of questions."""
    return f"{count.points:g}/{count.questions}"


class _Html(str):
    """Text that is markup already; all other text is escaped."""

    __slots__ = ()


_Row = Sequence[str | tuple[str, ...]]  # of cells: a text, and smaller lines below it


def _joined(*parts: str) -> _Html:
    return _Html("".join(part if isinstance(part, _Html) else escape(part) for part in parts))


def _tag(name: str, *inner: str, look: str = "") -> _Html:
    opening = f'<{name} class="{look}">' if look else f"<{name}>"
    return _Html(f"{opening}{_joined(*inner)}</{name}>")


def _table(head: Sequence[str], rows: Iterable[_Row], *, ours: str = "", look: str = "") -> _Html:
    """A table that scrolls by itself where the page is narrow; the row that begins with `ours` is marked."""
    lines = []
    for row in rows:
        texts = [(cell,) if isinstance(cell, str) else cell for cell in row]
        cells = [_tag("td", first, *(_tag("small", words) for words in small if words)) for first, *small in texts]
        lines.append(_tag("tr", *cells, look="ours" if ours and texts[0][0] == _tag("b", ours) else ""))
    titles = _tag("tr", *(_tag("th", title) for title in head))
    return _tag("div", _tag("table", _tag("thead", titles), _tag("tbody", *lines), look=look), look="scroll")


def _section(title: str, words: str, *body: str) -> _Html:
    return _joined(_tag("h2", title), _tag("p", words, look="soft"), _tag("div", *body, look="card"))


def _fold(summary: str, *body: str, look: str = "") -> _Html:
    return _tag("details", _tag("summary", summary), *body, look=look)


def _list(items: Iterable[str]) -> _Html:
    return _tag("ul", *(_tag("li", item) for item in items))


def _badge(words: str, tone: str) -> _Html:
    return _tag("span", words, look=f"badge {tone}")


def _write(name: str, folder: Path, document: dict[str, Any], title: str, parts: Sequence[str]) -> Path:
    """Write both reports of a run into a folder; return the page."""
    words = f"Intervals hold 95 % of {DRAWS:,} draws of sessions, seeded. Tokens by the built-in estimate."
    body = "\n".join(_joined(part) for part in (*parts, _tag("footer", _tag("p", words))) if part)
    page = (files("summarizing_context.evaluation") / "report.html").read_text(encoding="utf8")
    page = page.replace("{{title}}", escape(title)).replace("{{body}}", body)
    make_private_folder(folder)
    write_private(folder / f"{name}.json", indented(document))
    write_private(folder / f"{name}.html", inert(page))  # control characters become dots, as on a terminal
    return folder / f"{name}.html"


def run_document(name: str, outcomes: Sequence[SessionOutcome], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the scores of a run on logs as JSON values."""
    held, missing = (sum(one.recalled[at] for one in outcomes) for at in (0, 1))
    return {
        "name": name,
        "settings": settings,
        "arms": {score.arm: msgspec.to_builtins(score) for score in scores_of(outcomes)},
        "probes": sum(len(one.probes) for one in outcomes),
        "within_one_recall": [held, missing],
    }


def write_run(name: str, outcomes: Sequence[SessionOutcome], settings: dict[str, Any], folder: Path) -> Path:
    """Write both reports of a run on logs; return the page."""
    document = {**run_document(name, outcomes, settings), "sessions": msgspec.to_builtins(outcomes)}
    held, missing = document["within_one_recall"]
    rows: list[_Row] = [
        (_tag("b", score.arm), _share(score.retention), _lead(score.ours_ahead), ARMS[score.arm])
        for score in scores_of(outcomes)
    ]
    sessions = []
    for one in outcomes:
        kept, asked = one.share(OURS)
        probes: list[_Row] = [
            (
                _tag("code", ", ".join(probe.literals)),
                *(_badge(*(("held", "good") if probe.kept[arm] else ("lost", "bad"))) for arm in ARMS),
                (probe.question, *(f"message {at}: {words}" for at, words in probe.evidence)),
                probe.words,
            )
            for probe in one.probes[:_MAX_LISTED]
        ]
        title = f"{one.name}: {kept:.0f} of {asked:.0f} held, {one.messages:,} messages, {one.tokens:,} tokens"
        table = _table(("value", *ARMS, "needed for, and said in", "our view says"), probes, look="words")
        sessions.append(_fold(title, table, look="session"))
    parts = [
        _tag("h1", f"Evals: {name}"),
        _tag(
            "p",
            "Of the exact values that were needed later, those that views at cuts of the session hold.",
            look="soft",
        ),
        _section(
            "Values held",
            "A mean over sessions. All views have equally many tokens.",
            _table(("view", "held", "ours is ahead by points", "what it is"), rows, ours=OURS),
            _tag("p", f"One recall page holds {held:,} of {missing:,} values that a view lacked at their use."),
        ),
        _section("Sessions", "Open a session for its values.", *sessions),
    ]
    return _write("report", folder, document, f"Evals: {name}", parts)


def document_of(outcome: RealOutcome, gates: Sequence[GateOutcome]) -> dict[str, Any]:
    """Return scores, views and gates of recorded answers as JSON values."""
    return {
        "suite": "real",
        "arms": {score.arm: msgspec.to_builtins(score) for score in outcome.arms},
        "views": msgspec.to_builtins(outcome.views),
        "made_by": outcome.made_by,
        "missing": outcome.missing,
        "gates": msgspec.to_builtins(gates),
    }


def write_reports(outcome: RealOutcome, claim: str, gates: Sequence[GateOutcome], folder: Path) -> Path:
    """Write both reports of recorded answers; return the page, with all answers side by side."""
    title, failed = "Answers of a model from views", sum(gate.failed for gate in gates)
    verdict = _badge("all gates passed", "good") if gates else _badge("no gates", "plain")
    if failed:
        verdict = _badge(f"{failed} {'gate' if failed == 1 else 'gates'} failed", "bad")
    parts = [_tag("h1", f"{title} ", verdict), _tag("p", claim, look="soft")]

    makers = [f"{what}: {'; '.join(models)}" for what, models in outcome.made_by.items() if models]
    if makers:
        parts.append(_tag("div", _tag("h3", "Who wrote what"), _list(makers), look="card"))
    words = (
        "Right answers and half of the partly right ones, of the questions that the record answers: a mean over "
        "sessions with its 95 % interval. All arms have the same number of tokens. Ahead: points more than "
        f"{COMPACT}, paired. Never said: abstentions where the record has no answer."
    )
    rows: list[_Row] = []
    by_category: list[_Row] = []
    for score in outcome.arms:
        arm, right = _tag("b", score.arm), score.score
        counted = total(right), str(score.wrong), total(score.absent), str(score.cases)
        rows.append((arm, _share(right.mean), _lead(right.ahead), *counted))
        counts = [score.categories[category] for category in CATEGORIES]
        by_category.append((arm, *((total(count), *_lead(count.ahead)) for count in counts)))
    head = ("arm", "right", "ahead", "points", "wrong", "never said", "cases")
    legend = _fold("What the arms are", _list(_joined(_tag("b", one.arm), f": {one.about}") for one in outcome.arms))
    parts.append(_section("Right answers", words, _table(head, rows, ours=OURS), legend))

    words = f"Points out of questions, and how many points of a hundred ahead of {COMPACT} with the interval."
    parts.append(_section("By category", words, _table(("arm", *CATEGORIES), by_category, ours=OURS)))
    if gates:
        rows = [(gate.name, _badge(gate.result, "bad" if gate.failed else "good"), gate.words) for gate in gates]
        table = _table(("bound", "result", "figures"), rows, look="words")
        parts.append(_section("Bounds", "What the scores must reach.", table))

    others = [f"{view.case}, {view.arm}: {view.reading}" for view in outcome.views if view.reading != "this view"]
    current, views = len(outcome.views) - len(others), len(outcome.views)
    told = [_tag("p", f"For {current:,} of {views:,} views the answers belong to exactly this view.")]
    told += [_fold(f"{len(others):,} others", _list(others))] if others else []
    parts.append(_section("Views", "Whether the recorded answers were read from the view as it is now.", *told))

    def badge(mark: int | None, category: str) -> _Html:
        known: dict[int | None, tuple[str, str]] = {
            RIGHT: ("right", "good"),
            PARTLY: ("partly", "warn"),
            ABSTAINED: ("abstains", "plain"),
            WRONG: ("wrong", "bad"),
        }
        if category == ABSENT:
            known = {RIGHT: ("abstains", "good"), WRONG: ("makes something up", "bad")}
        return _badge(*known.get(mark, ("not marked", "plain")))

    cases: dict[str, list[_Html]] = {}
    for shown in outcome.questions:
        asked, facts = shown.question, [_tag("dt", "gold"), _tag("dd", shown.question.answer)]
        for name, (said, mark) in shown.answers.items():
            facts += [_tag("dt", name), _tag("dd", badge(mark, asked.category), f" {said}")]
        ours = badge(shown.answers[OURS][1], asked.category) if OURS in shown.answers else _Html()
        shown_as = _joined(ours, " ", _tag("span", asked.category, look="soft"), f" {asked.question}")
        cases.setdefault(shown.case, []).append(_fold(shown_as, _tag("dl", *facts)))
    folds = [_fold(case, *questions, look="session") for case, questions in cases.items()]
    parts.append(_section("Questions", "Open a session and a question: answers of all arms.", *folds))
    document = {**document_of(outcome, gates), "questions": msgspec.to_builtins(outcome.questions)}
    return _write("report", folder, document, title, parts)


def tune_document(outcome: TuneOutcome) -> dict[str, Any]:
    """Return a run of tuning as JSON values."""
    return {**msgspec.to_builtins(outcome), "verdict": outcome.verdict}


def write_tuning(outcome: TuneOutcome, folder: Path) -> Path:
    """Write both reports of a run of tuning; return the page."""
    parts = [_tag("h1", "Tuning of prompts"), _tag("div", _tag("b", outcome.verdict), look="card")]
    if outcome.pairs:
        words = "Summaries of the same messages in held-out sessions, those that differ in most words."
        parts += [_tag("h2", "Old and new side by side"), _tag("p", words, look="soft")]
    for pair in outcome.pairs:
        texts = (("old", pair.old, pair.old_keeps), ("new", pair.new, pair.new_keeps))
        cards = [
            _tag("div", _tag("h3", name), _tag("p", pair.kept(keeps)), _tag("div", text, look="quote"), look="card")
            for name, text, keeps in texts
        ]
        parts += [_tag("h3", pair.title), _tag("div", *cards, look="beside")]
    rows: list[_Row] = [
        (_tag("b", one.name), _share(one.chosen_on), _share(one.held_out), f"{one.model_tokens:,.0f}",
         f"{one.view_tokens:,.0f}")
        for one in outcome.tried
    ]  # fmt: skip
    head = ("prompts", "sessions that choose", "held out", "model tokens for 1,000 of history", "tokens of a view")
    words = "Values held that were needed later; a mean over sessions."
    parts.append(_section("Variants", words, _table(head, rows, ours=outcome.winner)))
    sides = (_joined(_tag("b", f"to {side}"), f": {', '.join(names)}") for side, names in outcome.sessions.items())
    parts.append(_section("Sessions", "Split by session, never by question.", _list(sides)))
    return _write("tune", folder, tune_document(outcome), "Tuning", parts)
