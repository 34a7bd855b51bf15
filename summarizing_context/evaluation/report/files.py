"""The report files of a run: JSON, HTML and Markdown. Timings have a file of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.outcomes import FORMAT, RunOutcome
from summarizing_context.evaluation.report.page import page, written
from summarizing_context.evaluation.report.summary import Row, columns_of, headline, table_of, unequal_views
from summarizing_context.evaluation.scoring.figures import FIGURES
from summarizing_context.stores.private_files import make_private_folder, write_private


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
    if run.gates:
        yield from ("", "## Gates", "", "| gate | result | figures |", "|---|---|---|")
        yield from (f"| {_plain(gate.name)} | {gate.result} | {_plain(gate.words)} |" for gate in run.gates)
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


JSON, HTML, MARKDOWN, TIMINGS = "report.json", "report.html", "report.md", "timings.json"


def write_reports(run: RunOutcome, folder: Path, *, timings: dict[str, Any] | None = None) -> None:
    """All reports of a run. Equal runs write equal bytes, timings apart."""
    make_private_folder(folder)
    document = {"table": table_document(run), **msgspec.to_builtins(run)}
    write_private(folder / JSON, _encoded(document) + b"\n")
    write_private(folder / HTML, page(run))
    write_private(folder / MARKDOWN, markdown(run))
    if timings is not None:
        write_private(folder / TIMINGS, msgspec.json.format(msgspec.json.encode(timings), indent=1) + b"\n")


def _encoded(document: dict[str, Any]) -> bytes:
    """JSON; halves of characters, which transcripts may hold, become question marks as they do in the other reports."""
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


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
