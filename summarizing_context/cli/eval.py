"""`summarizing-context eval`: what views of a session still hold, measured offline; a model takes part on request only.

`eval run` measures your own transcripts by hindsight, a data set by its questions, or replays recorded answers of a
model. `eval record` asks a model for what is not recorded, `eval ask` has models question one log of yours.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli.options import (
    BaseUrl,
    CaseBudget,
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
    ReportFolder,
    SummarizerModel,
    SummarizerName,
    TranscriptFormat,
    at_named_server,
    read_path,
    read_place,
    read_tokens,
)
from summarizing_context.cli.output import (
    InputError,
    Status,
    dollars,
    examples,
    facts,
    help_text,
    notices,
    number,
    plain,
    progress_bar,
    screen,
    show_result,
    table,
    tell_skipped_lines,
    write_json,
)
from summarizing_context.settings.providers import NAMED, PROVIDERS

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette, Mode
    from summarizing_context.evaluation.models import CassetteFile, Chat, ModelPlan
    from summarizing_context.evaluation.outcomes import GateOutcome
    from summarizing_context.evaluation.real.recording import Recording
    from summarizing_context.evaluation.real.scores import ArmScore, LoadedSuite, RealOutcome
    from summarizing_context.evaluation.retention import Log, SessionOutcome
    from summarizing_context.settings.values import Settings
    from summarizing_context.summarizers.prices import ModelPrice

_RUN_EXAMPLES = examples(
    "eval run --cases logs/ --budget 16k    # your own transcripts, no labels needed",
    "eval run --cases logs/ --config mine.toml --prompts mine/ --cassette mine.jsonl",
    "eval run --dataset locomo locomo10.json",
    "eval run real    # recorded answers of a model, in a checkout",
    "eval run eval-ask    # what `eval ask` recorded, again without a key",
    more={
        "Exit status": ("0 done · 1 a bound is missed · 2 bad input, or a reply that is not recorded · 4 environment")
    },
)
_RECORD_EXAMPLES = examples(
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
_ASK_EXAMPLES = examples(
    "eval ask run.jsonl --model gpt-5.4-mini --judge-model gpt-5.4 --dry-run    # price",
    "eval ask run.jsonl --model gpt-5.4-mini --judge-model gpt-5.4 --budget 16k --questions 30",
    "eval ask run.jsonl --config mine.toml --judge-model claude-haiku-4-5 --judge-provider anthropic",
    more={
        "Keys": (
            "From the environment: OPENAI_API_KEY, or ANTHROPIC_API_KEY. The log is sent to all models, in part or as "
            "a whole; keys\nand tokens are taken out by their shape, others by --redact."
        ),
    },
)
_CALL_TIMEOUT = 300.0  # seconds: one reply of `eval ask` holds all questions

Suite = Annotated[
    str | None,
    typer.Argument(
        metavar="[SUITE]", help="A suite of recorded answers, such as `real` of a checkout, or a folder of `eval ask`."
    ),
]
Cases = Annotated[
    list[Path] | None, typer.Option(metavar="PATH", parser=read_path, help="Your transcripts: files or folders.")
]
Dataset = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="NAME PATH", parser=read_place, help="A data set: locomo or longmemeval, and its file."),
]
Arms = Annotated[str | None, typer.Option(metavar="A[,B]", help="Views to compare, or arms of a suite to show.")]
ReaderName = Annotated[
    str | None, typer.Option(metavar="NAME", help=f"Provider that records the answers of a suite: {NAMED}.")
]
ReaderModel = Annotated[str | None, typer.Option(metavar="M", help="Model that answers from views.")]
JudgeModel = Annotated[
    str | None, typer.Option(metavar="M", help="Model that marks the answers. Default: the reader's model.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    family = typer.Typer(help="Measure what views still hold, without a model unless asked.", no_args_is_help=True)
    family.command("run", help=help_text(run), epilog=_RUN_EXAMPLES)(run)
    family.command("record", help=help_text(record), epilog=_RECORD_EXAMPLES)(record)
    family.command("ask", help=help_text(ask), epilog=_ASK_EXAMPLES)(ask)
    family.command("compare", help=help_text(compare))(compare)
    app.add_typer(family, name="eval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the command line says of a run: the options of `run` and `record`, by their names."""

    suite: str | None = None
    cases: Sequence[Path] | None = None
    dataset: tuple[str, str] | None = None
    format: str = "auto"  # of the transcripts
    budget: str = "8k"
    arms: str | None = None
    out: Path = Path("eval-report")
    jobs: int | None = None
    json_path: str | None = None
    config: Path | None = None
    prompts: Path | None = None
    summarizer: str | None = None
    model: str | None = None
    base_url: str | None = None
    cassette: Path | None = None
    redact: str | None = None
    mode: Mode = "replay"
    max_calls: int | None = None
    max_input_tokens: int | None = None
    reader: str | None = None
    reader_model: str | None = None
    judge_model: str | None = None

    @property
    def own(self) -> OwnSettings:
        """The settings of the user's."""
        return OwnSettings(self.config, self.prompts, self.summarizer, self.model)

    @property
    def names_model(self) -> bool:
        """Whether a model that answers is asked for."""
        return not (self.reader is self.reader_model is self.judge_model is None)


def run(
    suite: Suite = None,
    cases: Cases = None,
    dataset: Dataset = None,
    *,
    format: TranscriptFormat = "auto",
    budget: CaseBudget = "8k",
    arms: Arms = None,
    out: ReportFolder = Path("eval-report"),
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
    return _execute(Run(**locals()))


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
    out: ReportFolder = Path("eval-report"),
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
    given = {name: value for name, value in locals().items() if name != "dry_run"}
    return _execute(Run(**given, mode="forecast" if dry_run else "record"))


def _execute(run: Run) -> int:
    """Run what is named, by its kind; the exit status."""
    named = [name for name in ("suite", "cases", "dataset") if getattr(run, name)]
    if len(named) != 1:
        given = " and ".join(f"--{name}" if name != "suite" else "a suite" for name in named) or "nothing"
        raise InputError(f"{given} is named; give one of a suite (such as real), --cases LOGS, or --dataset NAME PATH")
    if run.suite is None:
        if run.names_model:
            raise InputError("--reader, --reader-model and --judge-model are for suites; `eval ask` asks about a log")
        return _run_logs(run)
    if any(run.own):
        raise InputError("--config, --prompts, --summarizer and --model are for --cases and --dataset")
    from summarizing_context.evaluation.real.scores import load_suite, recorded_folder

    is_folder = recorded_folder(Path(run.suite)) is not None
    if is_folder and (run.mode != "replay" or run.names_model):
        raise InputError("a folder of recorded answers is only shown again; `eval ask` records into it")
    return _run_recorded(run, load_suite(run.suite, Path.cwd()))


def _run_logs(run: Run) -> int:
    """Measure transcripts or a data set, write the reports and show them; the exit status."""
    from summarizing_context.evaluation.outcomes import changed_settings
    from summarizing_context.evaluation.report import run_document, write_run
    from summarizing_context.evaluation.retention import run_logs
    from summarizing_context.settings.values import Settings

    settings = run.own.load(run.base_url) if any(run.own) else Settings()
    settings = replace(settings, max_tokens=read_tokens(run.budget))
    file = cassette_file(settings, run.cassette, run.redact, run.mode)
    logs = _logs(run)
    started = time.perf_counter()
    outcomes: list[SessionOutcome] = []
    jobs = run.jobs or os.cpu_count() or 1
    if not notices().is_terminal:
        notices().print(f"Measuring {len(logs)} sessions.")
    with (
        opened(file, run.mode, run.max_calls, run.max_input_tokens) as cassette,
        progress_bar("sessions", remaining=True) as bar,
    ):
        shown = bar.add_task("eval", total=len(logs), words="")
        for outcome in run_logs(logs, settings, jobs=jobs, cassette=cassette, cassette_file=file):
            outcomes.append(outcome)
            bar.update(shown, advance=1, words=f"{sum(len(one.probes) for one in outcomes):,} values")
    if cassette is not None and cassette.mode == "forecast":
        show_forecast([spent_by(cassette, settings)], settings.prices, run.json_path)
        return Status.OK
    name = run.dataset[0] if run.dataset else "your sessions"
    told = {key: str(value) if isinstance(value, Path) else value for key, value in changed_settings(settings).items()}
    page = write_run(name, outcomes, told, run.out)
    if run.json_path is not None:
        write_json(run.json_path, run_document(name, outcomes, told))
    if run.json_path != "-":
        _show_run(name, outcomes, page, time.perf_counter() - started)
        if cassette is not None:
            screen().print(f"Recorded: {spent_words(cassette, settings)}.", soft_wrap=True)
    return Status.OK


def _logs(run: Run) -> list[Log]:
    """The sessions that are named."""
    from summarizing_context.evaluation.datasets import dataset_numbers
    from summarizing_context.evaluation.retention import Log, logs_of

    if run.dataset:
        name, path = run.dataset
        found = dataset_numbers(name, Path(path))
        return [Log(file, dataset=name, number=number, name=f"{file.stem}-{number}") for file, number in found]
    logs, skipped = logs_of(run.cases or (), run.format)
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


def _run_recorded(run: Run, loaded: LoadedSuite) -> int:
    """Replay the recording of a suite, once what is missing was recorded if that is asked for; the exit status."""
    from summarizing_context.evaluation.real.arms import ARMS, OPTIONAL, USUAL
    from summarizing_context.evaluation.real.recording import Recording
    from summarizing_context.evaluation.real.scores import check_bounds, replay
    from summarizing_context.evaluation.report import document_of, write_reports

    recording = Recording.open(loaded.root / loaded.suite.recording)
    read = {arm for _, arm in recording.answers}
    usual = (*USUAL, *(arm for arm in OPTIONAL if arm in read))
    if not loaded.suite.bounds and read and run.mode == "replay":
        usual = tuple(arm for arm in ARMS if arm in read)
    arms = _chosen_arms(run.arms, ARMS) or usual
    if run.mode != "replay" and not _record(run, loaded, recording, arms):
        return Status.OK
    if not notices().is_terminal:
        notices().print(f"Rebuilding the views of {len(recording.cases)} cases for {len(arms)} arms.")
    with progress_bar("cases", remaining=True) as bar:
        shown = bar.add_task("real", total=len(recording.cases), words="")
        outcome = replay(
            recording,
            arms,
            jobs=run.jobs or os.cpu_count() or 1,
            watch=lambda name: bar.update(shown, advance=1, words=plain(name, 40)),
        )
    gates = check_bounds(outcome.arms, [bound for bound in loaded.suite.bounds if bound.arm in arms])
    page = write_reports(outcome, loaded.suite.claim, gates, run.out)
    if run.json_path is not None:
        write_json(run.json_path, document_of(outcome, gates))
    if run.json_path != "-":
        console = screen()
        console.print(_scores_table(outcome.arms))
        console.print(_categories_table(outcome.arms))
        if gates:
            console.print(_gates_table(gates))
        for line in _reading_remarks(outcome):
            console.print(line, soft_wrap=True)
        console.print(f"All answers side by side: {page}", soft_wrap=True)
    return Status.LAW_BROKEN if any(gate.failed for gate in gates) else Status.OK


def _record(run: Run, loaded: LoadedSuite, recording: Recording, arms: Sequence[str]) -> bool:
    """Send what is missing to models; False for a forecast, which is shown."""
    import anyio

    from summarizing_context.evaluation.models import CassetteFile
    from summarizing_context.evaluation.real.recorder import open_recorder

    plan = _suite_plan(run)
    settings = plan.reader.settings()
    file = CassetteFile(run.cassette or loaded.cassette, run.redact)
    with opened(file, run.mode, run.max_calls, run.max_input_tokens) as cassette:
        assert cassette is not None

        async def ask() -> None:
            async with open_recorder(recording, lambda _: cassette, plan) as recorder:
                await recorder.record(arms)

        anyio.run(ask)
        if cassette.mode == "forecast":
            show_forecast([spent_by(cassette, settings)], settings.prices, run.json_path)
            return False
        notices().print(f"Recorded: {spent_words(cassette, settings)}.", soft_wrap=True)
    return True


def _suite_plan(run: Run) -> ModelPlan:
    """Who records the answers of a suite. Raises `InputError`."""
    from summarizing_context.evaluation.models import Chat, ModelPlan
    from summarizing_context.settings.values import Settings

    provider = run.reader or next(iter(PROVIDERS))
    if provider not in PROVIDERS:
        raise InputError(f"--reader: {plain(provider, 40)!r} is not a provider; there are {' and '.join(PROVIDERS)}")
    if run.reader_model is None:
        raise InputError("--reader-model: name the reader's model, for example --reader-model gpt-5.4-mini")
    place = at_named_server(Settings(summarizer=provider, model=run.reader_model), run.base_url)
    reader = Chat(provider=provider, model=run.reader_model, base_url=place.base_url, api_key=place.api_key)
    return ModelPlan(reader=reader, judge=replace(reader, model=run.judge_model or run.reader_model))


def _chosen_arms(given: str | None, known: Iterable[str]) -> tuple[str, ...]:
    """Return the arms that `--arms` names. Raise `InputError`."""
    chosen = tuple(name.strip() for name in (given or "").split(",") if name.strip())
    if strange := [name for name in chosen if name not in known]:
        raise InputError(f"--arms: there is no arm {plain(strange[0], 40)!r}; there are {', '.join(known)}")
    return chosen


def _gates_table(gates: Sequence[GateOutcome]) -> Table:
    """Return what became of the bounds of a suite."""
    tones = {"passed": "green", "failed": "bold red", "vacuous": "yellow", "nothing to look at": "bold red"}
    made = table("Bounds", "bound", "result", "figures", wide="figures")
    made.columns[0].no_wrap = made.columns[2].no_wrap = False
    for gate in gates:
        made.add_row(plain(gate.name), Text(gate.result, tones[gate.result]), Text(plain(gate.words), "dim"))
    return made


def _scores_table(scores: Sequence[ArmScore]) -> Table:
    """Return arms by right answers; 80 columns are enough."""
    from summarizing_context.evaluation.report import ahead, bounds, percent, total

    made = table("Right answers and half of partly right ones", "arm", "#right", "#interval", "#ahead", "#interval")
    for name in ("wrong", "never said"):
        made.add_column(name, justify="right", no_wrap=True)
    for score in scores:
        lead = bounds(score.score.ahead, points=True)
        cells = [percent(score.score.mean), bounds(score.score.mean), ahead(score.score), lead]
        made.add_row(score.arm, *cells, str(score.wrong), total(score.absent))
    return made


def _categories_table(scores: Sequence[ArmScore]) -> Table:
    """Return arms by category of question: points out of questions."""
    from summarizing_context.evaluation.real.recording import CATEGORIES
    from summarizing_context.evaluation.report import total

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


def _reading_remarks(outcome: RealOutcome) -> list[str]:
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


def cassette_file(settings: Settings, path: Path | None, redact: str | None, mode: Mode) -> CassetteFile | None:
    """Return where the model that these settings name speaks; None if it is none. Raise `InputError`."""
    from summarizing_context.evaluation.models import CassetteFile, summarizes_by_model

    if not summarizes_by_model(settings):
        if mode != "replay":
            raise InputError("nothing to record: name the model that summarizes, with --model or in --config")
        if redact is not None:
            raise InputError("--redact: without a model nothing is sent or recorded; name one, or leave out --redact")
        return None
    if path is None:
        raise InputError("--cassette: name the file of the recorded replies; only suites have one of their own")
    return CassetteFile(path, redact)


@contextmanager
def opened(
    file: CassetteFile | None, mode: Mode, max_calls: int | None = None, max_input: int | None = None
) -> Iterator[Cassette | None]:
    """Open the cassette of a run that may record; None for one that only replays."""
    from summarizing_context.evaluation.cassettes import Caps, Cassette

    if file is None or mode == "replay":
        yield None
        return
    caps = Caps(max_calls, max_input)
    with Cassette.open(file.path, mode, caps=caps, redact=file.redaction()) as cassette:
        if cassette.sends:
            named = (("calls", caps.max_calls), ("input tokens", caps.max_input_tokens))
            limits = [f"at most {most:,} {name}" for name, most in named if most is not None] or ["without a cap"]
            there = f"{len(cassette):,} replies are there already" if len(cassette) else "a new file"
            words = f"Recording into {cassette.path} ({there}), {' and '.join(limits)}; --dry-run tells what it takes."
            notices().print(plain(words), soft_wrap=True)
        try:
            yield cassette
        except KeyboardInterrupt:
            kept = f"{len(cassette):,} replies are kept in {cassette.path}; called again, it goes on from there."
            notices().print(plain(f"Stopped. {kept if cassette.sends else 'Nothing was sent.'}"), soft_wrap=True)
            raise


class Spent(NamedTuple):
    """What one model takes."""

    model: str | None
    address: str  # of the server
    calls: int
    by_kind: dict[str, int]
    input_tokens: int
    output_tokens: int
    recorded: int  # replies that are there already
    estimated_cost: float | None


def spent_by(cassette: Cassette, settings: Settings, address: str = "") -> Spent:
    """Return what a cassette was asked for, by the price of the model of the settings."""
    from summarizing_context.summarizers.prices import load_prices
    from summarizing_context.summarizers.providers import address_of

    spent = cassette.spent
    return Spent(
        settings.model,
        address or address_of(settings),
        spent.calls,
        dict(sorted(spent.by_kind.items())),
        spent.input_tokens,
        spent.output_tokens,
        spent.replayed,
        spent.cost(load_prices(settings.prices).price_of(settings.model)),
    )


def spent_words(cassette: Cassette, settings: Settings) -> str:
    """Return what recording has come to, in one sentence."""
    row = spent_by(cassette, settings)
    tokens = f"{row.input_tokens:,} input and {row.output_tokens:,} output tokens, {dollars(row.estimated_cost)}"
    where = f"{len(cassette):,} replies are in {cassette.path}"
    return plain(f"{row.model} at {row.address}: {row.calls:,} calls, {tokens}; {where}")


_ABOUT = {
    "judge": "all answers of one case each",
    "questions": "all questions about a log each",
    "reader": "all questions about one view each",
    "segment": "summaries of segments",
    "rollup": "summaries of summaries",
    "rules": "standing rules in what humans typed",
}
_PROPOSAL_TOKENS = 2_000  # that a proposal reads and writes, about


def show_forecast(
    rows: Sequence[Spent], prices: str | Path | None, json_path: str | None, *, proposals: int = 0
) -> None:
    """Show calls, tokens and price of what is not recorded yet, by model. Of one model, `proposals` are prompts that it
    will write, each of which is tried as well."""
    from summarizing_context.summarizers.prices import load_prices

    costs = [row.estimated_cost for row in rows]
    total = None if None in costs else round(sum(cost or 0 for cost in costs), 6)
    document: dict[str, Any] = rows[0]._asdict() if len(rows) == 1 else {"models": [row._asdict() for row in rows]}
    document["estimated_cost"] = total
    table = load_prices(prices)
    shown: list[tuple[str, str | Text, str]] = []
    for row in rows:
        price = table.price_of(row.model)
        if len(rows) > 1:
            shown.append((plain(row.model or "", 60), f"{row.calls:,} calls", ""))
        shown += [(f"{kind} calls", number(count), _ABOUT.get(kind, "")) for kind, count in row.by_kind.items()]
        shown += [
            ("input tokens", number(row.input_tokens), "by the built-in estimate; hidden thinking is not counted"),
            ("output tokens", number(row.output_tokens), "every reply as long as its cap"),
            ("already recorded", number(row.recorded), "not sent again"),
            ("price", dollars(row.estimated_cost), _price_words(price)),
        ]
        if proposals:
            calls = row.calls + proposals * (row.calls + 1)
            tokens = [one + proposals * (one + _PROPOSAL_TOKENS) for one in (row.input_tokens, row.output_tokens)]
            most = None if price is None else round(price.cost(*tokens), 6)
            document |= {"proposals": proposals, "estimated_cost_at_most": most}
            words = f"at most, where each of {proposals:,} proposals is tried on all sessions: {calls:,} calls"
            shown.append(("with proposals", dollars(most), words))
    if len(rows) > 1:
        shown.append(("all", dollars(total), "an estimate" if total is not None else "a price is not known"))
    asked = " and ".join(f"{row.model} at {row.address}" for row in rows)
    show_result(json_path, document, facts(f"Recording with {plain(asked, 300)}: nothing is sent", shown))


def _price_words(price: ModelPrice | None) -> str:
    if price is None:
        return "no price is known for this model"
    return f"${price.input:g} in, ${price.output:g} out for a million tokens, as of {price.as_of}; an estimate"


def ask(
    log: Annotated[
        Path,
        typer.Argument(metavar="LOG", parser=read_path, help="A transcript of any known format, with one session."),
    ],
    *,
    format: TranscriptFormat = "auto",
    judge_model: Annotated[
        str, typer.Option(metavar="M", help="Model that marks the answers. It must differ from the writer's.")
    ],
    reader_model: ReaderModel = None,
    question_model: Annotated[
        str | None,
        typer.Option(metavar="M", help="Model that writes questions. Default: the summarizer's model."),
    ] = None,
    summarizer: SummarizerName = None,
    model: SummarizerModel = None,
    prompts: PromptsPath = None,
    config: ConfigPath = None,
    budget: CaseBudget = "8k",
    share: Annotated[
        float, typer.Option(metavar="X", min=0.01, max=1.0, help="Share of the log before the view.")
    ] = 1.0,
    questions: Annotated[int, typer.Option(metavar="N", min=1, max=60, help="Number of questions to write.")] = 20,
    question_provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="Provider of the question model. Default: the same.")
    ] = None,
    reader_provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="Provider of the reader model. Default: the judge's.")
    ] = None,
    judge_provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="Provider of the judge model. Default: the same.")
    ] = None,
    base_url: BaseUrl = None,
    judge_base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Base URL for the judge, and a reader of its provider.")
    ] = None,
    arms: Arms = "ours,extractive,compact,tail",
    redact: Redact = None,
    dry_run: DryRun = False,
    max_calls: MaxCalls = None,
    out: ReportFolder = Path("eval-ask"),
    json_path: JsonPath = None,
) -> int:
    """Ask about a log of yours: one model writes questions, another answers them from views, and one marks the answers.

    The writer reads the log before the cut and gives each question a gold answer with its messages. Views of all arms
    get the same number of tokens. The judge sees the answers under shuffled letters. All replies are kept in a folder:
    a run that was stopped goes on there, and `eval run FOLDER` shows the result again without a model.
    """
    from summarizing_context.errors import TranscriptError
    from summarizing_context.evaluation.real.arms import ARMS
    from summarizing_context.evaluation.real.scores import recorded_folder
    from summarizing_context.stores.private_files import make_private_folder
    from summarizing_context.transcripts import read_session

    chosen = _chosen_arms(arms, ARMS)
    if str(log) != "-":  # what cannot be read is told before a folder is made; standard input is read once
        found = read_session(log, format=format)
        if not found.messages:
            raise TranscriptError(f"{log}:1: holds no message; name another transcript")
        tell_skipped_lines(found.unreadable)
    own = OwnSettings(config, prompts, summarizer, model).load(base_url)
    plan = _ask_plan(
        own,
        (question_model, question_provider),
        (reader_model, reader_provider),
        (judge_model, judge_provider),
        judge_base_url,
    )

    def work(cassettes: dict[tuple[str, str], Cassette], to: Path) -> list[Spent]:
        _ask(log, format, share, read_tokens(budget), questions, chosen, out, own, plan, cassettes, to)
        return [
            spent_by(
                cassette, replace(own, model=model), " and ".join(dict.fromkeys(plan.addresses_of(provider, model)))
            )
            for (provider, model), cassette in cassettes.items()
        ]

    if dry_run:
        with _cassettes(out, plan, "forecast", redact, max_calls) as cassettes, TemporaryDirectory() as scratch:
            rows = work(cassettes, Path(scratch))
        show_forecast(rows, own.prices, json_path)
        return Status.OK
    make_private_folder(out)
    with _cassettes(out, plan, "record", redact, max_calls) as cassettes:
        try:
            rows = work(cassettes, out)
        except KeyboardInterrupt:
            notices().print(f"Stopped. Replies are kept in {plain(str(out))}; the same command goes on.")
            raise
    for row in rows:
        tokens = f"{row.input_tokens:,} input and {row.output_tokens:,} output tokens"
        words = f"{row.model} at {row.address}: {row.calls:,} calls, {tokens}"
        notices().print(f"Recorded with {plain(words)}, {dollars(row.estimated_cost)}.", soft_wrap=True)
    loaded = recorded_folder(out)
    assert loaded is not None  # its case was just asked
    return _run_recorded(Run(budget=budget, arms=arms, out=out, json_path=json_path), loaded)


_Named = tuple[str | None, str | None]  # a model, and its provider


def _ask_plan(own: Settings, question: _Named, reader: _Named, judge: _Named, judge_base_url: str | None) -> ModelPlan:
    """Return who summarizes, asks, reads and judges. Raise `InputError`."""
    from summarizing_context.evaluation.models import Chat, ModelPlan

    if own.summarizer not in PROVIDERS or own.model is None:
        raise InputError(f"--model: name the model that summarizes, or in --config a summarizer {NAMED} and its model")
    summarizes = Chat(provider=own.summarizer, model=own.model, base_url=own.base_url, api_key=own.api_key)

    def chat(named: _Named, option: str, usual: Chat, *known: Chat) -> Chat:
        provider = _known(named[1] or usual.provider, option)
        if named[0] is None and provider != usual.provider:
            raise InputError(f"{option}: name its model too, with {option.replace('provider', 'model')}")
        place = next((chat for chat in known if chat.provider == provider), None)
        if place is None and (own.base_url or judge_base_url):
            raise InputError(
                f"{option}: a base URL is named, and it is not {provider}'s, which would get the log too; name the "
                "server of its models with --judge-base-url, or take a provider whose server is named"
            )
        model = named[0] or usual.model
        return Chat(provider=provider, model=model) if place is None else replace(place, model=model)

    # A host that is named for a provider gets all of its calls, and no other provider is asked beside it unnamed.
    named = summarizes
    if judge_base_url is not None:
        named = replace(summarizes, provider=judge[1] or own.summarizer, base_url=judge_base_url)
        named = named if named == summarizes else replace(named, api_key=None)  # a key is its server's
    marks = chat(judge, "--judge-provider", summarizes, named)
    answers = chat(reader, "--reader-provider", marks, marks, summarizes)
    writer = chat(question, "--question-provider", summarizes, summarizes, marks)
    if (writer.provider, writer.model) == (marks.provider, marks.model):
        raise InputError("--judge-model: name another model than the one that writes questions, or it marks its own")
    return ModelPlan(reader=answers, judge=marks, writer=writer, summarizer=summarizes, call_timeout=_CALL_TIMEOUT)


def _known(provider: str, option: str) -> str:
    if provider not in PROVIDERS:
        raise InputError(f"{option}: {plain(provider, 40)!r} is not a provider; there are {' and '.join(PROVIDERS)}")
    return provider


@contextmanager
def _cassettes(
    folder: Path, plan: ModelPlan, mode: Mode, redact: str | None, max_calls: int | None
) -> Iterator[dict[tuple[str, str], Cassette]]:
    """Open a cassette for each provider and model, as each has its own price; one cap holds for all their calls."""
    from summarizing_context.evaluation.cassettes import Caps, Cassette
    from summarizing_context.messages.redaction import load_redaction

    redaction = load_redaction(redact) if redact is not None else None
    cassettes: dict[tuple[str, str], Cassette] = {}
    with ExitStack() as stack:
        for chat in plan.chats:
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{chat.provider}-{chat.model}")
            if (chat.provider, chat.model) not in cassettes:
                file = folder / "cassettes" / f"{name}.jsonl"
                made = Cassette.open(file, mode, caps=Caps(max_calls), redact=redaction, secrets=(chat.api_key,))
                cassettes[chat.provider, chat.model] = stack.enter_context(made)
        for cassette in cassettes.values():
            cassette.spent.beside = [other.spent for other in cassettes.values() if other is not cassette]
        yield cassettes


def _ask(
    log: Path,
    format: str,
    share: float,
    budget: int,
    questions: int,
    arms: Sequence[str],
    folder: Path,
    own: Settings,
    plan: ModelPlan,
    cassettes: dict[tuple[str, str], Cassette],
    to: Path,
) -> None:
    """Ask about the log, whose case is added to `to` if the folder has none."""
    import anyio

    from summarizing_context.evaluation.real.recorder import open_recorder
    from summarizing_context.evaluation.real.recording import with_own_case

    clean = next(iter(cassettes.values())).scrub
    recording = with_own_case(folder, log, cut=share, budget=budget, own=own, clean=clean, to=to, format=format)
    if not notices().is_terminal:
        notices().print(f"Asking about {recording.cases[0].cut:,} messages of {plain(log.name, 60)}.")

    async def run() -> None:
        opened = open_recorder(recording, lambda chat: cassettes[chat.provider, chat.model], plan, questions=questions)
        async with opened as recorder:
            await recorder.record(arms)

    anyio.run(run)
