"""A run of evals from end to end: cases through the runner, defects, gates, baseline.

What the command line shows of it, and where reports are written, is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.evaluation.cases.sources import CaseSource
from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.gates import (
    baseline_of,
    check_baseline,
    check_gates,
    read_baseline,
    write_baseline,
)
from summarizing_context.evaluation.outcomes import DefectOutcome, RunOutcome, SessionOutcome
from summarizing_context.evaluation.runner import Plan, run_sources
from summarizing_context.evaluation.scoring.defects import try_defects
from summarizing_context.evaluation.suites import Gate
from summarizing_context.settings.values import PLACES

_DEFECT_CASES = 12  # labelled sessions whose perfect summaries are spoilt


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What to run, and what decides about it."""

    name: str
    claim: str
    sources: Sequence[CaseSource]
    plan: Plan
    gates: Sequence[Gate] = ()
    baseline: Path | None = None
    defects: bool = True  # spoil perfect summaries, to prove the scorers
    jobs: int = 1


def run_task(
    task: Task, watch: Callable[[SessionOutcome], None] | None = None, *, cassette: Cassette | None = None
) -> RunOutcome:
    """Run everything; `watch` is told of each session. An open cassette may record; else what is there is replayed."""
    sessions: list[SessionOutcome] = []
    for session in run_sources(task.sources, task.plan, jobs=task.jobs, cassette=cassette):
        sessions.append(session)
        if watch is not None:
            watch(session)
    run = RunOutcome(
        suite=task.name,
        claim=task.claim,
        arms=[arm.name for arm in task.plan.chosen()],
        settings=_told(task),
        sessions=sessions,
        defects=_defects(task) if task.defects else [],
    )
    return with_gates(run, task)


def with_gates(run: RunOutcome, task: Task) -> RunOutcome:
    """The run, judged by the suite's gates and by its baseline if one was accepted."""
    checked = check_gates(run, task.gates)
    if task.baseline is not None and (accepted := read_baseline(task.baseline)) is not None:
        checked += check_baseline(run, accepted)
    return msgspec.structs.replace(run, gates=checked)


def accept(run: RunOutcome, task: Task) -> RunOutcome:
    """Make the scores of a run the baseline; the run judged by it."""
    if task.baseline is not None:
        write_baseline(task.baseline, baseline_of(run))
    return with_gates(run, task)


def has_failed(run: RunOutcome) -> bool:
    return any(gate.failed for gate in run.gates) or any(defect.missed for defect in run.defects)


def _defects(task: Task) -> list[DefectOutcome]:
    """The seeded defects, tried on some of the cases, spread over all of them."""
    step = max(1, len(task.sources) // _DEFECT_CASES)
    chosen = list(task.sources)[::step][:_DEFECT_CASES]
    if task.jobs <= 1:
        return _added([_try_one(source) for source in chosen])
    with ProcessPoolExecutor(task.jobs, mp_context=get_context("spawn")) as pool:
        return _added(list(pool.map(_try_one, chosen)))


def _try_one(source: CaseSource) -> list[DefectOutcome]:
    return try_defects([source.load()])


def _added(found: Sequence[Sequence[DefectOutcome]]) -> list[DefectOutcome]:
    return [
        msgspec.structs.replace(
            outcomes[0], tried=sum(o.tried for o in outcomes), caught=sum(o.caught for o in outcomes)
        )
        for outcomes in zip(*found, strict=True)
    ]


def _told(task: Task) -> dict[str, Any]:
    """The settings of the strategies that are not the defaults."""
    mine, plain = task.plan.settings, type(task.plan.settings)()
    names = [name for name in mine.__slots__ if not name.startswith("_") and name not in PLACES]
    told = {name: getattr(mine, name) for name in names if getattr(mine, name) != getattr(plain, name)}
    asking = task.plan.tape.asking if task.plan.tape is not None else None
    if asking is None:
        return told
    reader, judge = (f"{chat.provider}/{chat.model}" for chat in (asking.reader, asking.judge))
    return {**told, "reader": reader, "judge": judge, "replicates": asking.replicates}
