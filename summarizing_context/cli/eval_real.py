"""`eval run` of a suite with recorded answers: views rebuilt, marks added up, tables and reports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from summarizing_context.cli import eval_model
from summarizing_context.cli.eval_model import ModelOptions
from summarizing_context.cli.eval_run import RunRequest, gates_table
from summarizing_context.cli.output import (
    InputError,
    Status,
    notices,
    plain,
    progress_bar,
    screen,
    table,
    write_json,
)

if TYPE_CHECKING:
    from summarizing_context.evaluation.real.recording import Recording
    from summarizing_context.evaluation.real.scores import ArmScore, RealOutcome
    from summarizing_context.evaluation.suites import LoadedSuite

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
    arms = chosen_arms(request.arms) or usual
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
        for line in remarks(outcome):
            console.print(line, soft_wrap=True)
        console.print(f"All answers side by side: {page}", soft_wrap=True)
    return Status.LAW_BROKEN if any(gate.failed for gate in gates) else Status.OK


def _record(
    request: RunRequest, options: ModelOptions, loaded: LoadedSuite, recording: Recording, arms: Sequence[str]
) -> bool:
    """Send what is missing to models; False for a forecast, which is shown."""
    import anyio

    from summarizing_context.evaluation.models import Tape
    from summarizing_context.evaluation.real.recorder import open_recorder
    from summarizing_context.settings.values import Settings

    plan = eval_model.model_plan(options)
    tape = Tape(options.cassette or loaded.cassette, options.redact)
    with eval_model.opened(options, tape) as cassette:
        assert cassette is not None

        async def ask() -> None:
            async with open_recorder(recording, lambda _: cassette, plan) as recorder:
                await recorder.record(arms)

        anyio.run(ask)
        if cassette.mode == "forecast":
            eval_model.show_forecast(cassette, Settings(), request.json_path, model=plan.reader.model)
            return False
        words = eval_model.spent_words(cassette, Settings(), plan.reader.model)
        notices().print(f"Recorded: {words}.", soft_wrap=True)
    return True


def chosen_arms(given: str | None) -> tuple[str, ...]:
    """The arms that `--arms` names. Raises `InputError`."""
    from summarizing_context.evaluation.real.arms import ARMS

    chosen = tuple(name.strip() for name in (given or "").split(",") if name.strip())
    if strange := [name for name in chosen if name not in ARMS]:
        raise InputError(f"--arms: there is no arm {plain(strange[0], 40)!r}; there are {', '.join(ARMS)}")
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


def remarks(outcome: RealOutcome) -> list[str]:
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
