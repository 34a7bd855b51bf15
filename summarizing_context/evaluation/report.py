"""The report of a run: figures with intervals, sentences, Markdown and JSON; and a run read back from its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.arms import ARMS, EQUAL_ARMS, REFERENCE, TOLERANCE
from summarizing_context.evaluation.cases.model import KINDS
from summarizing_context.evaluation.figures import FIGURES
from summarizing_context.evaluation.outcomes import FORMAT, Interval, RunOutcome, difference, mean_of, session_values

MAIN = (
    "used",
    "summary_used",
    "recalled",
    "hinted",
    "drilled",
    "searched",
    "literals",
    "constraint",
    "artifact_recall",
    "artifact_precision",
    "ledger_recall",
    "ledger_precision",
    "stale",
    "unsupported",
    "dropped_lines",
    "drift",
    "tokens",
    "per_1k",
    "passes",
)

_HEADED = ("used", "literals", "constraint")  # each has a sentence of its own


class Row(NamedTuple):
    """One arm in the table."""

    arm: str
    role: str
    about: str
    cells: dict[str, Interval]


def table_of(run: RunOutcome) -> list[Row]:
    """Every arm with its means."""
    rows = []
    for arm in ARMS:
        if arm.name in run.arms:
            cells = {
                figure: mean
                for figure in FIGURES
                if (mean := mean_of(session_values(run.sessions, arm.name, figure))) is not None
            }
            rows.append(Row(arm.name, arm.role, arm.about, cells))
    return rows


def margins_of(run: RunOutcome, figure: str) -> list[tuple[str, Interval]]:
    """How far the reference arm is ahead of each arm that is held to equal tokens."""
    ours = session_values(run.sessions, REFERENCE, figure)
    others = [arm.name for arm in EQUAL_ARMS if arm.name in run.arms and arm.name != REFERENCE]
    found = [(arm, difference(ours, session_values(run.sessions, arm, figure))) for arm in others]
    return [(arm, margin) for arm, margin in found if margin is not None]


def columns_of(rows: Sequence[Row]) -> list[str]:
    """The main figures that any arm has."""
    return [figure for figure in MAIN if any(figure in row.cells for row in rows)]


def by_kind(run: RunOutcome, kind: str, arm: str) -> Interval | None:
    """Retention of one kind of probe."""
    return mean_of(session_values(run.sessions, arm, kind))


def unequal_views(run: RunOutcome) -> list[str]:
    """Views of arms held to equal tokens that are not within the tolerance."""
    equal = {arm.name for arm in EQUAL_ARMS}
    return [
        f"{session.id} at {view.cut}: {arm} has {view.tokens} tokens, {view.target} were given"
        for session in run.sessions
        for arm, views in session.views.items()
        if arm in equal
        for view in views
        if abs(view.tokens - view.target) > TOLERANCE * view.target
    ]


def headline(run: RunOutcome) -> list[str]:
    """What the run says, in sentences: what is ahead, and what is not."""
    if not any(session_values(run.sessions, REFERENCE, kind) for kind in KINDS):
        return [_silence(run)]
    return [*(sentence for figure in _HEADED for sentence in _sentences(run, figure)), *_weak_kinds(run)]


def _weak_kinds(run: RunOutcome) -> Iterable[str]:
    """By arm, the kinds of question of which it holds surely more."""
    ahead: dict[str, list[str]] = {}
    for kind in (kind for kind in KINDS if kind not in _HEADED):
        for arm, margin in margins_of(run, kind):
            if margin.high < 0:
                ahead.setdefault(arm, []).append(f"{kind} ({margin.mean:+.3f})")
    if ahead:
        listed = "; ".join(f"{arm} in {', '.join(kinds)}" for arm, kinds in ahead.items())
        yield f"By kind of question, {REFERENCE} is behind {listed}."


def _silence(run: RunOutcome) -> str:
    """Why no question was asked."""
    if any(session.views for session in run.sessions):
        return "Nothing was asked: no tool call uses an exact value that stood before a cut and was not seen since."
    return (
        "Nothing was measured: where everything before a cut fits into the budget nothing is left out, and without "
        "messages of an assistant there is no cut. Longer sessions or a smaller budget give something to measure."
    )


def _sentences(run: RunOutcome, figure: str) -> Iterable[str]:
    ours = mean_of(session_values(run.sessions, REFERENCE, figure))
    if ours is None:
        return
    ahead: list[str] = []
    level: list[str] = []
    behind: list[str] = []
    for arm, margin in margins_of(run, figure):
        (ahead if margin.low > 0 else behind if margin.high < 0 else level).append(f"{arm} ({margin.mean:+.3f})")
    share = f"{ours.mean:.1%} [{ours.low:.1%}, {ours.high:.1%}]"
    sentence = f"{FIGURES[figure].title.capitalize()}: {REFERENCE} holds {share}"
    parts = [
        f"{words} {', '.join(names)}"
        for words, names in (("ahead of", ahead), ("no better than", level), ("behind", behind))
        if names
    ]
    yield sentence + (f"; {'; '.join(parts)}." if parts else ".")


def markdown(run: RunOutcome) -> str:
    """The whole document."""
    return "\n".join(_lines(run)) + "\n"


def _lines(run: RunOutcome) -> Iterator[str]:
    probes = sum(len(session.probes) for session in run.sessions)
    yield f"# Summary evals: {run.suite}"
    yield ""
    yield markdown_text(run.claim)
    yield ""
    yield f"{len(run.sessions)} sessions, {probes:,} probes, {sum(s.tokens for s in run.sessions):,} tokens of history."
    yield ""
    yield from (f"- {markdown_text(sentence)}" for sentence in headline(run))
    yield ""
    yield from _table(table_of(run))
    if run.gates:
        yield from ("", "## Gates", "", "| gate | result | figures |", "|---|---|---|")
        yield from (
            f"| {markdown_text(gate.name)} | {gate.result} | {markdown_text(gate.words)} |" for gate in run.gates
        )
    if unequal := unequal_views(run):
        yield from ("", f"{len(unequal)} views could not be brought to equal tokens.")


def _table(rows: Sequence[Row]) -> Iterator[str]:
    columns = columns_of(rows)
    yield "| arm | " + " | ".join(FIGURES[figure].title for figure in columns) + " |"
    yield "|---|" + "--:|" * len(columns)
    for row in rows:
        cells = []
        for figure in columns:
            cell = row.cells.get(figure)
            interval = f" [{written(cell.low, figure)}, {written(cell.high, figure)}]" if cell else ""
            cells.append(f"{written(cell.mean, figure)}{interval}" if cell else "–")
        yield f"| {row.arm} | " + " | ".join(cells) + " |"


def markdown_text(words: str) -> str:
    """Words that mean nothing in Markdown."""
    return words.replace("|", "\\|").replace("<", "&lt;").replace("`", "'").replace("\n", " ")


JSON, HTML, MARKDOWN, TIMINGS = "report.json", "report.html", "report.md", "timings.json"


def table_document(run: RunOutcome) -> dict[str, dict[str, dict[str, float]]]:
    """The table as JSON values: by arm, by figure."""
    return {
        row.arm: {
            figure: {
                "mean": round(cell.mean, 6),
                "low": round(cell.low, 6),
                "high": round(cell.high, 6),
                "sessions": cell.sessions,
            }
            for figure, cell in row.cells.items()
        }
        for row in table_of(run)
    }


def read_run(path: Path) -> RunOutcome:
    """A run from its JSON report, or from the folder that holds it."""
    file = path / JSON if path.is_dir() else path
    try:
        run = msgspec.json.decode(file.read_bytes(), type=RunOutcome)
    except OSError as error:
        raise TranscriptError(
            f"{file}:1: cannot be read ({error.strerror}); name a folder that `eval run` wrote"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TranscriptError(
            f"{file}:1: not a report of a run ({error}); name a folder that `eval run` wrote"
        ) from error
    if run.format != FORMAT:
        raise TranscriptError(f"{file}:1: format {run.format}; this version reads format {FORMAT}; run the suite anew")
    return run


def written(value: float, figure: str) -> str:
    """A figure as people read it."""
    if FIGURES[figure].share:
        return f"{value:.1%}"
    return f"{value:,.0f}" if figure == "tokens" else f"{value:.2f}"
