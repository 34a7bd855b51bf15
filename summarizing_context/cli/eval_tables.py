"""What the eval commands print: the table of arms, gates, defects, comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from summarizing_context.cli.output import plain, table

if TYPE_CHECKING:
    from summarizing_context.evaluation.intervals import Interval
    from summarizing_context.evaluation.outcomes import RunOutcome

_SHOWN = (
    "used",
    "summary_used",
    "literals",
    "constraint",
    "answered",
    "misled",
    "artifact_recall",
    "ledger_recall",
    "stale",
    "unsupported",
    "tokens",
    "per_1k",
)
_SHORT = {
    "used": "used",
    "summary_used": "in summ.",
    "literals": "literals",
    "constraint": "constr.",
    "answered": "read",
    "misled": "misled",
    "artifact_recall": "artif.",
    "ledger_recall": "ledger",
    "stale": "stale",
    "unsupported": "unsupp.",
    "tokens": "tokens",
    "per_1k": "per 1k",
}
_TONES = {"passed": "green", "failed": "bold red", "vacuous": "yellow", "nothing to look at": "bold red"}


def main_table(run: RunOutcome) -> Table:
    """Arms by figures, the means."""
    from summarizing_context.evaluation.report.page import written
    from summarizing_context.evaluation.report.summary import table_of

    rows = table_of(run)
    columns = [figure for figure in _SHOWN if any(figure in row.cells for row in rows)]
    made = table(f"What views still hold: {plain(run.suite)}", "arm", *(f"#{_SHORT[figure]}" for figure in columns))
    for row in rows:
        cells = [written(row.cells[figure].mean, figure) if figure in row.cells else "–" for figure in columns]
        made.add_row(row.arm, *cells, style="dim" if row.role == "reference" else "")
    return made


def gates_table(run: RunOutcome) -> Table:
    """What became of the gates; figures that are as accepted share one line."""
    from summarizing_context.evaluation.gates import BASELINE

    as_accepted = [gate for gate in run.gates if gate.name.startswith(BASELINE) and not gate.failed]
    made = table("Gates", "gate", "result", "figures", wide="figures")
    made.columns[0].no_wrap = False
    made.columns[2].no_wrap = False
    for gate in run.gates:
        if gate not in as_accepted:
            made.add_row(plain(gate.name), Text(gate.result, _TONES[gate.result]), Text(plain(gate.words), "dim"))
    if as_accepted:
        words = f"{len(as_accepted)} figures are no worse than accepted"
        made.add_row(BASELINE, Text("passed", _TONES["passed"]), Text(words, "dim"))
    return made


def defects_table(run: RunOutcome) -> Table:
    """Whether the scorers notice what they have to."""
    made = table("Seeded defects", "defect", "noticed by", "#caught")
    for defect in run.defects:
        tone = "bold red" if defect.missed else "green"
        made.add_row(defect.name, defect.figure, Text(f"{defect.caught} of {defect.tried}", tone))
    return made


def compared_table(rows: list[tuple[str, str, Interval, bool | None]]) -> Table:
    """Differences between two runs: arm, figure, how much, whether that is better."""
    made = table(
        "Second run against the first, mean difference and 95 % interval", "arm", "figure", "#change", "#interval"
    )
    for arm, figure, change, better in rows:
        tone = "" if better is None else "green" if better else "bold red"
        made.add_row(
            arm, figure, Text(f"{change.mean:+.4f}", tone), Text(f"{change.low:+.4f} … {change.high:+.4f}", "dim")
        )
    return made


def misses(run: RunOutcome) -> Iterator[str]:
    """What a person should know about this run beside its figures."""
    from summarizing_context.evaluation.report.summary import headline, unequal_views

    yield from (plain(sentence) for sentence in headline(run))
    if unequal := unequal_views(run):
        yield f"{len(unequal)} views could not be brought to equal tokens; the report lists them."
    if skipped := sum(len(session.skipped) for session in run.sessions):
        yield f"{skipped} cuts were not scored, because everything before them fits; --budget lower would score them."
