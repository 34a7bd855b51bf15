"""The Markdown of a run: the table with intervals, the gates, the defects; for reviews and commit messages. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from summarizing_context.evaluation.outcomes import RunOutcome
from summarizing_context.evaluation.report.losses import losses
from summarizing_context.evaluation.report.page import written
from summarizing_context.evaluation.report.summary import Row, columns_of, headline, table_of, unequal_views
from summarizing_context.evaluation.scoring.figures import FIGURES


def markdown(run: RunOutcome) -> str:
    """The whole document."""
    return "\n".join(_lines(run)) + "\n"


def _lines(run: RunOutcome) -> Iterator[str]:
    probes = sum(len(session.probes) for session in run.sessions)
    yield f"# Summary evals: {run.suite}"
    yield ""
    yield _plain(run.claim)
    yield ""
    yield f"{len(run.sessions)} sessions, {probes:,} probes, {sum(s.tokens for s in run.sessions):,} tokens of history."
    yield ""
    yield from (f"- {_plain(sentence)}" for sentence in headline(run))
    yield ""
    yield from _table(table_of(run))
    if found := losses(run):
        yield from ("", "## Where answers are lost", "", "| what | share | |", "|---|--:|---|")
        for name, about, share in found:
            yield f"| {name} | {share.mean:.1%} [{share.low:.1%}, {share.high:.1%}] | {about} |"
    if run.gates:
        yield from ("", "## Gates", "", "| gate | result | figures |", "|---|---|---|")
        yield from (f"| {_plain(gate.name)} | {gate.result} | {_plain(gate.words)} |" for gate in run.gates)
    if run.defects:
        yield from ("", "## Seeded defects", "", "| defect | noticed by | caught |", "|---|---|--:|")
        yield from (
            f"| {defect.name} | {defect.figure} | {defect.caught} of {defect.tried} |" for defect in run.defects
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


def _plain(words: str) -> str:
    """Words that mean nothing in Markdown."""
    return words.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
