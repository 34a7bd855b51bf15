"""`eval report`, `eval compare` and `eval lint`: what is done with files of runs and of cases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from summarizing_context.cli.output import JsonPath, Status, help_text, plain, screen, write_json

if TYPE_CHECKING:
    from summarizing_context.evaluation.cases.lint import Complaint
    from summarizing_context.evaluation.intervals import Interval
    from summarizing_context.evaluation.outcomes import RunOutcome


def register(family: typer.Typer) -> None:
    """Add the commands to the family."""
    family.command("report", help=help_text(report))(report)
    family.command("compare", help=help_text(compare))(compare)
    family.command("lint", help=help_text(lint))(lint)


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder or report.json of a run.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where the reports go; beside it if not given.")
    ] = None,
) -> int:
    """Write the reports of a run anew from its JSON."""
    from summarizing_context.evaluation.report.writing import HTML, read_run, write_reports

    folder = out or (run if run.is_dir() else run.parent)
    write_reports(read_run(run), folder)
    screen().print(f"Written: {folder / HTML}")
    return Status.OK


def compare(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="The folder or report.json of a run.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Another run of the same cases.")],
    *,
    arm: Annotated[str, typer.Option(metavar="NAME", help="The arm to compare; `all` for every one.")] = "hierarchical",
    json_path: JsonPath = None,
) -> int:
    """Compare two runs session by session. Exit status 1 if the second is worse outside of an interval."""
    from summarizing_context.cli.eval_running import compared_table
    from summarizing_context.evaluation.report.writing import read_run

    rows = _differences(read_run(first), read_run(second), arm)
    if json_path is not None:
        write_json(json_path, [{"arm": a, "figure": f, **c._asdict(), "better": b} for a, f, c, b in rows])
    if json_path != "-":
        screen().print(compared_table(rows) if rows else "The runs share no session with this arm.")
    return Status.LAW_BROKEN if any(better is False for *_, better in rows) else Status.OK


def lint(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Transcripts with sidecars, or folders of them.")],
    *,
    seal: Annotated[bool, typer.Option("--seal", help="Write the right hash into each sidecar that is sound.")] = False,
    json_path: JsonPath = None,
) -> int:
    """Prove that cases ask fairly: each answer stands in its evidence, and not in what every view shows anyway."""
    from summarizing_context.evaluation.cases.files import SIDECAR, sidecar_path
    from summarizing_context.evaluation.cases.files import seal as seal_case
    from summarizing_context.evaluation.transcripts import find_transcripts

    files = [path for path in find_transcripts(paths) if sidecar_path(path).exists()]
    complaints: list[Complaint] = []
    for file in files:
        found = _complaints(file, seal=seal)
        complaints += found
        if seal and not found:
            seal_case(file)
    if json_path is not None:
        write_json(json_path, {"cases": len(files), "complaints": [complaint._asdict() for complaint in complaints]})
    if json_path != "-":
        console = screen()
        for complaint in complaints:
            console.print(plain(str(complaint)), soft_wrap=True)
        hint = "" if files else f"; a case is a transcript with a {SIDECAR} beside it"
        console.print(f"{len(files)} cases, {len(complaints)} complaints{hint}")
    return Status.LAW_BROKEN if complaints else Status.OK


def _complaints(file: Path, *, seal: bool) -> list[Complaint]:
    from summarizing_context.evaluation.cases.files import read_case, read_unsealed
    from summarizing_context.evaluation.cases.lint import lint_case

    return lint_case(read_unsealed(file) if seal else read_case(file, budget=1))


def _differences(first: RunOutcome, second: RunOutcome, arm: str) -> list[tuple[str, str, Interval, bool | None]]:
    from summarizing_context.evaluation.intervals import difference, session_values
    from summarizing_context.evaluation.scoring.figures import FIGURES

    rows: list[tuple[str, str, Interval, bool | None]] = []
    for name in second.arms if arm == "all" else [arm]:
        for figure, told in FIGURES.items():
            change = difference(
                session_values(second.sessions, name, figure), session_values(first.sessions, name, figure)
            )
            if change is not None:
                sure = bool(told.better) and change.excludes_zero()
                rows.append((name, figure, change, change.mean * told.better > 0 if sure else None))
    return rows
