"""`summarizing-context tune`: find better parameters or prompts on one half of the sessions, judge on the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli.eval_model import ModelOptions, show_forecast
from summarizing_context.cli.options import (
    BaseUrl,
    CaseBudget,
    Cases,
    ConfigPath,
    DryRun,
    Jobs,
    JsonPath,
    MaxCalls,
    OwnSettings,
    PromptsPath,
    SummarizerModel,
    SummarizerName,
    TranscriptFormat,
    at_named_server,
    read_path,
    read_tokens,
)
from summarizing_context.cli.output import (
    InputError,
    Status,
    examples,
    help_text,
    notices,
    number,
    plain,
    progress_bar,
    refuse_suite,
    screen,
    table,
    tell_skipped_lines,
    write_json,
)

if TYPE_CHECKING:
    from summarizing_context.evaluation.cases.sources import CaseSource
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.outcomes import Interval
    from summarizing_context.evaluation.suites import Suite
    from summarizing_context.evaluation.tuning.trials import Pair
    from summarizing_context.evaluation.tuning.tuner import TuneOutcome, TuneTask
    from summarizing_context.evaluation.tuning.variants import Optimizer, Variant
    from summarizing_context.settings.values import Settings
    from summarizing_context.summarizers.prompts import Prompt


class _Search(NamedTuple):
    """What is tried, and how far."""

    start: Path | None
    tries: Sequence[Path]
    gepa: bool
    seed: int
    evaluations: int
    seconds: float | None
    jobs: int


@contextmanager
def _opened(options: ModelOptions, settings: Settings, *, gepa: bool) -> Iterator[Cassette | None]:
    """The cassette of the model that summarizes; None where these settings ask none."""
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.models import summarizes_by_model
    from summarizing_context.evaluation.requests import Caps

    if not summarizes_by_model(settings):
        if options.mode != "replay" or gepa or options.cassette is not None:
            raise InputError("--cassette, --record, --dry-run and --gepa are for a model; name it with --model")
        yield None
        return
    if options.cassette is None:
        raise InputError("--cassette: name the file in which the model's replies are kept")
    with Cassette.open(options.cassette, options.mode, caps=Caps(options.max_calls)) as cassette:
        yield cassette


def read_variant(path: Path, *, has_model: bool, start: Variant) -> Variant:
    """A file of figures, a prompt file or a folder of prompts as a candidate; other prompts are those of the start."""
    from summarizing_context.evaluation.tuning.variants import Variant
    from summarizing_context.summarizers.extractive.parameters import load_parameters

    if path.suffix == ".toml":
        if has_model:
            raise InputError(f"--try: {path} holds figures of the extractive summarizer; leave out --model")
        return Variant(name=path.name, parameters=load_parameters(path))
    if not has_model:
        raise InputError(f"--try: {path} holds prompts; name the model that they are for with --model")
    prompts = {prompt.name: prompt for prompt in (*start.prompts, *_prompts(path))}
    name = f"{path.parent.name}/{path.stem}" if path.suffix == ".md" else path.name
    return Variant(name=name, prompts=tuple(prompts.values()))


def _prompts(path: Path, *, option: str = "--try") -> Iterator[Prompt]:
    from summarizing_context.evaluation.prompt_inspection import SUMMARIES
    from summarizing_context.summarizers.prompts import latest, load, names

    if path.suffix == ".md":
        yield load(f"{path.parent.name}/{path.stem}", root=path.parent.parent)
        return
    if not path.is_dir():
        raise InputError(f"{option}: {path} is neither a file of figures (.toml), nor a prompt (.md), nor a folder")
    purposes = [purpose for purpose in SUMMARIES if any(name.startswith(f"{purpose}/") for name in names(path))]
    if not purposes:
        raise InputError(f"{option}: {path} holds no prompt; a prompt is a file such as segment/v3.md in it")
    for purpose in purposes:
        yield latest(purpose, root=path)


_MOST_CHANGES = 16
_MOST_PAIRS, _MOST_LINES = 3, 14  # of a summary


def show(run: TuneOutcome, written: Sequence[Path], page: Path, seconds: float) -> None:
    """The whole result."""
    from summarizing_context.evaluation.tuning.report import headline, pairs_title

    console = screen()
    if run.pairs:
        console.print(Text(plain(pairs_title(run)), style="bold"))
    for pair in run.pairs[:_MOST_PAIRS]:
        console.print(pair_table(pair))
    console.print(variants_table(run))
    for line in headline(run):
        console.print(plain(line), soft_wrap=True)
    console.print(f"Cost is counted in {run.cost}.", style="dim")
    changes = run.at(run.winner).changes
    if changes:
        console.print(Text("What changed", style="bold"))
    for line in changes[:_MOST_CHANGES]:
        console.print(f"  {plain(line)}")
    if len(changes) > _MOST_CHANGES:
        console.print(f"  and {len(changes) - _MOST_CHANGES} more, in the report", style="dim")
    for path in written:
        console.print(f"Written: {path}")
    console.print(f"{len(run.tried):,} variants in {seconds:.0f} s. The whole report: {page}")


def pair_table(pair: Pair) -> Table:
    """Two summaries of the same messages, side by side, long ones cut."""
    made = table(plain(pair.title), "old", "new")
    for column in made.columns:
        column.no_wrap, column.overflow, column.ratio = False, "fold", 1
    made.expand = True
    made.add_row(*(Text(plain(pair.kept(keeps)), "dim") for keeps in (pair.old_keeps, pair.new_keeps)))
    made.add_row(_shortened(pair.old), _shortened(pair.new))
    return made


def _shortened(text: str) -> str:
    lines = [plain(line) for line in text.splitlines() if line.strip()]
    more = [f"… {len(lines) - _MOST_LINES} more lines, in the report"] if len(lines) > _MOST_LINES else []
    return "\n".join([*lines[:_MOST_LINES], *more])


def variants_table(run: TuneOutcome) -> Table:
    """The variants that the held-out sessions judged."""
    made = table(
        f"Tuning on {plain(run.suite, 40)}", "variant", "#tuned on", "#held out", "#interval", "#cost",
        wide="variant",
    )  # fmt: skip
    for tried in run.tried:
        if tried.validation is None:
            continue
        roles = [name for name, at in (("start", run.start), ("shipped", run.shipped), ("winner", run.winner)) if
                 at == tried.number]  # fmt: skip
        style = "bold green" if tried.number == run.winner else ""
        held_out = tried.validation.quality
        made.add_row(
            Text(plain(", ".join(dict.fromkeys([*roles, tried.name])), 60), style=style),
            f"{tried.train.quality.mean:.4f}",
            f"{held_out.mean:.4f}",
            _interval_words(held_out),
            number(round(tried.validation.cost)),
        )
    return made


def _interval_words(interval: Interval) -> str:
    return f"{interval.low:.4f} – {interval.high:.4f}"


_EXAMPLES = examples(
    "tune    # in a checkout: from naive figures, judged on held-out sessions",
    "tune --cases logs/ --budget 16k --write mine/    # figures for your own transcripts",
    "tune --cases logs/ --try a.toml --try b.toml    # which of these is better?",
    "tune --cases logs/ --model gpt-5.4-mini --cassette t.jsonl --try my/ --dry-run    # price",
    "tune --cases logs/ --model gpt-5.4-mini --record --cassette t.jsonl --try my/segment/v3.md",
    "tune --cases logs/ --model gpt-5.4-mini --record --cassette t.jsonl --gepa --write my/",
    more={
        "Exit status": ("0 done · 1 a suite's claim about tuning failed · 2 bad input · 4 environment"),
    },
)


_SUITE = "tuning_start"

_Suite = Annotated[
    str | None,
    typer.Argument(metavar="[SUITE]", help=f"Suite of the checkout. Default, without --cases: `{_SUITE}`."),
]


_Start = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        parser=read_path,
        help="Parameters to start from. Default: those of the suite, else the shipped ones.",
    ),
]

_Tries = Annotated[
    list[Path] | None,
    typer.Option(
        "--try",
        metavar="PATH",
        parser=read_path,
        help="A variant to try: a parameter file, a prompt file or a folder of prompts. Repeatable.",
    ),
]

_Evaluations = Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of variants to try.")]

_Seconds = Annotated[
    float | None, typer.Option(metavar="S", min=0, help="Stop after this many seconds; the same command resumes.")
]

_Seed = Annotated[int, typer.Option(metavar="N", help="Seed for the split and the order of trials.")]

_Out = Annotated[Path, typer.Option(metavar="FOLDER", parser=read_path, help="Folder of the reports and evaluations.")]

_Write = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", parser=read_path, help="Write the winner into this folder, as a new file."),
]

_Tape = Annotated[
    Path | None,
    typer.Option("--cassette", metavar="FILE", parser=read_path, help="File of the model's recorded replies."),
]

_Record = Annotated[bool, typer.Option("--record", help="Send requests whose replies are not recorded yet.")]


_Gepa = Annotated[bool, typer.Option("--gepa", help="Let the model write better prompts (the extra gepa).")]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("tune", help=help_text(tune), epilog=_EXAMPLES)(tune)


def tune(
    suite: _Suite = None,
    cases: Cases = None,
    *,
    format: TranscriptFormat = "auto",
    budget: CaseBudget = "8k",
    start: _Start = None,
    tries: _Tries = None,
    evaluations: _Evaluations = 120,
    seconds: _Seconds = None,
    seed: _Seed = 0,
    out: _Out = Path("tune-report"),
    write: _Write = None,
    summarizer: SummarizerName = None,
    model: SummarizerModel = None,
    cassette: _Tape = None,
    record: _Record = False,
    base_url: BaseUrl = None,
    max_calls: MaxCalls = None,
    gepa: _Gepa = False,
    dry_run: DryRun = False,
    jobs: Jobs = None,
    config: ConfigPath = None,
    prompts: PromptsPath = None,
    json_path: JsonPath = None,
) -> int:
    """Find better figures for the extractive summarizer, or the best of given variants, by what views still hold.

    Half of the sessions are tuned on, the others judge; what is reported was never tuned on. Every variant's views have
    the same number of tokens. An interrupted run goes on where it was; reports are the same on every run.
    """
    from summarizing_context.evaluation.tuning.report import HTML, document, write_reports, write_winner
    from summarizing_context.evaluation.tuning.tuner import tune as run_tuning

    if cases:
        refuse_suite(suite, "--cases")
    elif config is not None:
        raise InputError("--config is for --cases; a suite has its own settings")
    options = ModelOptions(cassette=cassette, record=record, dry_run=dry_run, max_calls=max_calls)
    search = _Search(start, tries or (), gepa, seed, evaluations, seconds, jobs or os.cpu_count() or 1)
    logs = _Logs(cases, read_tokens(budget), format)
    data = _data(suite, logs, OwnSettings(config, prompts, summarizer, model), base_url)
    started = time.perf_counter()
    with _opened(options, data.settings, gepa=gepa) as recorded, TemporaryDirectory() as scratch:
        task = _task(data, search, recorded, Path(scratch) if dry_run else out)
        run, winner = _run(task, run_tuning)
    if recorded is not None and dry_run:
        show_forecast(recorded, task.settings, json_path, proposals=evaluations if gepa else 0)
        return Status.OK
    write_reports(run, out)
    written = write_winner(run, winner, write) if write is not None else []
    if json_path is not None:
        write_json(json_path, {**document(run), "written": [str(path) for path in written]})
    if json_path != "-":
        show(run, written, out / HTML, time.perf_counter() - started)
    return Status.LAW_BROKEN if run.verdict.failed else Status.OK


class _Logs(NamedTuple):
    """Transcripts of the user's."""

    paths: list[Path] | None
    budget: int  # of views
    format: str


class _Data(NamedTuple):
    """What is tuned on."""

    suite: Suite
    sources: list[CaseSource]
    settings: Settings


def _data(suite: str | None, logs: _Logs, own: OwnSettings, base_url: str | None) -> _Data:
    """A suite of the checkout, or transcripts of the user's, with the settings that the command line names."""
    from summarizing_context.evaluation.cases.sources import check_readable, folder_sources
    from summarizing_context.evaluation.suites import Suite, load_suite
    from summarizing_context.settings.values import Settings

    settings = own.load(base_url) if any(own) else Settings()
    if logs.paths:
        sources = folder_sources(logs.paths, budget=logs.budget, format=logs.format)
        tell_skipped_lines(check_readable(sources))
        return _Data(Suite(name="your sessions", claim=_YOURS), sources, settings)
    loaded = load_suite(suite or _SUITE, Path.cwd())
    suites = loaded.settings()
    if any(own):
        changed = {name: getattr(settings, name) for name in ("summarizer", "model", "base_url", "api_key", "prompts")}
        suites = replace(suites, **changed)
    suites = at_named_server(suites, base_url)
    return _Data(loaded.suite, loaded.sources(), suites)


def _task(data: _Data, search: _Search, cassette: Cassette | None, folder: Path) -> TuneTask:
    from summarizing_context.evaluation.tuning.tuner import TuneTask

    start = _start(data, search.start)
    # Of such a run the suite claims nothing.
    is_free = bool(search.tries) or cassette is not None or search.start is not None
    return TuneTask(
        name=data.suite.name,
        claim=data.suite.claim,
        sources=data.sources,
        settings=replace(data.settings, prompts=None, extractive_parameters=None),  # variants bring their own
        start=start,
        optimizer=_optimizer(search, cassette, data.settings, start),
        folder=folder,
        seed=search.seed,
        evaluations=search.evaluations,
        seconds=search.seconds,
        wanted=0.0 if is_free else data.suite.recovers,
        jobs=search.jobs,
        cassette=cassette,
    )


def _start(data: _Data, given: Path | None) -> Variant:
    """Figures of `--start`, of the settings or of the suite, and the prompts of the settings."""
    from summarizing_context.evaluation.tuning.variants import Variant
    from summarizing_context.summarizers.extractive.parameters import load_parameters, read_parameters

    figures, folder = given or data.settings.extractive_parameters, data.settings.prompts
    return Variant(
        name="start",
        parameters=load_parameters(Path(figures)) if figures else read_parameters(data.suite.start, data.suite.name),
        prompts=tuple(_prompts(Path(folder), option="--prompts")) if folder else (),
    )


_YOURS = "Figures that keep more of what later tool calls in these sessions really used, at equal tokens."


def _optimizer(search: _Search, cassette: Cassette | None, settings: Settings, start: Variant) -> Optimizer:
    from summarizing_context.evaluation.tuning.variants import CoordinateSearch, Grid

    if search.gepa:
        if search.tries:
            raise InputError("--gepa and --try exclude each other; give one of them")
        if cassette is not None and cassette.mode == "forecast":
            return Grid([])  # what the model would propose is not known
        return _gepa(search, cassette, settings)
    if search.tries:
        return Grid([read_variant(path, has_model=cassette is not None, start=start) for path in search.tries])
    if cassette is not None:
        raise InputError("--model: say what to try, prompts with --try, or --gepa to have them written")
    return CoordinateSearch(search.seed)


def _gepa(search: _Search, cassette: Cassette | None, settings: Settings) -> Optimizer:
    """gepa, with the model that summarizes as the one that writes prompts too."""
    from summarizing_context.evaluation.models import Chat
    from summarizing_context.evaluation.tuning.gepa_prompts import GepaPrompts, Proposer

    if cassette is None or settings.model is None:
        raise InputError("--gepa needs a model that writes prompts; name it with --model")
    chat = Chat(
        provider=settings.summarizer, model=settings.model, base_url=settings.base_url, api_key=settings.api_key
    )
    return GepaPrompts(Proposer(chat.settings(), chat, cassette), seed=search.seed, proposals=search.evaluations)


def _run(
    task: TuneTask, run_tuning: Callable[[TuneTask, Callable[[int, Variant, float], None]], tuple[TuneOutcome, Variant]]
) -> tuple[TuneOutcome, Variant]:
    if not notices().is_terminal:
        notices().print(f"Tuning on {len(task.sources)} sessions, {task.evaluations} variants at most.")
    with progress_bar("variants") as bar:
        shown = bar.add_task("tune", total=task.evaluations, words="")
        best = 0.0

        def watch(number: int, variant: Variant, quality_of: float) -> None:
            nonlocal best
            best = max(best, quality_of)
            bar.update(shown, completed=number, words=f"best {best:.4f}")

        return run_tuning(task, watch)
