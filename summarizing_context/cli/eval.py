"""`summarizing-context eval`: how good summaries are, measured without a network, and without a model unless asked.

The commands are here, what they do is in `eval_running` and `eval_model`; what is done with files is in `eval_files`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from summarizing_context.cli import eval_files
from summarizing_context.cli.eval_model import (
    BaseUrl,
    CassettePath,
    DryRun,
    JudgeName,
    MaxCalls,
    MaxInput,
    ModelName,
    ModelOptions,
    Probes,
    ReaderName,
    Redact,
    Refresh,
    Replicates,
)
from summarizing_context.cli.eval_running import Wanted, execute
from summarizing_context.cli.output import JsonPath, help_text

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context eval run    [dim]# the default suite, in a checkout[/dim]

summarizing-context eval run --cases logs/ --budget 16k    [dim]# your own transcripts, no labels needed[/dim]

summarizing-context eval run --dataset locomo locomo10.json

[bold]Exit status[/bold]

0 all gates passed · 1 a gate failed or a seeded defect was missed · 2 bad input, or a reply that is not recorded · 4
environment
"""

_RECORDING = """[bold]Examples[/bold]

summarizing-context eval record answers --dry-run    [dim]# what it would take; nothing is sent[/dim]

summarizing-context eval record answers --max-calls 2000    [dim]# goes on where it stopped when called again[/dim]

summarizing-context eval record --cases logs/ --reader anthropic --model claude-haiku-4-5 --cassette logs.cassette.jsonl

[bold]Keys[/bold]

From the environment: OPENAI_API_KEY, or ANTHROPIC_API_KEY. Read a cassette before you publish it: keys and tokens
are taken out by their shape, others by --redact; what else a transcript says is in it.
"""

_SUITE = "A suite of the checkout, without --cases or --dataset; "

Cases = Annotated[
    list[Path] | None,
    typer.Option(metavar="PATH", help="Transcripts of yours instead: files or folders, with or without sidecars."),
]

Dataset = Annotated[
    tuple[str, Path] | None,
    typer.Option(metavar="NAME PATH", help="A data set of yours instead: locomo or longmemeval, and its file."),
]

Budget = Annotated[str, typer.Option(metavar="N", help="Tokens of a view, such as 8000 or 8k; suites say their own.")]

Arms = Annotated[str | None, typer.Option(metavar="A[,B]", help="Only these arms; hierarchical is always among them.")]

Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Where the reports go.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    family = typer.Typer(help="Measure how good summaries are, without a model unless asked.", no_args_is_help=True)
    family.command("run", help=help_text(run), epilog=_EXAMPLES)(run)
    family.command("record", help=help_text(record), epilog=_RECORDING)(record)
    eval_files.register(family)
    app.add_typer(family, name="eval")


def run(
    suite: Annotated[str | None, typer.Argument(metavar="[SUITE]", help=f"{_SUITE}`default` if none is named.")] = None,
    cases: Cases = None,
    dataset: Dataset = None,
    *,
    budget: Budget = "8k",
    arms: Arms = None,
    out: Out = Path("eval-report"),
    accept: Annotated[bool, typer.Option("--accept", help="Make these scores the suite's baseline.")] = False,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Sessions at a time; as many as there are cores.")
    ] = None,
    reader: ReaderName = None,
    model: ModelName = None,
    judge: JudgeName = None,
    replicates: Replicates = None,
    probes: Probes = None,
    cassette: CassettePath = None,
    recording: Annotated[
        bool, typer.Option("--record", help="Ask the model for what is not recorded; the same as `eval record`.")
    ] = False,
    base_url: BaseUrl = None,
    redact: Redact = None,
    json_path: JsonPath = None,
) -> int:
    """Run a suite, or your own transcripts, through every strategy and baseline at equal view tokens.

    Without labels it asks what hindsight finds: exact values that were seen before a cut and that later tool calls
    really used. The reports (HTML, Markdown, JSON) are the same on every run and every machine. With a reader, a
    model's answers come from recorded replies.
    """
    wanted = Wanted(
        suite=suite,
        cases=cases,
        dataset=dataset,
        budget=budget,
        arms=arms,
        out=out,
        jobs=jobs,
        accept=accept,
        json_path=json_path,
    )
    options = ModelOptions(
        reader=reader,
        model=model,
        judge=judge,
        replicates=replicates,
        probes=probes,
        cassette=cassette,
        base_url=base_url,
        redact=redact,
        record=recording,
    )
    return execute(wanted, options)


def record(
    suite: Annotated[str | None, typer.Argument(metavar="[SUITE]", help=f"{_SUITE}`answers` if none is named.")] = None,
    cases: Cases = None,
    dataset: Dataset = None,
    *,
    reader: ReaderName = None,
    model: ModelName = None,
    judge: JudgeName = None,
    replicates: Replicates = None,
    probes: Probes = None,
    cassette: CassettePath = None,
    base_url: BaseUrl = None,
    redact: Redact = None,
    refresh: Refresh = False,
    dry_run: DryRun = False,
    max_calls: MaxCalls = None,
    max_input_tokens: MaxInput = None,
    budget: Budget = "8k",
    arms: Arms = None,
    out: Out = Path("eval-report"),
    json_path: JsonPath = None,
) -> int:
    """Run evals with a model and record its replies, so that `eval run` replays them without a network or a key.

    What is recorded already is not sent again, so a recording that was stopped, by you or by a cap, goes on when it is
    called again. Several recorders may share a file.
    """
    wanted = Wanted(
        suite=suite,
        usual="answers",
        cases=cases,
        dataset=dataset,
        budget=budget,
        arms=arms,
        out=out,
        json_path=json_path,
    )
    options = ModelOptions(
        reader=reader,
        model=model,
        judge=judge,
        replicates=replicates,
        probes=probes,
        cassette=cassette,
        base_url=base_url,
        redact=redact,
        record=True,
        refresh=refresh,
        dry_run=dry_run,
        max_calls=max_calls,
        max_input_tokens=max_input_tokens,
    )
    return execute(wanted, options)
