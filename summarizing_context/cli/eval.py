"""`summarizing-context eval`: what views of a session still hold, measured offline; a model takes part on request only.

`eval run` measures your own transcripts by hindsight, a data set by its questions, or replays recorded answers of a
model. `eval record` asks a model for what is not recorded, `eval ask` has a model question one log of yours.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli import eval_model
from summarizing_context.cli.eval_model import JudgeModel, ModelOptions, ReaderModel, ReaderName
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
    read_tokens,
)
from summarizing_context.cli.output import (
    InputError,
    Status,
    examples,
    help_text,
    notices,
    plain,
    progress_bar,
    screen,
    show_result,
    table,
    tell_skipped_lines,
    write_json,
)

if TYPE_CHECKING:
    from summarizing_context.evaluation.outcomes import GateOutcome
    from summarizing_context.evaluation.real.recording import Recording
    from summarizing_context.evaluation.real.scores import ArmScore, RealOutcome
    from summarizing_context.evaluation.retention import Log, SessionOutcome
    from summarizing_context.evaluation.suites import LoadedSuite

_EXAMPLES = examples(
    "eval run --cases logs/ --budget 16k    # your own transcripts, no labels needed",
    "eval run --cases logs/ --config mine.toml --prompts mine/ --cassette mine.jsonl",
    "eval run --dataset locomo locomo10.json",
    "eval run real    # recorded answers of a model, in a checkout",
    "eval run eval-ask    # what `eval ask` recorded, again without a key",
    more={
        "Exit status": ("0 done · 1 a bound is missed · 2 bad input, or a reply that is not recorded · 4 environment")
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
Suite = Annotated[
    str | None,
    typer.Argument(
        metavar="[SUITE]",
        help="A suite of recorded answers, such as `real` of a checkout, or a folder of `eval ask`.",
    ),
]
Dataset = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="NAME PATH", parser=read_place, help="A data set: locomo or longmemeval, and its file."),
]
Arms = Annotated[str | None, typer.Option(metavar="A[,B]", help="Arms of a suite to show.")]
Out = Annotated[Path, typer.Option(metavar="FOLDER", parser=read_path, help="Folder of the reports.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    from summarizing_context.cli import eval_ask  # it shows its results as `eval run` does

    family = typer.Typer(help="Measure what views still hold, without a model unless asked.", no_args_is_help=True)
    family.command("run", help=help_text(run), epilog=_EXAMPLES)(run)
    family.command("record", help=help_text(record), epilog=_RECORDING)(record)
    eval_ask.register(family)
    family.command("compare", help=help_text(compare))(compare)
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
    jobs: Jobs = None,
    cassette: CassettePath = None,
    redact: Redact = None,
    config: ConfigPath = None,
    prompts: PromptsPath = None,
    summarizer: SummarizerName = None,
    model: SummarizerModel = None,
    json_path: JsonPath = None,
) -> int:
    """Measure transcripts by hindsight, beside views without summaries at equal tokens; or replay recorded answers.

    Hindsight needs no labels: exact values that were seen before a cut and that later tool calls really used. The
    reports are the same on every run and every machine. What a model says comes from recorded replies.
    """
    own = OwnSettings(config, prompts, summarizer, model)
    request = RunRequest(suite, cases, dataset, budget, arms, out, format, jobs, json_path, own)
    return _execute(request, ModelOptions(cassette=cassette, redact=redact))


def record(
    suite: Suite = None,
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
    """Ask a model for what is not recorded yet, so that `eval run` replays it without a network or a key.

    What is recorded already is not sent again, so a recording that was stopped, by you or by a cap, goes on when it is
    called again. Several recorders may share a file.
    """
    own = OwnSettings(config, prompts, summarizer, model)
    request = RunRequest(suite, cases, dataset, budget, arms, out, format, None, json_path, own)
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


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What the command line says of a run."""

    suite: str | None
    cases: Sequence[Path] | None
    dataset: tuple[str, str] | None
    budget: str
    arms: str | None
    out: Path
    format: str = "auto"  # of the transcripts
    jobs: int | None = None
    json_path: str | None = None
    own: OwnSettings = field(default_factory=OwnSettings)


def _execute(request: RunRequest, options: ModelOptions) -> int:
    """Run what is named, by its kind; the exit status."""
    named = [name for name in ("suite", "cases", "dataset") if getattr(request, name)]
    if len(named) != 1:
        given = " and ".join(f"--{name}" if name != "suite" else "a suite" for name in named) or "nothing"
        raise InputError(f"{given} is named; give one of a suite (such as real), --cases LOGS, or --dataset NAME PATH")
    if request.suite is None:
        if options.names_model:
            raise InputError("--reader, --reader-model and --judge-model are for suites; `eval ask` asks about a log")
        return run_logs_request(request, options)
    if any(request.own):
        raise InputError("--config, --prompts, --summarizer and --model are for --cases and --dataset")
    from summarizing_context.evaluation.suites import load_suite, recorded_folder

    is_folder = recorded_folder(Path(request.suite)) is not None
    if is_folder and (options.mode != "replay" or options.names_model):
        raise InputError("a folder of recorded answers is only shown again; `eval ask` records into it")
    return run_recorded(request, options, load_suite(request.suite, Path.cwd()))


def run_logs_request(request: RunRequest, options: ModelOptions) -> int:
    """Measure transcripts or a data set, write the reports and show them; the exit status."""
    from summarizing_context.evaluation.outcomes import changed_settings
    from summarizing_context.evaluation.report import run_document, write_run
    from summarizing_context.evaluation.retention import run_logs
    from summarizing_context.settings.values import Settings

    settings = request.own.load(options.base_url) if any(request.own) else Settings()
    settings = replace(settings, max_tokens=read_tokens(request.budget))
    file = eval_model.cassette_file_of(options, None, settings)
    logs = _logs(request)
    started = time.perf_counter()
    outcomes: list[SessionOutcome] = []
    jobs = request.jobs or os.cpu_count() or 1
    if not notices().is_terminal:
        notices().print(f"Measuring {len(logs)} sessions.")
    with eval_model.opened(options, file) as cassette, progress_bar("sessions", remaining=True) as bar:
        shown = bar.add_task("eval", total=len(logs), words="")
        for outcome in run_logs(logs, settings, jobs=jobs, cassette=cassette, cassette_file=file):
            outcomes.append(outcome)
            bar.update(shown, advance=1, words=f"{sum(len(one.probes) for one in outcomes):,} values")
    if cassette is not None and cassette.mode == "forecast":
        eval_model.show_forecast(cassette, settings, request.json_path)
        return Status.OK
    name = request.dataset[0] if request.dataset else "your sessions"
    told = {key: str(value) if isinstance(value, Path) else value for key, value in changed_settings(settings).items()}
    page = write_run(name, outcomes, told, request.out)
    if request.json_path is not None:
        write_json(request.json_path, run_document(name, outcomes, told))
    if request.json_path != "-":
        _show_run(name, outcomes, page, time.perf_counter() - started)
        if cassette is not None:
            screen().print(f"Recorded: {eval_model.spent_words(cassette, settings)}.", soft_wrap=True)
    return Status.OK


def _logs(request: RunRequest) -> list[Log]:
    """The sessions that are named."""
    from summarizing_context.evaluation.datasets import dataset_numbers
    from summarizing_context.evaluation.retention import Log, logs_of

    if request.dataset:
        name, path = request.dataset
        found = dataset_numbers(name, Path(path))
        return [Log(file, dataset=name, number=number, name=f"{file.stem}-{number}") for file, number in found]
    logs, skipped = logs_of(request.cases or (), request.format)
    tell_skipped_lines(skipped)
    return logs


def _show_run(name: str, outcomes: Sequence[SessionOutcome], page: Path, seconds: float) -> None:
    from summarizing_context.evaluation.report import bounds, percent
    from summarizing_context.evaluation.retention import scores_of

    shown = table(
        f"Values needed later that views hold: {plain(name)}", "view", "#held", "#interval", "#ours ahead", "#interval"
    )
    for score in scores_of(outcomes):
        lead = f"{100 * score.ours_ahead.mean:+.1f}" if score.ours_ahead is not None else ""
        cells = (percent(score.retention), bounds(score.retention), lead, bounds(score.ours_ahead, points=True))
        shown.add_row(score.arm, *cells)
    screen().print(shown)
    probes = sum(len(one.probes) for one in outcomes)
    if not probes:
        screen().print("Nothing was measured: no view leaves out what is needed later; try a smaller --budget.")
    held, missing = (sum(one.recalled[at] for one in outcomes) for at in (0, 1))
    if missing:
        screen().print(f"One recall page holds {held:,} of {missing:,} values that a view lacked at their use.")
    screen().print(f"{probes:,} values in {seconds:.0f} s. The whole report: {page}", soft_wrap=True)


def compare(
    first: Annotated[Path, typer.Argument(metavar="FIRST", parser=read_path, help="Folder or report.json of a run.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", parser=read_path, help="Another run of the same logs.")],
    *,
    json_path: JsonPath = None,
) -> int:
    """Compare two runs on the same logs, session by session. Exit status 1 if the second is surely worse."""
    import msgspec

    from summarizing_context.evaluation.outcomes import difference, ratios
    from summarizing_context.evaluation.retention import OURS, SessionOutcome

    values = []
    for path in (first, second):
        file = path / "report.json" if path.is_dir() else path
        try:
            document = msgspec.json.decode(file.read_bytes())
            sessions = msgspec.convert(document["sessions"], list[SessionOutcome])
        except (OSError, msgspec.MsgspecError, KeyError, TypeError) as error:
            raise InputError(f"{file}: is not the report of a run on logs ({type(error).__name__})") from error
        values.append(ratios((one.name, one.share(OURS)) for one in sessions))
    change = difference(values[1], values[0])
    if change is None:
        raise InputError("the runs share no session in which something was needed later")
    words = f"{100 * change.mean:+.1f} points, interval {100 * change.low:+.1f} to {100 * change.high:+.1f}"
    verdict = "better" if change.low > 0 else "worse" if change.high < 0 else "not surely different"
    document = {"change": change._asdict(), "verdict": verdict}
    show_result(json_path, document, f"The second run is {verdict}: {words}, {change.sessions} sessions.")
    return Status.LAW_BROKEN if verdict == "worse" else Status.OK


def run_recorded(request: RunRequest, options: ModelOptions, loaded: LoadedSuite) -> int:
    """Replay the recording of a suite, once what is missing was recorded if that is asked for; the exit status."""
    from summarizing_context.evaluation.real.arms import ARMS, OPTIONAL, USUAL
    from summarizing_context.evaluation.real.recording import Recording
    from summarizing_context.evaluation.real.report import document_of, write_reports
    from summarizing_context.evaluation.real.scores import check_bounds, replay

    recording = Recording.open(loaded.root / loaded.suite.recording)
    read = {arm for _, arm in recording.answers}
    usual = (*USUAL, *(arm for arm in OPTIONAL if arm in read))
    if not loaded.suite.bounds and read and options.mode == "replay":
        usual = tuple(arm for arm in ARMS if arm in read)
    arms = chosen_arms(request.arms, ARMS) or usual
    if options.mode != "replay" and not _record(request, options, loaded, recording, arms):
        return Status.OK
    if not notices().is_terminal:
        notices().print(f"Rebuilding the views of {len(recording.cases)} cases for {len(arms)} arms.")
    with progress_bar("cases", remaining=True) as bar:
        shown = bar.add_task("real", total=len(recording.cases), words="")
        outcome = replay(
            recording,
            arms,
            jobs=request.jobs or os.cpu_count() or 1,
            watch=lambda name: bar.update(shown, advance=1, words=plain(name, 40)),
        )
    gates = check_bounds(outcome.arms, [bound for bound in loaded.suite.bounds if bound.arm in arms])
    page = write_reports(outcome, loaded.suite.claim, gates, request.out)
    if request.json_path is not None:
        write_json(request.json_path, document_of(outcome, gates))
    if request.json_path != "-":
        console = screen()
        console.print(scores_table(outcome.arms))
        console.print(categories_table(outcome.arms))
        if gates:
            console.print(gates_table(gates))
        for line in reading_remarks(outcome):
            console.print(line, soft_wrap=True)
        console.print(f"All answers side by side: {page}", soft_wrap=True)
    return Status.LAW_BROKEN if any(gate.failed for gate in gates) else Status.OK


def _record(
    request: RunRequest, options: ModelOptions, loaded: LoadedSuite, recording: Recording, arms: Sequence[str]
) -> bool:
    """Send what is missing to models; False for a forecast, which is shown."""
    import anyio

    from summarizing_context.evaluation.models import CassetteFile
    from summarizing_context.evaluation.real.recorder import open_recorder

    plan = eval_model.model_plan(options)
    file = CassetteFile(options.cassette or loaded.cassette, options.redact)
    with eval_model.opened(options, file) as cassette:
        assert cassette is not None

        async def ask() -> None:
            async with open_recorder(recording, lambda _: cassette, plan) as recorder:
                await recorder.record(arms)

        anyio.run(ask)
        if cassette.mode == "forecast":
            eval_model.show_forecast(cassette, plan.reader.settings(), request.json_path)
            return False
        notices().print(f"Recorded: {eval_model.spent_words(cassette, plan.reader.settings())}.", soft_wrap=True)
    return True


def chosen_arms(given: str | None, known: Iterable[str]) -> tuple[str, ...]:
    """Return the arms that `--arms` names. Raise `InputError`."""
    chosen = tuple(name.strip() for name in (given or "").split(",") if name.strip())
    if strange := [name for name in chosen if name not in known]:
        raise InputError(f"--arms: there is no arm {plain(strange[0], 40)!r}; there are {', '.join(known)}")
    return chosen


def gates_table(gates: Sequence[GateOutcome]) -> Table:
    """Return what became of the bounds of a suite."""
    tones = {"passed": "green", "failed": "bold red", "vacuous": "yellow", "nothing to look at": "bold red"}
    made = table("Bounds", "bound", "result", "figures", wide="figures")
    made.columns[0].no_wrap = made.columns[2].no_wrap = False
    for gate in gates:
        made.add_row(plain(gate.name), Text(gate.result, tones[gate.result]), Text(plain(gate.words), "dim"))
    return made


def scores_table(scores: Sequence[ArmScore]) -> Table:
    """Return arms by right answers; 80 columns are enough."""
    from summarizing_context.evaluation.real.report import ahead, total
    from summarizing_context.evaluation.report import bounds, percent

    made = table("Right answers and half of partly right ones", "arm", "#right", "#interval", "#ahead", "#interval")
    for name in ("wrong", "never said"):
        made.add_column(name, justify="right", no_wrap=True)
    for score in scores:
        lead = bounds(score.score.ahead, points=True)
        cells = [percent(score.score.mean), bounds(score.score.mean), ahead(score.score), lead]
        made.add_row(score.arm, *cells, str(score.wrong), total(score.absent))
    return made


def categories_table(scores: Sequence[ArmScore]) -> Table:
    """Return arms by category of question: points out of questions."""
    from summarizing_context.evaluation.real.recording import CATEGORIES
    from summarizing_context.evaluation.real.report import total

    made = table("Points out of questions, by category", "arm", *(f"#{category}" for category in CATEGORIES))
    for score in scores:
        made.add_row(score.arm, *(total(score.categories[category]) for category in CATEGORIES))
    return made


_LISTED = 12  # views that one line names
_WORDS: dict[Any, str] = {
    "an earlier view": "Answered from an earlier view",
    "not read": "No answers are recorded for",
    "no view": "Not rebuilt, for want of replies",
}


def reading_remarks(outcome: RealOutcome) -> list[str]:
    """Return whether the answers belong to the views as they are now."""
    current = sum(view.reading == "this view" for view in outcome.views)
    lines = [f"For {current:,} of {len(outcome.views):,} views the answers belong to exactly this view."]
    for reading, words in _WORDS.items():
        found = [f"{view.case} {view.arm}" for view in outcome.views if view.reading == reading]
        if found:
            more = f" and {len(found) - _LISTED} more, in report.json" if len(found) > _LISTED else ""
            lines.append(f"{words} ({len(found)}): {plain(', '.join(found[:_LISTED]))}{more}.")
    if outcome.missing:
        lines.append(f"{outcome.missing:,} requests have no recorded reply; `eval record` sends them to a model.")
    return lines
