"""A run of evals from the command line: of a suite, of the user's data, or of recorded answers; progress and tables."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from summarizing_context.cli import eval_model
from summarizing_context.cli.eval_model import ModelOptions
from summarizing_context.cli.options import OwnSettings, at_named_server, read_tokens
from summarizing_context.cli.output import (
    InputError,
    Status,
    notices,
    plain,
    progress_bar,
    refuse_suite,
    screen,
    table,
    tell_skipped_lines,
    write_json,
)

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.outcomes import GateOutcome, Interval, RunOutcome, SessionOutcome
    from summarizing_context.evaluation.real.recording import Recording
    from summarizing_context.evaluation.real.scores import ArmScore, RealOutcome
    from summarizing_context.evaluation.suites import LoadedSuite, Task


_SHOWN = (
    "used",
    "summary_used",
    "literals",
    "constraint",
    "artifact_recall",
    "ledger_recall",
    "stale",
    "unsupported",
    "tokens",
    "per_1k",
)

_SHORT = {
    "used": "used",
    "summary_used": "in summ.",
    "literals": "literals",
    "constraint": "constr.",
    "artifact_recall": "artif.",
    "ledger_recall": "ledger",
    "stale": "stale",
    "unsupported": "unsupp.",
    "tokens": "tokens",
    "per_1k": "per 1k",
}

_TONES = {"passed": "green", "failed": "bold red", "vacuous": "yellow", "nothing to look at": "bold red"}


def main_table(run: RunOutcome) -> Table:
    """Arms by figures, the means."""
    from summarizing_context.evaluation.report import table_of, written

    rows = table_of(run)
    columns = [figure for figure in _SHOWN if any(figure in row.cells for row in rows)]
    made = table(f"What views still hold: {plain(run.suite)}", "arm", *(f"#{_SHORT[figure]}" for figure in columns))
    for row in rows:
        cells = [written(row.cells[figure].mean, figure) if figure in row.cells else "–" for figure in columns]
        made.add_row(row.arm, *cells, style="dim" if row.role == "reference" else "")
    return made


def gates_table(gates: Sequence[GateOutcome]) -> Table:
    """What became of the gates; figures that are as accepted share one line."""
    from summarizing_context.evaluation.outcomes import BASELINE

    as_accepted = [gate for gate in gates if gate.name.startswith(BASELINE) and not gate.failed]
    made = table("Gates", "gate", "result", "figures", wide="figures")
    made.columns[0].no_wrap = False
    made.columns[2].no_wrap = False
    for gate in gates:
        if gate not in as_accepted:
            made.add_row(plain(gate.name), Text(gate.result, _TONES[gate.result]), Text(plain(gate.words), "dim"))
    if as_accepted:
        words = f"{len(as_accepted)} figures are no worse than accepted"
        made.add_row(BASELINE, Text("passed", _TONES["passed"]), Text(words, "dim"))
    return made


def comparison_table(rows: list[tuple[str, str, Interval, bool | None]]) -> Table:
    """Differences between two runs: arm, figure, how much, whether that is better."""
    made = table(
        "Second run against the first, mean difference and 95 % interval", "arm", "figure", "#change", "#interval"
    )
    for arm, figure, change, better in rows:
        tone = "" if better is None else "green" if better else "bold red"
        made.add_row(
            arm, figure, Text(f"{change.mean:+.4f}", tone), Text(f"{change.low:+.4f} … {change.high:+.4f}", "dim")
        )
    return made


def remarks(run: RunOutcome) -> Iterator[str]:
    """What a person should know about this run beside its figures."""
    from summarizing_context.evaluation.report import headline, unequal_views

    yield from (plain(sentence) for sentence in headline(run))
    if unequal := unequal_views(run):
        yield f"{len(unequal)} views could not be brought to equal tokens; the report lists them."
    if skipped := sum(len(session.skipped) for session in run.sessions):
        yield f"{skipped} cuts were not scored, because everything before them fits; --budget lower would score them."


_YOURS = "What views of these sessions still hold of the exact values that later tool calls really used."


_SUITE = "default"  # where neither a suite nor data is named


@dataclass(frozen=True, slots=True, kw_only=True)
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
    accept: bool = False
    json_path: str | None = None
    own: OwnSettings = field(default_factory=OwnSettings)


def run_literal(request: RunRequest, options: ModelOptions) -> int:
    """Run a suite without recorded answers, or data of the user's; write the reports, show them; the exit status."""
    from summarizing_context.evaluation.report import HTML, table_document
    from summarizing_context.evaluation.report_page import write_reports
    from summarizing_context.evaluation.suites import accept as accept_run
    from summarizing_context.evaluation.suites import has_failed

    task = make_task(request, options)
    if request.accept and task.baseline is None:
        raise InputError("--accept: only a suite has a baseline; leave out --cases and --dataset")
    started = time.perf_counter()
    with eval_model.opened(options, task.plan.cassette_file) as cassette:
        found = _run(task, cassette)
    if cassette is not None and cassette.mode == "forecast":
        eval_model.show_forecast(cassette, task.plan.settings, request.json_path)
        return Status.OK
    if request.accept:
        found = accept_run(found, task)
    seconds = time.perf_counter() - started
    write_reports(found, request.out, timings={"seconds": round(seconds, 2), "jobs": task.jobs})
    if request.json_path is not None:
        document = {"suite": found.suite, "table": table_document(found), "failed": has_failed(found)}
        write_json(request.json_path, document)
    if request.json_path != "-":
        _show(found, request.out / HTML, seconds)
        if cassette is not None:
            screen().print(f"Recorded: {eval_model.spent_words(cassette, task.plan.settings)}.")
    return Status.LAW_BROKEN if has_failed(found) else Status.OK


def make_task(request: RunRequest, options: ModelOptions) -> Task:
    """What is to be run."""
    from summarizing_context.evaluation.arms import ARMS, REFERENCE
    from summarizing_context.evaluation.cases.sources import check_readable, dataset_sources, folder_sources
    from summarizing_context.evaluation.runner import Plan
    from summarizing_context.evaluation.suites import Task, load_suite
    from summarizing_context.settings.values import Settings

    known = [arm.name for arm in ARMS]
    chosen, budget, jobs = (
        chosen_arms(request.arms, known),
        read_tokens(request.budget),
        request.jobs or os.cpu_count() or 1,
    )
    if request.cases and request.dataset:
        raise InputError("--cases and --dataset exclude each other; give one of them")
    if request.cases or request.dataset:
        refuse_suite(request.suite, "--cases" if request.cases else "--dataset")
        settings = request.own.load(options.base_url) if any(request.own) else Settings()
        plan = Plan(settings, chosen, eval_model.cassette_file_of(options, None, settings))
        if request.cases:
            sources = folder_sources(request.cases, budget=budget, format=request.format)
            tell_skipped_lines(check_readable(sources))
            return Task(name="your cases", claim=_YOURS, sources=sources, plan=plan, jobs=jobs)
        name, path = request.dataset or ("", "")
        claim = f"{name}: which answers views still hold, word for word, at {budget:,} tokens."
        sources = dataset_sources(name, Path(path), budget=budget)
        return Task(name=name, claim=claim, sources=sources, plan=plan, jobs=jobs)
    loaded = load_suite(request.suite or _SUITE, Path.cwd())
    settings = at_named_server(loaded.settings(), options.base_url)
    return Task(
        name=loaded.suite.name,
        claim=loaded.suite.claim,
        sources=loaded.sources(),
        plan=Plan(settings, chosen, eval_model.cassette_file_of(options, loaded, settings)),
        gates=[gate for gate in loaded.suite.gates if not chosen or {gate.arm, *gate.beats} <= {REFERENCE, *chosen}],
        baseline=loaded.baseline,
        jobs=jobs,
    )


def _run(task: Task, cassette: Cassette | None) -> RunOutcome:
    from summarizing_context.evaluation.suites import run_task

    if not notices().is_terminal:
        notices().print(f"Running {len(task.sources)} sessions through {len(task.plan.chosen())} arms.")
    with progress_bar("sessions", remaining=True) as bar:
        done = _Done(cassette)
        shown = bar.add_task("eval", total=len(task.sources), words=done)

        def watch(session: SessionOutcome) -> None:
            done.probes += len(session.probes)
            bar.advance(shown)

        return run_task(task, watch, cassette=cassette)


@dataclass(slots=True)
class _Done:
    """The words beside the bar, which reads them whenever it is drawn."""

    cassette: Cassette | None
    probes: int = 0

    def __str__(self) -> str:
        words = f"{self.probes:,} probes"
        if self.cassette is None or not self.cassette.sends:
            return words
        spent = self.cassette.spent
        return f"{words}, {spent.calls:,} calls, {spent.input_tokens:,} tokens read"


def _show(run: RunOutcome, page: Path, seconds: float) -> None:

    console = screen()
    shown: list[Any] = [main_table(run)]
    shown += [gates_table(run.gates)] if run.gates else []
    for made in shown:
        console.print(made)
    for line in remarks(run):
        console.print(line)
    probes = sum(len(session.probes) for session in run.sessions)
    console.print(f"{probes:,} probes in {seconds:.0f} s. The whole report: {page}")


_LISTED = 12  # views


def recorded_suite(request: RunRequest, options: ModelOptions) -> LoadedSuite | None:
    """The suite or the folder that is named, if it has recorded answers."""
    from summarizing_context.evaluation.suites import load_suite, recorded_folder

    if request.cases or request.dataset or request.suite is None:
        return None
    if (own := recorded_folder(Path(request.suite))) is not None:
        if options.mode != "replay" or options.names_model:
            raise InputError("a folder of recorded answers is only shown again; `eval ask` records into it")
        return own
    loaded = load_suite(request.suite, Path.cwd())
    return loaded if loaded.suite.recording else None


def run_recorded(request: RunRequest, options: ModelOptions, loaded: LoadedSuite) -> int:
    """Replay the recording of a suite, once what is missing was recorded if that is asked for; the exit status."""
    from summarizing_context.evaluation.real.arms import ARMS, OPTIONAL, USUAL
    from summarizing_context.evaluation.real.recording import Recording
    from summarizing_context.evaluation.real.report import document_of, write_reports
    from summarizing_context.evaluation.real.scores import check_bounds, replay

    if request.accept:
        raise InputError("--accept: a suite of recorded answers has no baseline; its bounds stand in its file")
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
        words = eval_model.spent_words(cassette, plan.reader.settings())
        notices().print(f"Recorded: {words}.", soft_wrap=True)
    return True


def chosen_arms(given: str | None, known: Iterable[str]) -> tuple[str, ...]:
    """The arms that `--arms` names. Raises `InputError`."""
    chosen = tuple(name.strip() for name in (given or "").split(",") if name.strip())
    if strange := [name for name in chosen if name not in known]:
        raise InputError(f"--arms: there is no arm {plain(strange[0], 40)!r}; there are {', '.join(known)}")
    return chosen


def scores_table(scores: Sequence[ArmScore]) -> Table:
    """Arms by right answers; 80 columns are enough."""
    from summarizing_context.evaluation.real.report import ahead, bounds, percent, total

    made = table("Right answers and half of partly right ones", "arm", "#right", "#interval", "#ahead", "#interval")
    for name in ("#wrong", "#never said"):
        made.add_column(name.removeprefix("#"), justify="right", no_wrap=True)
    for score in scores:
        lead = bounds(score.score.ahead, points=True)
        cells = [percent(score.score.mean), bounds(score.score.mean), ahead(score.score), lead]
        made.add_row(score.arm, *cells, str(score.wrong), total(score.absent))
    return made


def categories_table(scores: Sequence[ArmScore]) -> Table:
    """Arms by category of question: points out of questions."""
    from summarizing_context.evaluation.real.recording import CATEGORIES
    from summarizing_context.evaluation.real.report import total

    made = table("Points out of questions, by category", "arm", *(f"#{category}" for category in CATEGORIES))
    for score in scores:
        made.add_row(score.arm, *(total(score.categories[category]) for category in CATEGORIES))
    return made


def reading_remarks(outcome: RealOutcome) -> list[str]:
    """Whether the answers belong to the views as they are now."""
    current = sum(view.reading == "this view" for view in outcome.views)
    lines = [f"For {current:,} of {len(outcome.views):,} views the answers belong to exactly this view."]
    for reading in ("an earlier view", "not read", "no view"):
        found = [f"{view.case} {view.arm}" for view in outcome.views if view.reading == reading]
        if found:
            more = f" and {len(found) - _LISTED} more, in report.json" if len(found) > _LISTED else ""
            lines.append(f"{_WORDS[reading]} ({len(found)}): {plain(', '.join(found[:_LISTED]))}{more}.")
    if outcome.missing:
        lines.append(f"{outcome.missing:,} requests have no recorded reply; `eval record` sends them to a model.")
    return lines


_WORDS = {
    "an earlier view": "Answered from an earlier view",
    "not read": "No answers are recorded for",
    "no view": "Not rebuilt, for want of replies",
}
