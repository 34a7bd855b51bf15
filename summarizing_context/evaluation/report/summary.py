"""The figures of a report: means with intervals, margins between arms, curves, sentences, losses.

Pure. A reader gets four views of the same past: all of it, the evidence alone, all stored summaries, the view. The
differences say what the reader, the summaries and the selection lose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

from summarizing_context.evaluation.arms import ARMS, EQUAL_ARMS, REFERENCE
from summarizing_context.evaluation.arms.views import TOLERANCE
from summarizing_context.evaluation.cases.model import KINDS
from summarizing_context.evaluation.intervals import Interval, difference, mean_of, session_values
from summarizing_context.evaluation.outcomes import ProbeOutcome, RunOutcome, SessionOutcome
from summarizing_context.evaluation.scoring.figures import FIGURES

AGES = (2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)  # tokens; the last class is open

MAIN = (
    "used",
    "summary_used",
    "recalled",
    "hinted",
    "drilled",
    "searched",
    "literals",
    "constraint",
    "answered",
    "misled",
    "agreement",
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

_HEADED = ("used", "literals", "constraint", "answered")  # each has a sentence of its own

_UNASKED = ("abstention",)


class Row(NamedTuple):
    """One arm in the table."""

    arm: str
    role: str
    about: str
    cells: dict[str, Interval]


class Point(NamedTuple):
    """One class of a curve."""

    label: str
    kept: float
    probes: int


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


def probes_of(run: RunOutcome) -> list[ProbeOutcome]:
    return [probe for session in run.sessions for probe in session.probes if probe.kind not in _UNASKED]


def by_age(run: RunOutcome, arm: str) -> list[Point]:
    """Retention by the tokens between the evidence and the cut."""
    edges = (0, *AGES)
    labels = [f"{_short(low)}–{_short(high)}" for low, high in zip(edges, AGES, strict=False)] + [
        f"≥{_short(AGES[-1])}"
    ]

    def class_of(probe: ProbeOutcome) -> int:
        return sum(probe.age >= edge for edge in AGES)

    return _curve(probes_of(run), arm, labels, class_of)


def by_cost(run: RunOutcome, arm: str, figure: str) -> list[tuple[float, Interval]]:
    """(tokens of a view, the figure) at each budget of the run."""
    budgets: dict[int, list[SessionOutcome]] = {}
    for session in run.sessions:
        budgets.setdefault(session.budget, []).append(session)
    found = []
    for _, sessions in sorted(budgets.items()):
        tokens = mean_of(session_values(sessions, arm, "tokens"))
        mean = mean_of(session_values(sessions, arm, figure))
        if tokens is not None and mean is not None:
            found.append((tokens.mean, mean))
    return found


def by_passes(run: RunOutcome, arm: str) -> list[Point]:
    """Retention by the summarizations that the evidence went through in the reference arm."""
    probes = probes_of(run)
    most = max((probe.passes for probe in probes), default=0)
    return _curve(probes, arm, [str(number) for number in range(most + 1)], lambda probe: probe.passes)


def by_kind(run: RunOutcome, kind: str, arm: str) -> Interval | None:
    """Retention of one kind of probe."""
    return mean_of(session_values(run.sessions, arm, kind))


def needle_map(run: RunOutcome, arm: str, depths: int = 5) -> list[list[Point]]:
    """Retention of needles: a row for each age that occurs, a column for each depth in the result."""
    needles = [probe for probe in probes_of(run) if probe.depth is not None and arm in probe.kept]
    rows = []
    for point, age in ((point, at) for at, point in enumerate(by_age(run, arm))):
        here = [probe for probe in needles if sum(probe.age >= edge for edge in AGES) == age]
        if here:
            labels = [f"{point.label}/{depth}" for depth in range(depths)]
            rows.append(_curve(here, arm, labels, lambda probe: min(depths - 1, int((probe.depth or 0) * depths))))
    return rows


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
    verb = "gets" if figure == "answered" else "holds"
    sentence = (
        f"{FIGURES[figure].title.capitalize()}: {REFERENCE} {verb} {ours.mean:.1%} [{ours.low:.1%}, {ours.high:.1%}]"
    )
    parts = [
        f"{words} {', '.join(names)}"
        for words, names in (("ahead of", ahead), ("no better than", level), ("behind", behind))
        if names
    ]
    yield sentence + (f"; {'; '.join(parts)}." if parts else ".")


def _curve(
    probes: Sequence[ProbeOutcome], arm: str, labels: Sequence[str], class_of: Callable[[ProbeOutcome], int]
) -> list[Point]:
    kept, counts = [0] * len(labels), [0] * len(labels)
    for probe in probes:
        if arm in probe.kept:
            counts[class_of(probe)] += 1
            kept[class_of(probe)] += probe.kept[arm] == 1
    return [Point(label, kept[at] / counts[at] if counts[at] else 0.0, counts[at]) for at, label in enumerate(labels)]


def _short(tokens: int) -> str:
    return f"{tokens // 1_000}k" if tokens >= 1_000 else str(tokens)


_COMPARED = ("everything", "evidence", "stored", REFERENCE)

_FIGURE = "answered"


class Loss(NamedTuple):
    """A share of the questions that is right, or that is lost on the way."""

    name: str
    about: str
    share: Interval


def losses(run: RunOutcome) -> list[Loss]:
    """What the reader gets right from each of the four views, and what is lost between them."""
    values = {arm: session_values(run.sessions, arm, _FIGURE) for arm in _COMPARED}
    found = [
        ("right from the whole past", "everything, raw", mean_of(values["everything"])),
        ("right from the evidence", "only the lines that hold the answers", mean_of(values["evidence"])),
        ("right from what is stored", "every segment's own summary", mean_of(values["stored"])),
        ("right from the view", f"what {REFERENCE} sends", mean_of(values[REFERENCE])),
        (
            "lost in a long context",
            "evidence, less the whole past",
            difference(values["evidence"], values["everything"]),
        ),
        ("lost in writing", "evidence, less what is stored", difference(values["evidence"], values["stored"])),
        ("lost in showing", "what is stored, less the view", difference(values["stored"], values[REFERENCE])),
    ]
    return [Loss(name, about, share) for name, about, share in found if share is not None]


def losses_html(run: RunOutcome) -> str:
    """The table as HTML; empty where no reader was asked."""
    rows = "".join(
        f'<tr><td class="words">{escape(loss.name)}</td><td>{loss.share.mean:.1%}<small>{loss.share.low:.1%} – '
        f'{loss.share.high:.1%}</small></td><td class="words soft">{escape(loss.about)}</td></tr>'
        for loss in losses(run)
    )
    return f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>' if rows else ""
