"""The reports of `eval run` on logs and of `tune`: one self-contained page and one JSON document each.

Equal runs write equal bytes. Texts of transcripts and models are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.evaluation import html
from summarizing_context.evaluation.html import Cell, Html
from summarizing_context.evaluation.outcomes import DRAWS, GateOutcome, Interval, indented
from summarizing_context.evaluation.retention import ARMS, OURS, SessionOutcome, scores_of
from summarizing_context.evaluation.tune import TuneOutcome
from summarizing_context.stores.private_files import make_private_folder, write_private

INTERVALS = f"Intervals hold 95 % of {DRAWS:,} draws of sessions, seeded. Tokens by the built-in estimate."
MAX_LISTED = 200  # probes of one session


def percent(interval: Interval | None) -> str:
    """Return a share as people read it."""
    return f"{interval.mean:.1%}" if interval is not None else "–"


def bounds(interval: Interval | None, *, points: bool = False) -> str:
    """Return the ends of an interval, of shares or of points; nothing where one session has none."""
    if interval is None or interval.sessions < 2:
        return ""
    low, high = (f"{100 * value:+.1f}" if points else f"{value:.1%}" for value in (interval.low, interval.high))
    return f"{low} … {high}"


def gates_section(gates: Sequence[GateOutcome]) -> Html:
    """Return what became of the bounds of a suite; nothing where it has none."""
    tones = {"passed": "good", "failed": "bad", "vacuous": "warn", "nothing to look at": "bad"}
    rows = (html.Row((gate.name, html.badge(gate.result, tones[gate.result]), gate.words)) for gate in gates)
    return html.section("Bounds", "", html.table(("bound", "result", "figures"), rows)) if gates else Html()


def write_run(name: str, outcomes: Sequence[SessionOutcome], settings: dict[str, Any], folder: Path) -> Path:
    """Write both reports of a run on logs; return the page."""
    make_private_folder(folder)
    document = {**run_document(name, outcomes, settings), "sessions": msgspec.to_builtins(outcomes)}
    write_private(folder / "report.json", indented(document))
    write_private(folder / "report.html", html.page(f"Evals: {name}", list(_run_parts(name, outcomes))))
    return folder / "report.html"


def run_document(name: str, outcomes: Sequence[SessionOutcome], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the scores of a run as JSON values."""
    held, missing = (sum(one.recalled[at] for one in outcomes) for at in (0, 1))
    return {
        "name": name,
        "settings": settings,
        "arms": {score.arm: msgspec.to_builtins(score) for score in scores_of(outcomes)},
        "probes": sum(len(one.probes) for one in outcomes),
        "within_one_recall": [held, missing],
    }


def _run_parts(name: str, outcomes: Sequence[SessionOutcome]) -> Iterator[Html]:
    yield html.tag("h1", f"Evals: {name}")
    yield html.soft("Of the exact values that were needed later, those that views at cuts of the session hold.", "p")
    rows = (
        html.Row(
            (
                html.tag("b", score.arm),
                Cell(percent(score.retention), (bounds(score.retention),)),
                Cell(_points(score.ours_ahead), (bounds(score.ours_ahead, points=True),)),
                ARMS[score.arm],
            ),
            "ours" if score.arm == OURS else "",
        )
        for score in scores_of(outcomes)
    )
    held, missing = (sum(one.recalled[at] for one in outcomes) for at in (0, 1))
    within = html.tag("p", f"One recall page holds {held:,} of {missing:,} values that a view lacked at their use.")
    table = html.table(("view", "held", "ours is ahead by points", "what it is"), rows)
    yield html.section("Values held", "A mean over sessions. All views have equally many tokens.", table, within)
    yield html.section("Sessions", "Open a session for its values.", *map(_session, outcomes))
    yield html.tag("footer", html.tag("p", INTERVALS))


def _points(interval: Interval | None) -> str:
    return f"{100 * interval.mean:+.1f}" if interval is not None else ""


def _session(outcome: SessionOutcome) -> Html:
    kept, asked = outcome.share(OURS)
    rows = (
        html.Row(
            (
                html.tag("code", ", ".join(one.literals)),
                *(html.badge(*(("held", "good") if one.kept[arm] else ("lost", "bad"))) for arm in ARMS),
                Cell(one.question, tuple(f"message {at}: {words}" for at, words in one.evidence)),
                one.words,
            )
        )
        for one in outcome.probes[:MAX_LISTED]
    )
    title = f"{outcome.name}: {kept:.0f} of {asked:.0f} held, {outcome.messages:,} messages, {outcome.tokens:,} tokens"
    return html.fold(
        title, html.table(("value", *ARMS, "needed for, and said in", "our view says"), rows), look="session"
    )


def write_tuning(outcome: TuneOutcome, folder: Path) -> Path:
    """Write both reports of a run of tuning; return the page."""
    make_private_folder(folder)
    write_private(folder / "tune.json", indented(tune_document(outcome)))
    write_private(folder / "tune.html", html.page("Tuning", list(_tune_parts(outcome))))
    return folder / "tune.html"


def tune_document(outcome: TuneOutcome) -> dict[str, Any]:
    """Return a run of tuning as JSON values."""
    document: dict[str, Any] = msgspec.to_builtins(outcome)
    return {**document, "verdict": outcome.verdict}


def _tune_parts(outcome: TuneOutcome) -> Iterator[Html]:
    yield html.tag("h1", "Tuning of prompts")
    yield html.card(html.tag("b", outcome.verdict))
    if outcome.pairs:
        words = "Summaries of the same messages in held-out sessions, those that differ in most words."
        yield html.joined(html.tag("h2", "Old and new side by side"), html.soft(words, "p"))
    for pair in outcome.pairs:
        yield html.tag("h3", pair.title)
        cards = [
            html.card(html.tag("h3", name), html.tag("p", pair.kept(keeps)), html.quote(text))
            for name, text, keeps in (("old", pair.old, pair.old_keeps), ("new", pair.new, pair.new_keeps))
        ]
        yield html.tag("div", *cards, look="grid2")
    rows = (
        html.Row(
            (
                html.tag("b", tried.name),
                Cell(percent(tried.chosen_on), (bounds(tried.chosen_on),)),
                Cell(percent(tried.held_out), (bounds(tried.held_out),)),
                f"{tried.model_tokens:,.0f}",
                f"{tried.view_tokens:,.0f}",
            ),
            "ours" if tried.name == outcome.winner else "",
        )
        for tried in outcome.tried
    )
    head = ("prompts", "sessions that choose", "held out", "model tokens for 1,000 of history", "tokens of a view")
    yield html.section("Variants", "Values held that were needed later; a mean over sessions.", html.table(head, rows))
    lists = (
        html.joined(html.tag("b", f"to {side}"), f": {', '.join(names)}") for side, names in outcome.sessions.items()
    )
    yield html.section("Sessions", "Split by session, never by question.", html.bullets(lists))
    yield html.tag("footer", html.tag("p", INTERVALS))
