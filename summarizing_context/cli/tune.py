"""`summarizing-context tune`: variants of figures or prompts, tried on one half of the sessions, judged on the other.

What it prints is `tune_tables`; what it does is `evaluation.tuning`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from summarizing_context.cli.output import (
    InputError,
    JsonPath,
    Status,
    help_text,
    notices,
    progress_bar,
    read_tokens,
    refuse_suite,
    write_json,
)
from summarizing_context.cli.tune_inputs import Speaker, read_variant

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.tuning.optimizers import Optimizer
    from summarizing_context.evaluation.tuning.outcome import TuneOutcome
    from summarizing_context.evaluation.tuning.tuner import TuneTask
    from summarizing_context.evaluation.tuning.variants import Variant

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context tune    [dim]# in a checkout: from naive figures, judged on held-out sessions[/dim]

summarizing-context tune --cases logs/ --budget 16k --write mine/    [dim]# figures for your own transcripts[/dim]

summarizing-context tune --cases logs/ --try a.toml --try b.toml    [dim]# which of these is better?[/dim]

summarizing-context tune --cases logs/ --model gpt-5.4-mini --record --cassette t.jsonl --try my/segment/v3.md

summarizing-context tune --cases logs/ --model gpt-5.4-mini --record --cassette t.jsonl --gepa --write my/

[bold]Exit status[/bold]

0 done · 1 a suite's claim about tuning failed · 2 bad input · 4 environment
"""


_SUITE = "tuning_start"
_Suite = Annotated[
    str | None,
    typer.Argument(metavar="[SUITE]", help=f"A suite of the checkout, without --cases; `{_SUITE}` if none is named."),
]
_Cases = Annotated[
    list[Path] | None, typer.Option(metavar="PATH", help="Transcripts of yours instead: files or folders.")
]
_Budget = Annotated[str, typer.Option(metavar="N", help="Of your transcripts: tokens of a request.")]
_Start = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Figures to begin with; the suite's, else the shipped ones.")
]
_Tries = Annotated[
    list[Path] | None,
    typer.Option("--try", metavar="PATH", help="A grid: each a file of figures, a prompt file or a folder of prompts."),
]
_Evaluations = Annotated[int, typer.Option(metavar="N", min=1, help="Variants to try at most.")]
_Seconds = Annotated[
    float | None, typer.Option(metavar="S", min=0, help="Stop after so long; the same command goes on later.")
]
_Seed = Annotated[int, typer.Option(metavar="N", help="Another split of the sessions, another order.")]
_Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Where reports and evaluations go.")]
_Write = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write the winner there, as a new file.")]
_Model = Annotated[str | None, typer.Option(metavar="M", help="A model summarizes: for tuning prompts.")]
_Provider = Annotated[str, typer.Option(metavar="NAME", help="Whose model: openai or anthropic.")]
_Tape = Annotated[Path | None, typer.Option("--cassette", metavar="FILE", help="Where the model's replies are kept.")]
_Record = Annotated[bool, typer.Option("--record", help="Ask the model for what is not kept yet.")]
_Url = Annotated[str | None, typer.Option(metavar="URL", help="Record from another server.")]
_MaxCalls = Annotated[int | None, typer.Option(metavar="N", min=0, help="Stop recording after so many calls.")]
_Gepa = Annotated[bool, typer.Option("--gepa", help="Let the model write better prompts (the extra gepa).")]
_Jobs = Annotated[int | None, typer.Option(metavar="N", min=1, help="Sessions at a time; one for each core.")]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("tune", help=help_text(tune), epilog=_EXAMPLES)(tune)


def tune(
    suite: _Suite = None,
    cases: _Cases = None,
    *,
    budget: _Budget = "8k",
    start: _Start = None,
    tries: _Tries = None,
    evaluations: _Evaluations = 120,
    seconds: _Seconds = None,
    seed: _Seed = 0,
    out: _Out = Path("tune-report"),
    write: _Write = None,
    model: _Model = None,
    provider: _Provider = "openai",
    cassette: _Tape = None,
    record: _Record = False,
    base_url: _Url = None,
    max_calls: _MaxCalls = None,
    gepa: _Gepa = False,
    jobs: _Jobs = None,
    json_path: JsonPath = None,
) -> int:
    """Find better figures for the extractive summarizer, or the best of given variants, by what views still hold.

    Half of the sessions are tuned on, the others judge; what is reported was never tuned on. Every variant's views have
    the same number of tokens. An interrupted run goes on where it was; reports are the same on every run.
    """
    from summarizing_context.evaluation.tuning.report import HTML, document, write_reports
    from summarizing_context.evaluation.tuning.tuner import tune as run_tuning
    from summarizing_context.evaluation.tuning.winner import write_winner

    if cases:
        refuse_suite(suite, "--cases")
    speaker = Speaker(model, provider, cassette, base_url, record=record, max_calls=max_calls, gepa=gepa)
    began = time.perf_counter()
    with speaker.opened() as tape:
        task = _task(
            suite, cases, speaker, tape, budget=read_tokens(budget), start=start, tries=tries or (), folder=out,
            seed=seed, evaluations=evaluations, seconds=seconds, jobs=jobs or os.cpu_count() or 1,
        )  # fmt: skip
        run, winner = _run(task, run_tuning)
    write_reports(run, out)
    written = write_winner(run, winner, write) if write is not None else []
    if json_path is not None:
        write_json(json_path, {**document(run), "written": [str(path) for path in written]})
    if json_path != "-":
        from summarizing_context.cli.tune_tables import show

        show(run, written, out / HTML, time.perf_counter() - began)
    return Status.LAW_BROKEN if run.verdict.failed else Status.OK


def _task(
    suite: str | None,
    cases: list[Path] | None,
    speaker: Speaker,
    tape: Cassette | None,
    *,
    budget: int,
    start: Path | None,
    tries: Sequence[Path],
    folder: Path,
    seed: int,
    evaluations: int,
    seconds: float | None,
    jobs: int,
) -> TuneTask:
    from summarizing_context.evaluation.cases.sources import check_readable, folder_sources
    from summarizing_context.evaluation.suites import Suite, load_suite
    from summarizing_context.evaluation.tuning.tuner import TuneTask
    from summarizing_context.evaluation.tuning.variants import Variant
    from summarizing_context.settings import Settings
    from summarizing_context.summarizers.parameter_files import load_parameters, read_parameters

    suite = suite or _SUITE
    if cases:
        told, settings, sources = (
            Suite(name="your sessions", claim=_YOURS),
            Settings(),
            folder_sources(cases, budget=budget),
        )
        check_readable(sources)
    else:
        loaded = load_suite(suite, Path.cwd())
        told, settings, sources = loaded.suite, loaded.settings(), loaded.sources()
    given = load_parameters(start) if start is not None else read_parameters(told.start, suite)
    return TuneTask(
        name=told.name,
        claim=told.claim,
        sources=sources,
        settings=speaker.settings(settings),
        start=Variant(name="start", parameters=given),
        optimizer=_optimizer(tries, speaker, tape, seed=seed, evaluations=evaluations),
        folder=folder,
        seed=seed,
        evaluations=evaluations,
        seconds=seconds,
        wanted=0.0 if tries or speaker.model or start is not None else told.recovers,
        jobs=jobs,
        cassette=tape,
    )


_YOURS = "Figures that keep more of what later tool calls in these sessions really used, at equal tokens."


def _optimizer(
    tries: Sequence[Path], speaker: Speaker, tape: Cassette | None, *, seed: int, evaluations: int
) -> Optimizer:
    from summarizing_context.evaluation.tuning.optimizers import CoordinateSearch, Grid

    if speaker.gepa:
        if tries:
            raise InputError("--gepa and --try: take one of them")
        return speaker.gepa_prompts(tape, seed=seed, proposals=evaluations)
    if tries:
        return Grid([read_variant(path, has_model=tape is not None) for path in tries])
    if tape is not None:
        raise InputError("--model: say what to try, prompts with --try, or --gepa to have them written")
    return CoordinateSearch(seed)


def _run(
    task: TuneTask, run_tuning: Callable[[TuneTask, Callable[[int, Variant, float], None]], tuple[TuneOutcome, Variant]]
) -> tuple[TuneOutcome, Variant]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    if not notices().is_terminal:
        notices().print(f"Tuning on {len(task.sources)} sessions, {task.evaluations} variants at most.")
    columns = (TextColumn("variants"), BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.fields[best]}"))
    with progress_bar(*columns) as bar:
        shown = bar.add_task("tune", total=task.evaluations, best="")
        best = 0.0

        def watch(number: int, variant: Variant, worth: float) -> None:
            nonlocal best
            best = max(best, worth)
            bar.update(shown, completed=number, best=f"best {best:.4f}")

        return run_tuning(task, watch)
