"""The reports of `eval run`, `eval ask` and `tune`: one self-contained page and one JSON document each.

The page has no script. Equal runs write equal bytes. All text is escaped, but what is `Html` already. A cell of a table
is a text, or a text and small words below it; the same rows are shown on a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.evaluation.outcomes import DRAWS, Interval, indented
from summarizing_context.evaluation.real.arms import COMPACT, OURS
from summarizing_context.evaluation.real.recording import ABSENT, CATEGORIES, Count, GateOutcome, RealOutcome
from summarizing_context.evaluation.retention import ARMS, SessionOutcome, scores_of
from summarizing_context.evaluation.tune import TuneOutcome
from summarizing_context.messages.text import inert
from summarizing_context.stores.private_files import make_private_folder, write_private

Cell = str | tuple[str, ...]


class Html(str):
    """Markup, whose texts are escaped."""


def share(interval: Interval | None) -> Cell:
    """Return a share as people read it, and the ends of its interval where there are several sessions."""
    if interval is None:
        return "–"
    return f"{interval.mean:.1%}", f"{interval.low:.1%} … {interval.high:.1%}" if interval.sessions > 1 else ""


def lead(interval: Interval | None) -> tuple[str, ...]:
    """Return a difference in points, and the ends of its interval where there are several sessions."""
    if interval is None:
        return ("–",)
    mean, low, high = (f"{100 * value:+.1f}" for value in interval[:3])
    return mean, f"{low} … {high}" if interval.sessions > 1 else ""


def total(count: Count) -> str:
    """Return points out of questions."""
    return f"{count.points:g}/{count.questions}"


def _html(value: Cell) -> Html:
    if isinstance(value, tuple):
        return Html(_html(value[0]) + "".join(_tag("small", words) for words in value[1:] if words))
    return value if isinstance(value, Html) else Html(escape(value))


def _tag(name: str, *inside: Cell, look: str = "") -> Html:
    opening = f'<{name} class="{look}">' if look else f"<{name}>"
    return Html(f"{opening}{''.join(map(_html, inside))}</{name}>")


def _badge(words: str, tone: str) -> Html:
    return _tag("span", words, look=f"badge {tone}")


def _table(head: Sequence[str], rows: Iterable[Sequence[Cell]], *, marked: str = "", look: str = "") -> Html:
    """A table that scrolls by itself where the page is narrow; first cells are bold, and one row may be marked."""
    lines = []
    for first, *others in rows:
        cells = (_tag("td", cell) for cell in others)
        lines.append(_tag("tr", _tag("td", _tag("b", first)), *cells, look="ours" if first == marked else ""))
    titles = _tag("thead", _tag("tr", *(_tag("th", title) for title in head)))
    return _tag("div", _tag("table", titles, _tag("tbody", *lines), look=look), look="scroll")


def _section(title: str, words: str, *body: str) -> Html:
    return Html(_tag("h2", title) + _tag("p", words, look="soft") + _tag("div", *body, look="card"))


def _fold(summary: Cell, *body: str, look: str = "") -> Html:
    return _tag("details", _tag("summary", summary), *body, look=look)


def _list(items: Iterable[str]) -> Html:
    return _tag("ul", *(_tag("li", item) for item in items))


def _write(name: str, folder: Path, document: dict[str, Any], title: str, *parts: Html) -> Path:
    """Write both reports of a run into a folder; return the page."""
    words = f"Intervals hold 95 % of {DRAWS:,} draws of sessions, seeded. Tokens by the built-in estimate."
    body = "\n".join((*parts, _tag("footer", _tag("p", words))))
    page = (files("summarizing_context.evaluation") / "report.html").read_text(encoding="utf8")
    page = page.replace("{{title}}", escape(title)).replace("{{body}}", body)
    make_private_folder(folder)
    write_private(folder / f"{name}.json", indented(document))
    write_private(folder / f"{name}.html", inert(page))  # control characters become dots, as on a terminal
    return folder / f"{name}.html"


def run_rows(outcomes: Sequence[SessionOutcome]) -> list[tuple[Cell, ...]]:
    """Return view, held, ours is ahead by points, what it is."""
    return [(one.arm, share(one.retention), lead(one.ours_ahead), ARMS[one.arm]) for one in scores_of(outcomes)]


def category_rows(outcomes: Sequence[SessionOutcome]) -> list[tuple[Cell, ...]]:
    """Return category, its questions, what each arm holds; no row where a data set has no categories."""
    names = dict.fromkeys(probe.category for one in outcomes for probe in one.probes if probe.category)
    rows = []
    for name in names:
        asked = sum(one.share(OURS, name)[1] for one in outcomes)
        rows.append((name, f"{asked:.0f}", *(share(score.retention) for score in scores_of(outcomes, name))))
    return rows


def write_run(
    name: str, outcomes: Sequence[SessionOutcome], settings: dict[str, Any], folder: Path
) -> tuple[Path, dict[str, Any]]:
    """Write both reports of a run on logs; return the page, and the scores as JSON values."""
    document = {
        "name": name,
        "settings": settings,
        "arms": {score.arm: msgspec.to_builtins(score) for score in scores_of(outcomes)},
        "probes": sum(len(one.probes) for one in outcomes),
    }
    if categories := category_rows(outcomes):
        scores = {name: {one.arm: one for one in scores_of(outcomes, str(name))} for name, *_ in categories}
        document["categories"] = msgspec.to_builtins(scores)
    marks = {True: _badge("held", "good"), False: _badge("lost", "bad")}
    sessions = []
    for one in outcomes:
        kept, asked = one.share(OURS)
        probes: list[tuple[Cell, ...]] = [
            (
                _tag("code", ", ".join(probe.literals)),
                *(marks[probe.kept[arm]] for arm in ARMS),
                (probe.question, *(f"message {at}: {words}" for at, words in probe.evidence)),
                probe.words,
            )
            for probe in one.probes[:200]
        ]
        title = f"{one.name}: {kept:.0f} of {asked:.0f} held, {one.messages:,} messages, {one.tokens:,} tokens"
        table = _table(("value", *ARMS, "needed for, and said in", "our view says"), probes, look="words")
        sessions.append(_fold(title, table, look="session"))
    head = ("view", "held", "ours is ahead by points", "what it is")
    parts = [
        _tag("h1", f"Evals: {name}"),
        _tag("p", "Of the exact values that were needed later, those that views at cuts hold.", look="soft"),
        _section("Values held", "A mean over sessions. All views have equally many tokens.",
                 _table(head, run_rows(outcomes), marked=OURS)),
        _section("By category", "A mean over sessions. The values of a question weigh as much as one question.",
                 _table(("category", "questions", *ARMS), categories)) if categories else Html(),
        _section("Sessions", "Open a session for its values.", *sessions),
    ]  # fmt: skip
    whole = {**document, "sessions": msgspec.to_builtins(outcomes)}
    return _write("report", folder, whole, f"Evals: {name}", *parts), document


def answer_rows(outcome: RealOutcome) -> list[tuple[Cell, ...]]:
    """Return arm, right, ahead, wrong, never said, points, cases, what it is."""
    return [
        (one.arm, share(one.score.mean), lead(one.score.ahead), str(one.wrong), total(one.absent), total(one.score),
         str(one.cases), one.about)
        for one in outcome.arms
    ]  # fmt: skip


def views_read(outcome: RealOutcome) -> tuple[str, list[str]]:
    """Return in words how many answers belong to the views as they are now, and which do not."""
    others = [
        f"{view['case']} {view['arm']}: {view['reading']}" for view in outcome.views if view["reading"] != "this view"
    ]
    current, views = len(outcome.views) - len(others), len(outcome.views)
    return f"For {current:,} of {views:,} views the answers belong to exactly this view.", others


_MARKS: dict[int | None, Html] = {
    2: _badge("right", "good"),
    1: _badge("partly", "warn"),
    0: _badge("abstains", "plain"),
    -1: _badge("wrong", "bad"),
    None: _badge("not marked", "plain"),
}
_MARKS_OF_ABSENT = {**_MARKS, 2: _badge("abstains", "good"), -1: _badge("makes something up", "bad")}


def write_reports(
    outcome: RealOutcome, claim: str, gates: Sequence[GateOutcome], folder: Path
) -> tuple[Path, dict[str, Any]]:
    """Write both reports of recorded answers; return the page, with all answers side by side, and scores, views and
    gates as JSON values."""
    document = {
        "suite": "real",
        "arms": {score.arm: msgspec.to_builtins(score) for score in outcome.arms},
        "views": outcome.views,
        "made_by": outcome.made_by,
        "missing": outcome.missing,
        "gates": msgspec.to_builtins(gates),
    }
    title, failed = "Answers of a model from views", sum(gate.failed for gate in gates)
    verdict = _badge("all gates passed", "good") if gates else _badge("no gates", "plain")
    if failed:
        verdict = _badge(f"{failed} {'gate' if failed == 1 else 'gates'} failed", "bad")
    parts = [_tag("h1", f"{title} ", verdict), _tag("p", claim, look="soft")]

    words = (
        "Right answers and half of the partly right ones, of the questions that the record answers: a mean over "
        "sessions with its 95 % interval. All arms have the same number of tokens. Ahead: points more than "
        f"{COMPACT}, paired. Never said: abstentions where the record has no answer."
    )
    head = ("arm", "right", "ahead", "wrong", "never said", "points", "cases", "what it is")
    parts.append(_section("Right answers", words, _table(head, answer_rows(outcome), marked=OURS)))
    words = f"Points out of questions, and how many points of a hundred ahead of {COMPACT} with the interval."
    by_category: list[tuple[Cell, ...]] = [
        (one.arm, *((total(count), *lead(count.ahead)) for count in map(one.categories.__getitem__, CATEGORIES)))
        for one in outcome.arms
    ]
    parts.append(_section("By category", words, _table(("arm", *CATEGORIES), by_category, marked=OURS)))
    if gates:
        told = [(gate.name, _badge(gate.result, "bad" if gate.failed else "good"), gate.words) for gate in gates]
        table = _table(("bound", "result", "figures"), told, look="words")
        parts.append(_section("Bounds", "What the scores must reach.", table))
    makers = [f"{what}: {'; '.join(models)}" for what, models in outcome.made_by.items() if models]
    said, others = views_read(outcome)
    parts.append(_section("Views and models", "Whether the answers were read from today's views, and who wrote what.",
                          _list([said, *others, *makers])))  # fmt: skip

    cases: dict[str, list[Html]] = {}
    for shown in outcome.questions:
        asked, badges = shown.question, _MARKS_OF_ABSENT if shown.question.category == ABSENT else _MARKS
        answers = [_tag("dt", "gold"), _tag("dd", asked.answer)]
        for arm, (words, mark) in shown.answers.items():
            answers += [_tag("dt", arm), _tag("dd", badges[mark], f" {words}")]
        ours = badges[shown.answers[OURS][1]] if OURS in shown.answers else ""
        summary = Html(f"{ours} {_tag('span', asked.category, look='soft')} {escape(asked.question)}")
        cases.setdefault(shown.case, []).append(_fold(summary, _tag("dl", *answers)))
    folds = [_fold(case, *questions, look="session") for case, questions in cases.items()]
    parts.append(_section("Questions", "Open a session and a question: answers of all arms.", *folds))
    whole = {**document, "questions": msgspec.to_builtins(outcome.questions)}
    return _write("report", folder, whole, title, *parts), document


def tried_rows(outcome: TuneOutcome) -> list[tuple[Cell, ...]]:
    """Return prompts, sessions that choose, held out, model tokens for 1,000 of history, tokens of a view."""
    return [
        (one.name, share(one.chosen_on), share(one.held_out), f"{one.model_tokens:,.0f}", f"{one.view_tokens:,.0f}")
        for one in outcome.tried
    ]


def write_tuning(outcome: TuneOutcome, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write both reports of a run of tuning; return the page, and the run as JSON values."""
    parts = [_tag("h1", "Tuning of prompts"), _tag("div", _tag("b", outcome.verdict), look="card")]
    if outcome.pairs:
        words = "Summaries of the same messages in held-out sessions, those that differ in most words."
        parts += [_tag("h2", "Old and new side by side"), _tag("p", words, look="soft")]
    for pair in outcome.pairs:
        cards = []
        for name, text, keeps in (("old", pair.old, pair.old_keeps), ("new", pair.new, pair.new_keeps)):
            lost = [value for value in pair.needed if value not in keeps][:8]
            words = f"keeps {len(keeps)} of {len(pair.needed)} values that are needed later"
            words += f"; drops {', '.join(lost)}" if lost else ""
            quote = _tag("div", text, look="quote")
            cards.append(_tag("div", _tag("h3", name), _tag("p", words), quote, look="card"))
        title = f"{pair.session}, messages {pair.start} to {pair.stop - 1}"
        parts += [_tag("h3", title), _tag("div", *cards, look="beside")]
    head = ("prompts", "sessions that choose", "held out", "model tokens for 1,000 of history", "tokens of a view")
    words = "Values held that were needed later; a mean over sessions."
    parts.append(_section("Variants", words, _table(head, tried_rows(outcome), marked=outcome.winner)))
    sides = (f"to {side}: {', '.join(names)}" for side, names in outcome.sessions.items())
    parts.append(_section("Sessions", "Split by session, never by question.", _list(sides)))
    document = {**msgspec.to_builtins(outcome), "verdict": outcome.verdict}
    return _write("tune", folder, document, "Tuning", *parts), document
