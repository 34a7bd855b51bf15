"""`summarizing-context eval`: the quality of summaries, measured offline; a model takes part only on request.

`eval_run` runs a suite, `eval_model` holds what concerns models.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from summarizing_context.cli import eval_ask
from summarizing_context.cli.eval_model import JudgeModel, ModelOptions, ReaderModel, ReaderName
from summarizing_context.cli.eval_run import RunRequest, comparison_table, recorded_suite, run_literal, run_recorded
from summarizing_context.cli.options import (
    BaseUrl,
    CaseBudget,
    Cases,
    CassettePath,
    ConfigPath,
    DryRun,
    Jobs,
    JsonPath,
    MaxCalls,
    MaxInput,
    OwnSettings,
    PromptsPath,
    Redact,
    SummarizerModel,
    SummarizerName,
    TranscriptFormat,
    read_path,
    read_place,
)
from summarizing_context.cli.output import InputError, Status, examples, help_text, plain, screen, show_result
from summarizing_context.cli.stored import suite_names

if TYPE_CHECKING:
    from summarizing_context.evaluation.cases.verdicts import Complaint
    from summarizing_context.evaluation.outcomes import Interval, RunOutcome

_EXAMPLES = examples(
    "eval run    # the default suite, in a checkout",
    "eval run --cases logs/ --budget 16k    # your own transcripts, no labels needed",
    "eval run --cases logs/ --config mine.toml --prompts mine/ --cassette mine.jsonl",
    "eval run --dataset locomo locomo10.json",
    "eval run eval-ask    # what `eval ask` recorded, again without a key",
    more={
        "Exit status": (
            "0 all gates passed · 1 a gate failed · 2 bad input, or a reply that is not recorded · 4\nenvironment"
        ),
    },
)
_RECORDING = examples(
    "eval record --cases logs/ --model gpt-5.4-mini --cassette c.jsonl --dry-run    # price",
    "eval record --cases logs/ --model gpt-5.4-mini --cassette c.jsonl --max-calls 2000",
    "eval record real --reader-model gpt-5.4-mini --judge-model gpt-5.4    # in a checkout",
    more={
        "Keys": (
            "From the environment: OPENAI_API_KEY, or ANTHROPIC_API_KEY. Read a cassette before you publish it: keys "
            "and tokens\nare taken out by their shape, others by --redact; what else a transcript says is in it."
        ),
    },
)
_SUITE = "Suite of the checkout, without --cases or --dataset. "
Suite = Annotated[
    str | None,
    typer.Argument(
        metavar="[SUITE]",
        help=f"{_SUITE}Default: `default`. Or a folder of `eval ask`.",
        autocompletion=suite_names,
    ),
]
RecordedSuite = Annotated[
    str | None,
    typer.Argument(
        metavar="[SUITE]",
        help=f"{_SUITE}One with recorded answers, such as `real`.",
        autocompletion=suite_names,
    ),
]
Dataset = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="NAME PATH", parser=read_place, help="Use a data set instead: locomo or longmemeval, and its file."
    ),
]
Arms = Annotated[str | None, typer.Option(metavar="A[,B]", help="Arms to run; hierarchical is always included.")]
Out = Annotated[Path, typer.Option(metavar="FOLDER", parser=read_path, help="Folder of the reports.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    family = typer.Typer(help="Measure how good summaries are, without a model unless asked.", no_args_is_help=True)
    family.command("run", help=help_text(run), epilog=_EXAMPLES)(run)
    family.command("record", help=help_text(record), epilog=_RECORDING)(record)
    eval_ask.register(family)
    for command in (report, compare, lint):
        family.command(command.__name__, help=help_text(command))(command)
    app.add_typer(family, name="eval")


def run(
    suite: Suite = None,
    cases: Cases = None,
    dataset: Dataset = None,
    *,
    format: TranscriptFormat = "auto",
    budget: CaseBudget = "8k",
    arms: Arms = None,
    out: Out = Path("eval-report"),
    accept: Annotated[bool, typer.Option("--accept", help="Accept these scores as the baseline of the suite.")] = False,
    jobs: Jobs = None,
    cassette: CassettePath = None,
    redact: Redact = None,
    config: ConfigPath = None,
    prompts: PromptsPath = None,
    summarizer: SummarizerName = None,
    model: SummarizerModel = None,
    json_path: JsonPath = None,
) -> int:
    """Run a suite, or your own transcripts, through every strategy and baseline at equal view tokens.

    Without labels it asks what hindsight finds: exact values that were seen before a cut and that later tool calls
    really used. The reports (HTML, Markdown, JSON) are the same on every run and every machine. What a model says comes
    from recorded replies.
    """
    request = RunRequest(
        suite=suite,
        cases=cases,
        dataset=dataset,
        format=format,
        budget=budget,
        arms=arms,
        out=out,
        jobs=jobs,
        accept=accept,
        json_path=json_path,
        own=OwnSettings(config, prompts, summarizer, model),
    )
    return _execute(request, ModelOptions(cassette=cassette, redact=redact))


def record(
    suite: RecordedSuite = None,
    cases: Cases = None,
    dataset: Dataset = None,
    *,
    format: TranscriptFormat = "auto",
    reader: ReaderName = None,
    reader_model: ReaderModel = None,
    judge_model: JudgeModel = None,
    cassette: CassettePath = None,
    base_url: BaseUrl = None,
    redact: Redact = None,
    dry_run: DryRun = False,
    max_calls: MaxCalls = None,
    max_input_tokens: MaxInput = None,
    budget: CaseBudget = "8k",
    arms: Arms = None,
    out: Out = Path("eval-report"),
    config: ConfigPath = None,
    prompts: PromptsPath = None,
    summarizer: SummarizerName = None,
    model: SummarizerModel = None,
    json_path: JsonPath = None,
) -> int:
    """Run evals with a model and record its replies, so that `eval run` replays them without a network or a key.

    What is recorded already is not sent again, so a recording that was stopped, by you or by a cap, goes on when it is
    called again. Several recorders may share a file.
    """
    request = RunRequest(
        suite=suite,
        cases=cases,
        dataset=dataset,
        format=format,
        budget=budget,
        arms=arms,
        out=out,
        json_path=json_path,
        own=OwnSettings(config, prompts, summarizer, model),
    )
    options = ModelOptions(
        reader=reader,
        reader_model=reader_model,
        judge_model=judge_model,
        cassette=cassette,
        base_url=base_url,
        redact=redact,
        record=True,
        dry_run=dry_run,
        max_calls=max_calls,
        max_input_tokens=max_input_tokens,
    )
    return _execute(request, options)


def _execute(request: RunRequest, options: ModelOptions) -> int:
    """Run what is named, by its kind; the exit status."""
    if any(request.own) and not (request.cases or request.dataset):
        raise InputError(
            "--config, --prompts, --summarizer and --model are for --cases and --dataset, as a suite has its own"
        )
    recorded = recorded_suite(request, options)
    if options.names_model and recorded is None:
        raise InputError(
            "--reader, --reader-model and --judge-model are for a suite with recorded answers; `eval ask` asks about a "
            "log of yours"
        )
    return run_literal(request, options) if recorded is None else run_recorded(request, options, recorded)


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", parser=read_path, help="The folder or report.json of a run.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", parser=read_path, help="Folder of the reports. Default: beside the run."),
    ] = None,
) -> int:
    """Write the reports of a run anew from its JSON."""
    from summarizing_context.evaluation.report import HTML, read_run
    from summarizing_context.evaluation.report_page import write_reports

    folder = out or (run if run.is_dir() else run.parent)
    write_reports(read_run(run), folder)
    screen().print(f"Written: {folder / HTML}")
    return Status.OK


def compare(
    first: Annotated[
        Path, typer.Argument(metavar="FIRST", parser=read_path, help="The folder or report.json of a run.")
    ],
    second: Annotated[Path, typer.Argument(metavar="SECOND", parser=read_path, help="Another run of the same cases.")],
    *,
    arm: Annotated[str, typer.Option(metavar="NAME", help="Arm to compare; `all` for every arm.")] = "hierarchical",
    json_path: JsonPath = None,
) -> int:
    """Compare two runs session by session. Exit status 1 if the second is worse outside of an interval."""
    from summarizing_context.evaluation.report import read_run

    rows = _differences(read_run(first), read_run(second), arm)
    document = [{"arm": a, "figure": f, **c._asdict(), "better": b} for a, f, c, b in rows]
    shown = comparison_table(rows) if rows else "The runs share no session with this arm."
    show_result(json_path, document, shown)
    return Status.LAW_BROKEN if any(better is False for *_, better in rows) else Status.OK


def lint(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", parser=read_path, help="Transcripts with sidecars, or folders of them."),
    ],
    *,
    seal: Annotated[bool, typer.Option("--seal", help="Write the hash into each valid sidecar.")] = False,
    json_path: JsonPath = None,
) -> int:
    """Prove that cases ask fairly: each answer stands in its evidence, and not in what every view shows anyway."""
    from summarizing_context.evaluation.cases.sources import SIDECAR, sidecar_path
    from summarizing_context.evaluation.cases.sources import seal as seal_case
    from summarizing_context.transcripts import find_transcripts

    files = [path for path in find_transcripts(paths) if sidecar_path(path).exists()]
    complaints: list[Complaint] = []
    for file in files:
        found = _complaints(file, seal=seal)
        complaints += found
        if seal and not found:
            seal_case(file)
    hint = "" if files else f"; a case is a transcript with a {SIDECAR} beside it"
    document = {"cases": len(files), "complaints": [complaint._asdict() for complaint in complaints]}
    lines = [*(plain(str(complaint)) for complaint in complaints), f"{len(files)} cases, {len(complaints)} complaints"]
    show_result(json_path, document, *lines[:-1], lines[-1] + hint)
    return Status.LAW_BROKEN if complaints else Status.OK


def _complaints(file: Path, *, seal: bool) -> list[Complaint]:
    from summarizing_context.evaluation.cases.sources import read_case, read_unsealed
    from summarizing_context.evaluation.cases.verdicts import lint_case

    return lint_case(read_unsealed(file) if seal else read_case(file, budget=1))


def _differences(first: RunOutcome, second: RunOutcome, arm: str) -> list[tuple[str, str, Interval, bool | None]]:
    from summarizing_context.evaluation.figures import FIGURES
    from summarizing_context.evaluation.outcomes import difference, session_values

    rows: list[tuple[str, str, Interval, bool | None]] = []
    for name in second.arms if arm == "all" else [arm]:
        for figure, definition in FIGURES.items():
            change = difference(
                session_values(second.sessions, name, figure), session_values(first.sessions, name, figure)
            )
            if change is not None:
                is_certain = bool(definition.better) and change.excludes_zero()
                rows.append((name, figure, change, change.mean * definition.better > 0 if is_certain else None))
    return rows
