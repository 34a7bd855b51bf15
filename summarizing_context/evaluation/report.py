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
    return f"{100 * count.ahead.mean:+.1f}" if count.ahead is not None else "–"


def total(count: Count) -> str:
    """Return points out of questions."""
    return f"{count.points:g}/{count.questions}"


# Pieces of a page: they take and return markup, so all text is escaped before.


def _cell(text: str, *small: str) -> str:
    return escape(text) + "".join(f"<small>{escape(words)}</small>" for words in small if words)


def _share(interval: Interval | None) -> str:
    return _cell(percent(interval), bounds(interval))


def _lead(interval: Interval | None, *before: str) -> str:
    points = f"{100 * interval.mean:+.1f}" if interval is not None else "–"
    return _cell(*before, points, bounds(interval, points=True))


def _badge(words: str, tone: str) -> str:
    return f'<span class="badge {tone}">{words}</span>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, marked: str = "", look: str = "") -> str:
    """A table that scrolls by itself where the page is narrow; first cells are bold, and one row may be marked."""
    lines = [
        f'<tr class="{"ours" if first == escape(marked) else ""}"><td><b>{first}</b></td>'
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + "</tr>"
        for first, *cells in rows
    ]
    titles = "".join(f"<th>{title}</th>" for title in head)
    inner = f"<thead><tr>{titles}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll"><table class="{look}">{inner}</table></div>'


def _section(title: str, words: str, *body: str) -> str:
    return f'<h2>{title}</h2><p class="soft">{words}</p><div class="card">{"".join(body)}</div>'


def _fold(summary: str, *body: str, look: str = "") -> str:
    return f'<details class="{look}"><summary>{summary}</summary>{"".join(body)}</details>'


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _write(name: str, folder: Path, document: dict[str, Any], title: str, parts: Sequence[str]) -> Path:
    """Write both reports of a run into a folder; return the page."""
    words = f"Intervals hold 95 % of {DRAWS:,} draws of sessions, seeded. Tokens by the built-in estimate."
    body = "\n".join((*parts, f"<footer><p>{words}</p></footer>"))
    page = (files("summarizing_context.evaluation") / "report.html").read_text(encoding="utf8")
    page = page.replace("{{title}}", escape(title)).replace("{{body}}", body)
    make_private_folder(folder)
    write_private(folder / f"{name}.json", indented(document))
    write_private(folder / f"{name}.html", inert(page))  # control characters become dots, as on a terminal
    return folder / f"{name}.html"


def run_document(name: str, outcomes: Sequence[SessionOutcome], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the scores of a run on logs as JSON values."""
    return {
        "name": name,
        "settings": settings,
        "arms": {score.arm: msgspec.to_builtins(score) for score in scores_of(outcomes)},
        "probes": sum(len(one.probes) for one in outcomes),
        "within_one_recall": [sum(one.recalled[at] for one in outcomes) for at in (0, 1)],
    }


def write_run(name: str, outcomes: Sequence[SessionOutcome], settings: dict[str, Any], folder: Path) -> Path:
    """Write both reports of a run on logs; return the page."""
    document = {**run_document(name, outcomes, settings), "sessions": msgspec.to_builtins(outcomes)}
    held, missing = document["within_one_recall"]
    rows = [(one.arm, _share(one.retention), _lead(one.ours_ahead), ARMS[one.arm]) for one in scores_of(outcomes)]
    sessions = []
    for one in outcomes:
        kept, asked = one.share(OURS)
        probes = [
            (
                f"<code>{escape(', '.join(probe.literals))}</code>",
                *(_badge("held", "good") if probe.kept[arm] else _badge("lost", "bad") for arm in ARMS),
                _cell(probe.question, *(f"message {at}: {words}" for at, words in probe.evidence)),
                escape(probe.words),
            )
            for probe in one.probes[:200]
        ]
        title = f"{escape(one.name)}: {kept:.0f} of {asked:.0f} held, {one.messages:,} messages, {one.tokens:,} tokens"
        table = _table(("value", *ARMS, "needed for, and said in", "our view says"), probes, look="words")
        sessions.append(_fold(title, table, look="session"))
    words = "Of the exact values that were needed later, those that views at cuts of the session hold."
    parts = [
        f'<h1>Evals: {escape(name)}</h1><p class="soft">{words}</p>',
        _section(
            "Values held",
            "A mean over sessions. All views have equally many tokens.",
            _table(("view", "held", "ours is ahead by points", "what it is"), rows, marked=OURS),
            f"<p>One recall page holds {held:,} of {missing:,} values that a view lacked at their use.</p>",
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


_MARKS = {
    RIGHT: _badge("right", "good"),
    PARTLY: _badge("partly", "warn"),
    ABSTAINED: _badge("abstains", "plain"),
    WRONG: _badge("wrong", "bad"),
}
_MARKS_OF_ABSENT = {RIGHT: _badge("abstains", "good"), WRONG: _badge("makes something up", "bad")}


def write_reports(outcome: RealOutcome, claim: str, gates: Sequence[GateOutcome], folder: Path) -> Path:
    """Write both reports of recorded answers; return the page, with all answers side by side."""
    title, failed = "Answers of a model from views", sum(gate.failed for gate in gates)
    verdict = _badge("all gates passed", "good") if gates else _badge("no gates", "plain")
    if failed:
        verdict = _badge(f"{failed} {'gate' if failed == 1 else 'gates'} failed", "bad")
    parts = [f'<h1>{title} {verdict}</h1><p class="soft">{escape(claim)}</p>']
    if makers := [escape(f"{what}: {'; '.join(models)}") for what, models in outcome.made_by.items() if models]:
        parts.append(f'<div class="card"><h3>Who wrote what</h3>{_list(makers)}</div>')

    words = (
        "Right answers and half of the partly right ones, of the questions that the record answers: a mean over "
        "sessions with its 95 % interval. All arms have the same number of tokens. Ahead: points more than "
        f"{COMPACT}, paired. Never said: abstentions where the record has no answer."
    )
    rows = [
        (one.arm, _share(one.score.mean), _lead(one.score.ahead), total(one.score), str(one.wrong), total(one.absent),
         str(one.cases))
        for one in outcome.arms
    ]  # fmt: skip
    head = ("arm", "right", "ahead", "points", "wrong", "never said", "cases")
    legend = _fold("What the arms are", _list(f"<b>{one.arm}</b>: {escape(one.about)}" for one in outcome.arms))
    parts.append(_section("Right answers", words, _table(head, rows, marked=OURS), legend))
    words = f"Points out of questions, and how many points of a hundred ahead of {COMPACT} with the interval."
    by_category = [
        (one.arm, *(_lead(one.categories[name].ahead, total(one.categories[name])) for name in CATEGORIES))
        for one in outcome.arms
    ]
    parts.append(_section("By category", words, _table(("arm", *CATEGORIES), by_category, marked=OURS)))
    if gates:
        told = [
            (escape(gate.name), _badge(gate.result, "bad" if gate.failed else "good"), escape(gate.words))
            for gate in gates
        ]
        table = _table(("bound", "result", "figures"), told, look="words")
        parts.append(_section("Bounds", "What the scores must reach.", table))

    others = [f"{view.case}, {view.arm}: {view.reading}" for view in outcome.views if view.reading != "this view"]
    current, views = len(outcome.views) - len(others), len(outcome.views)
    body = f"<p>For {current:,} of {views:,} views the answers belong to exactly this view.</p>"
    body += _fold(f"{len(others):,} others", _list(map(escape, others))) if others else ""
    parts.append(_section("Views", "Whether the recorded answers were read from the view as it is now.", body))

    cases: dict[str, list[str]] = {}
    for shown in outcome.questions:
        asked = shown.question
        badges = _MARKS_OF_ABSENT if asked.category == ABSENT else _MARKS
        marks = {
            arm: _badge("not marked", "plain") if mark is None else badges.get(mark, "")
            for arm, (_, mark) in shown.answers.items()
        }
        facts = [f"<dt>gold</dt><dd>{escape(asked.answer)}</dd>"]
        facts += [f"<dt>{arm}</dt><dd>{marks[arm]} {escape(said)}</dd>" for arm, (said, _) in shown.answers.items()]
        summary = f'{marks.get(OURS, "")} <span class="soft">{asked.category}</span> {escape(asked.question)}'
        cases.setdefault(shown.case, []).append(_fold(summary, f"<dl>{''.join(facts)}</dl>"))
    folds = [_fold(escape(case), *questions, look="session") for case, questions in cases.items()]
    parts.append(_section("Questions", "Open a session and a question: answers of all arms.", *folds))
    document = {**document_of(outcome, gates), "questions": msgspec.to_builtins(outcome.questions)}
    return _write("report", folder, document, title, parts)


def tune_document(outcome: TuneOutcome) -> dict[str, Any]:
    """Return a run of tuning as JSON values."""
    return {**msgspec.to_builtins(outcome), "verdict": outcome.verdict}


def write_tuning(outcome: TuneOutcome, folder: Path) -> Path:
    """Write both reports of a run of tuning; return the page."""
    parts = [f'<h1>Tuning of prompts</h1><div class="card"><b>{escape(outcome.verdict)}</b></div>']
    if outcome.pairs:
        words = "Summaries of the same messages in held-out sessions, those that differ in most words."
        parts.append(f'<h2>Old and new side by side</h2><p class="soft">{words}</p>')
    for pair in outcome.pairs:
        cards = [
            f'<div class="card"><h3>{name}</h3><p>{escape(pair.kept(keeps))}</p>'
            f'<div class="quote">{escape(text)}</div></div>'
            for name, text, keeps in (("old", pair.old, pair.old_keeps), ("new", pair.new, pair.new_keeps))
        ]
        parts.append(f'<h3>{escape(pair.title)}</h3><div class="beside">{"".join(cards)}</div>')
    rows = [
        (escape(one.name), _share(one.chosen_on), _share(one.held_out), f"{one.model_tokens:,.0f}",
         f"{one.view_tokens:,.0f}")
        for one in outcome.tried
    ]  # fmt: skip
    head = ("prompts", "sessions that choose", "held out", "model tokens for 1,000 of history", "tokens of a view")
    words = "Values held that were needed later; a mean over sessions."
    parts.append(_section("Variants", words, _table(head, rows, marked=outcome.winner)))
    sides = (f"<b>to {side}</b>: {escape(', '.join(names))}" for side, names in outcome.sessions.items())
    parts.append(_section("Sessions", "Split by session, never by question.", _list(sides)))
    return _write("tune", folder, tune_document(outcome), "Tuning", parts)
