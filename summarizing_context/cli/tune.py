"""`summarizing-context tune`: find better parameters or prompts on one half of the sessions, judge on the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli.output import (
    ConfigPath,
    InputError,
    JsonPath,
    Status,
    help_text,
    notices,
    number,
    own_settings,
    plain,
    progress_bar,
    read_tokens,
    refuse_suite,
    screen,
    table,
    write_json,
)
from summarizing_context.settings.providers import NAMED, PROVIDERS

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette, Mode
    from summarizing_context.evaluation.intervals import Interval
    from summarizing_context.evaluation.tuning.gepa_prompts import GepaPrompts
    from summarizing_context.evaluation.tuning.side_by_side import Pair
    from summarizing_context.evaluation.tuning.tuner import TuneOutcome, TuneTask
    from summarizing_context.evaluation.tuning.variants import Optimizer, Variant
    from summarizing_context.settings.values import Settings
    from summarizing_context.summarizers.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Speaker:
    """The model that summarizes, as the command line names it."""

    model: str | None
    provider: str
    cassette: Path | None
    base_url: str | None
    record: bool = False
    max_calls: int | None = None
    gepa: bool = False
    dry_run: bool = False

    @contextmanager
    def opened(self) -> Iterator[Cassette | None]:
        """The cassette; None where no model is asked."""
        from summarizing_context.evaluation.cassettes import Caps, Cassette

        if self.model is None:
            if self.record or self.gepa or self.dry_run or self.cassette is not None:
                raise InputError("--cassette, --record, --dry-run and --gepa are for a model; name it with --model")
            yield None
            return
        if self.cassette is None:
            raise InputError("--cassette: name the file in which the model's replies are kept")
        mode: Mode = "forecast" if self.dry_run else "record" if self.record else "replay"
        with Cassette.open(self.cassette, mode, caps=Caps(self.max_calls)) as cassette:
            yield cassette

    def settings(self, settings: Settings) -> Settings:
        """The settings of a session whose summaries this model makes."""
        if self.model is None:
            return settings
        return replace(settings, summarizer=self._provider(), model=self.model, base_url=self.base_url)

    def gepa_prompts(self, cassette: Cassette | None, *, seed: int, proposals: int) -> GepaPrompts:
        """gepa, with this model as the one that writes prompts too."""
        from summarizing_context.evaluation.questions import Chat
        from summarizing_context.evaluation.tuning.gepa_prompts import GepaPrompts, Proposer
        from summarizing_context.settings.values import Settings

        if cassette is None or self.model is None:
            raise InputError("--gepa needs a model that writes prompts; name it with --model")
        chat = Chat(provider=self._provider(), model=self.model, base_url=self.base_url)
        return GepaPrompts(Proposer(self.settings(Settings()), chat, cassette), seed=seed, proposals=proposals)

    def _provider(self) -> str:
        if self.provider not in PROVIDERS:
            raise InputError(f"--provider: {plain(self.provider, 40)!r} is none; there are {' and '.join(PROVIDERS)}")
        return self.provider


def read_variant(path: Path, *, has_model: bool) -> Variant:
    """A file of figures, a prompt file or a folder of prompts as a candidate."""
    from summarizing_context.evaluation.tuning.variants import Variant
    from summarizing_context.summarizers.extractive.parameters import load_parameters

    if path.suffix == ".toml":
        if has_model:
            raise InputError(f"--try: {path} holds figures of the extractive summarizer; leave --model away")
        return Variant(name=path.name, parameters=load_parameters(path))
    if not has_model:
        raise InputError(f"--try: {path} holds prompts; name the model that they are for with --model")
    return Variant(name=_name_of(path), prompts=tuple(_prompts(path)))


def _prompts(path: Path) -> Iterator[Prompt]:
    from summarizing_context.evaluation.prompt_inspection import SUMMARIES
    from summarizing_context.summarizers.prompts import latest, load, names

    if path.suffix == ".md":
        yield load(f"{path.parent.name}/{path.stem}", root=path.parent.parent)
        return
    if not path.is_dir():
        raise InputError(f"--try: {path} is no file of figures (.toml), no prompt (.md) and no folder")
    purposes = [purpose for purpose in SUMMARIES if any(name.startswith(f"{purpose}/") for name in names(path))]
    if not purposes:
        raise InputError(f"--try: {path} holds no prompt; a prompt is a file such as segment/v3.md in it")
    for purpose in purposes:
        yield latest(purpose, root=path)


def _name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}" if path.suffix == ".md" else path.name


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


_EXAMPLES = """[bold]Examples[/bold]

summarizing-context tune    [dim]# in a checkout: from naive figures, judged on held-out sessions[/dim]

summarizing-context tune --cases logs/ --budget 16k --write mine/    [dim]# figures for your own transcripts[/dim]

summarizing-context tune --cases logs/ --try a.toml --try b.toml    [dim]# which of these is better?[/dim]

summarizing-context tune --cases logs/ --model gpt-5.4-mini --cassette t.jsonl --try my/ --dry-run    [dim]# price[/dim]

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

_Provider = Annotated[str, typer.Option(metavar="NAME", help=f"Whose model: {NAMED}.")]

_Tape = Annotated[Path | None, typer.Option("--cassette", metavar="FILE", help="Where the model's replies are kept.")]

_Record = Annotated[bool, typer.Option("--record", help="Ask the model for what is not kept yet.")]

_Url = Annotated[str | None, typer.Option(metavar="URL", help="Record from another server.")]

_MaxCalls = Annotated[int | None, typer.Option(metavar="N", min=0, help="Stop recording after so many calls.")]

_Gepa = Annotated[bool, typer.Option("--gepa", help="Let the model write better prompts (the extra gepa).")]

_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Tell calls, tokens and price of what is not kept yet; send nothing.")
]

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
    dry_run: _DryRun = False,
    jobs: _Jobs = None,
    config: ConfigPath = None,
    json_path: JsonPath = None,
) -> int:
    """Find better figures for the extractive summarizer, or the best of given variants, by what views still hold.

    Half of the sessions are tuned on, the others judge; what is reported was never tuned on. Every variant's views have
    the same number of tokens. An interrupted run goes on where it was; reports are the same on every run.
    """
    from summarizing_context.cli.eval_model import show_forecast
    from summarizing_context.evaluation.runner import Plan
    from summarizing_context.evaluation.tuning.report import HTML, document, write_reports, write_winner
    from summarizing_context.evaluation.tuning.tuner import tune as run_tuning

    if cases:
        refuse_suite(suite, "--cases")
    elif config is not None:
        raise InputError("--config is for --cases; a suite has its own settings")
    speaker = Speaker(
        model, provider, cassette, base_url, record=record, max_calls=max_calls, gepa=gepa, dry_run=dry_run
    )
    started = time.perf_counter()
    with speaker.opened() as tape, TemporaryDirectory() as scratch:
        task = _task(
            suite, cases, speaker, tape, budget=read_tokens(budget), start=start, tries=tries or (),
            folder=Path(scratch) if dry_run else out, seed=seed, evaluations=evaluations, seconds=seconds,
            jobs=jobs or os.cpu_count() or 1, config=config,
        )  # fmt: skip
        run, winner = _run(task, run_tuning)
    if tape is not None and dry_run:
        show_forecast(tape, Plan(task.settings), json_path, proposals=evaluations if gepa else 0)
        return Status.OK
    write_reports(run, out)
    written = write_winner(run, winner, write) if write is not None else []
    if json_path is not None:
        write_json(json_path, {**document(run), "written": [str(path) for path in written]})
    if json_path != "-":
        show(run, written, out / HTML, time.perf_counter() - started)
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
    config: Path | None,
) -> TuneTask:
    from summarizing_context.evaluation.cases.sources import check_readable, folder_sources
    from summarizing_context.evaluation.suites import Suite, load_suite
    from summarizing_context.evaluation.tuning.tuner import TuneTask
    from summarizing_context.evaluation.tuning.variants import Variant
    from summarizing_context.settings.values import Settings
    from summarizing_context.summarizers.extractive.parameters import load_parameters, read_parameters

    suite = suite or _SUITE
    if cases:
        suite_read, settings, sources = (
            Suite(name="your sessions", claim=_YOURS),
            Settings() if config is None else own_settings(config),
            folder_sources(cases, budget=budget),
        )
        check_readable(sources)
    else:
        loaded = load_suite(suite, Path.cwd())
        suite_read, settings, sources = loaded.suite, loaded.settings(), loaded.sources()
    given = load_parameters(start) if start is not None else read_parameters(suite_read.start, suite)
    return TuneTask(
        name=suite_read.name,
        claim=suite_read.claim,
        sources=sources,
        settings=speaker.settings(settings),
        start=Variant(name="start", parameters=given),
        optimizer=_optimizer(tries, speaker, tape, seed=seed, evaluations=evaluations),
        folder=folder,
        seed=seed,
        evaluations=evaluations,
        seconds=seconds,
        wanted=0.0 if tries or speaker.model or start is not None else suite_read.recovers,
        jobs=jobs,
        cassette=tape,
    )


_YOURS = "Figures that keep more of what later tool calls in these sessions really used, at equal tokens."


def _optimizer(
    tries: Sequence[Path], speaker: Speaker, tape: Cassette | None, *, seed: int, evaluations: int
) -> Optimizer:
    from summarizing_context.evaluation.tuning.variants import CoordinateSearch, Grid

    if speaker.gepa:
        if tries:
            raise InputError("--gepa and --try: take one of them")
        if speaker.dry_run:
            return Grid([])  # what the model would propose is not known
        return speaker.gepa_prompts(tape, seed=seed, proposals=evaluations)
    if tries:
        return Grid([read_variant(path, has_model=tape is not None) for path in tries])
    if tape is not None:
        raise InputError("--model: say what to try, prompts with --try, or --gepa to have them written")
    return CoordinateSearch(seed)


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
