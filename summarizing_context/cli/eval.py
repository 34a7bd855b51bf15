"""`summarizing-context eval`: how good summaries are, measured without a model and without a network.

`run` is here with its progress; what it prints is `eval_tables`, the other commands are in `eval_files`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from summarizing_context.cli import eval_files
from summarizing_context.cli.output import (
    InputError,
    JsonPath,
    Status,
    help_text,
    notices,
    progress_bar,
    read_tokens,
    screen,
    write_json,
)

if TYPE_CHECKING:
    from summarizing_context.evaluation.evals import Task
    from summarizing_context.evaluation.outcomes import RunOutcome, SessionOutcome

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context eval run    [dim]# the default suite, in a checkout[/dim]

summarizing-context eval run --cases logs/ --budget 16k    [dim]# your own transcripts, no labels needed[/dim]

summarizing-context eval run --dataset locomo locomo10.json

summarizing-context eval compare before/ after/

[bold]Exit status[/bold]

0 all gates passed · 1 a gate failed or a seeded defect was missed · 2 bad input · 4 environment
"""


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    family = typer.Typer(help="Measure how good summaries are, without a model.", no_args_is_help=True)
    family.command("run", help=help_text(run), epilog=_EXAMPLES)(run)
    eval_files.register(family)
    app.add_typer(family, name="eval")


def run(
    suite: Annotated[
        str, typer.Argument(metavar="[SUITE]", help="A suite of the checkout, without --cases or --dataset.")
    ] = "default",
    cases: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Transcripts of yours instead: files or folders, with or without sidecars."),
    ] = None,
    dataset: Annotated[
        tuple[str, Path] | None,
        typer.Option(metavar="NAME PATH", help="A data set of yours instead: locomo or longmemeval, and its file."),
    ] = None,
    *,
    budget: Annotated[
        str, typer.Option(metavar="N", help="Tokens of a view, such as 8000 or 8k; suites say their own.")
    ] = "8k",
    arms: Annotated[
        str | None, typer.Option(metavar="A[,B]", help="Only these arms; hierarchical is always among them.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the reports go.")] = Path("eval-report"),
    accept: Annotated[bool, typer.Option("--accept", help="Make these scores the suite's baseline.")] = False,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Sessions at a time; as many as there are cores.")
    ] = None,
    json_path: JsonPath = None,
) -> int:
    """Run a suite, or your own transcripts, through every strategy and baseline at equal view tokens.

    Without labels it asks what hindsight finds: exact values that were seen before a cut and that later tool calls
    really used. The reports (HTML, Markdown, JSON) are the same on every run and every machine.
    """
    from summarizing_context.evaluation.evals import accept as accept_run
    from summarizing_context.evaluation.evals import has_failed
    from summarizing_context.evaluation.report.writing import HTML, table_document, write_reports

    task = _task(suite, cases, dataset, budget=read_tokens(budget), arms=arms, jobs=jobs or os.cpu_count() or 1)
    if accept and task.baseline is None:
        raise InputError("--accept: only a suite has a baseline; leave --cases and --dataset away")
    started = time.perf_counter()
    found = _run(task)
    if accept:
        found = accept_run(found, task)
    seconds = time.perf_counter() - started
    write_reports(found, out, timings={"seconds": round(seconds, 2), "jobs": task.jobs})
    if json_path is not None:
        write_json(json_path, {"suite": found.suite, "table": table_document(found), "failed": has_failed(found)})
    if json_path != "-":
        _show(found, out / HTML, seconds)
    return Status.LAW_BROKEN if has_failed(found) else Status.OK


def _task(
    suite: str,
    cases: Sequence[Path] | None,
    dataset: tuple[str, Path] | None,
    *,
    budget: int,
    arms: str | None,
    jobs: int,
) -> Task:
    from summarizing_context.evaluation.arms.table import REFERENCE
    from summarizing_context.evaluation.cases.sources import dataset_sources, folder_sources
    from summarizing_context.evaluation.evals import Task
    from summarizing_context.evaluation.runner import Plan
    from summarizing_context.evaluation.suites import load_suite

    chosen = _arms(arms)
    if cases and dataset:
        raise InputError("--cases and --dataset: take one of them")
    if cases:
        sources = folder_sources(cases, budget=budget)
        return Task(name="your cases", claim=_YOURS, sources=sources, plan=Plan(arms=chosen), defects=False, jobs=jobs)
    if dataset:
        sources = dataset_sources(dataset[0], dataset[1], budget=budget)
        claim = f"{dataset[0]}: which answers views still hold, word for word, at {budget:,} tokens."
        return Task(name=dataset[0], claim=claim, sources=sources, plan=Plan(arms=chosen), defects=False, jobs=jobs)
    loaded = load_suite(suite, Path.cwd())
    return Task(
        name=loaded.suite.name,
        claim=loaded.suite.claim,
        sources=loaded.sources(),
        plan=Plan(loaded.settings(), chosen),
        gates=[gate for gate in loaded.suite.gates if not chosen or {gate.arm, *gate.beats} <= {REFERENCE, *chosen}],
        baseline=loaded.baseline,
        jobs=jobs,
    )


_YOURS = "What views of these sessions still hold of the exact values that later tool calls really used."


def _arms(given: str | None) -> tuple[str, ...]:
    from summarizing_context.evaluation.arms.table import arms

    known = [arm.name for arm in arms()]
    chosen = tuple(name.strip() for name in (given or "").split(",") if name.strip())
    if strange := [name for name in chosen if name not in known]:
        raise InputError(f"--arms: there is no arm {strange[0]!r}; there are {', '.join(known)}")
    return chosen


def _run(task: Task) -> RunOutcome:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    from summarizing_context.evaluation.evals import run_task

    if not notices().is_terminal:
        notices().print(f"Running {len(task.sources)} sessions through {len(task.plan.chosen())} arms.")
    columns = (TextColumn("sessions"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    with progress_bar(*columns, TextColumn("{task.fields[words]}")) as bar:
        shown = bar.add_task("eval", total=len(task.sources), words="")
        asked = 0

        def watch(session: SessionOutcome) -> None:
            nonlocal asked
            asked += len(session.probes)
            bar.update(shown, advance=1, words=f"{asked:,} probes")

        return run_task(task, watch)


def _show(run: RunOutcome, page: Path, seconds: float) -> None:
    from summarizing_context.cli.eval_tables import defects_table, gates_table, main_table, misses

    console = screen()
    shown: list[Any] = [main_table(run)]
    shown += [gates_table(run)] if run.gates else []
    shown += [defects_table(run)] if run.defects else []
    for made in shown:
        console.print(made)
    for line in misses(run):
        console.print(line, markup=False, highlight=False)
    probes = sum(len(session.probes) for session in run.sessions)
    console.print(f"{probes:,} probes in {seconds:.0f} s. The whole report: {page}", markup=False)
