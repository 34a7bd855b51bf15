"""Gates: conditions on the figures of a run that decide its exit status.

A hard gate compares a figure with a bound or with other arms. A baseline gate compares each figure of the reference
arm with accepted scores. A gate that every arm passes is reported as vacuous.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.arms import REFERENCE
from summarizing_context.evaluation.intervals import Interval, difference, mean_of, session_values
from summarizing_context.evaluation.outcomes import GateOutcome, RunOutcome, SessionOutcome
from summarizing_context.evaluation.scoring.figures import FIGURES

BASELINE = "baseline"  # begins the names of gates against accepted scores
_DIGITS = 6
_ROUNDING = 10.0 ** (1 - _DIGITS)
_FREE = ("everything", "evidence")  # references that may pass any gate without making it vacuous


class Gate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition on a figure of one arm: a bound, or a comparison with other arms."""

    figure: str
    arm: str = "hierarchical"
    at_least: float | None = None
    at_most: float | None = None
    beats: list[str] = []  # outside of the interval of the difference
    times: float = 1.0  # so many times what the others have
    source: str = ""  # only sessions of this source


class Baseline(msgspec.Struct, frozen=True):
    """Accepted scores: the figures of one arm in each session."""

    suite: str
    arm: str
    scores: dict[str, dict[str, float]]  # by figure, by session


def check_gates(run: RunOutcome, gates: Sequence[Gate]) -> list[GateOutcome]:
    """The hard gates of a suite."""
    return [_check(run, gate) for gate in gates]


def check_baseline(run: RunOutcome, baseline: Baseline) -> list[GateOutcome]:
    """No figure is worse than accepted by more than its interval. Figures that neither way is better are left out."""
    checked = []
    for figure, accepted in baseline.scores.items():
        if figure not in FIGURES or not (better := FIGURES[figure].better):
            continue
        change = difference(session_values(run.sessions, baseline.arm, figure), accepted)
        name = f"{BASELINE} {figure}"
        if change is None:
            checked.append(GateOutcome(name, "nothing to look at", "no session of the baseline has this figure now"))
            continue
        worse = change.high < -_ROUNDING if better > 0 else change.low > _ROUNDING
        mean, low, high = (round(value, 4) + 0.0 for value in change[:3])  # no minus before a zero
        words = f"{mean:+.4f} [{low:+.4f}, {high:+.4f}] against the accepted scores"
        checked.append(GateOutcome(name, "failed" if worse else "passed", words))
    return checked


def baseline_of(run: RunOutcome, arm: str = REFERENCE) -> Baseline:
    """The scores of a run, to be accepted."""
    scores = {}
    for figure, definition in FIGURES.items():
        if definition.better and (values := session_values(run.sessions, arm, figure)):
            scores[figure] = {key: round(value, _DIGITS) for key, value in values.items()}
    return Baseline(run.suite, arm, scores)


def read_baseline(path: Path) -> Baseline | None:
    """The accepted scores of a suite; None where none were accepted yet."""
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Baseline)
    except msgspec.DecodeError as error:
        raise SettingsError(f"{path.name}: no baseline ({error}); accept one anew with `eval run --accept`") from error


def write_baseline(path: Path, baseline: Baseline) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(baseline), indent=1) + b"\n")


def _check(run: RunOutcome, gate: Gate) -> GateOutcome:
    sessions = [session for session in run.sessions if not gate.source or session.source == gate.source]
    name = _name(gate)
    ours = mean_of(session_values(sessions, gate.arm, gate.figure))
    if ours is None:
        return GateOutcome(name, "nothing to look at", f"no session gives {gate.arm} this figure")
    if gate.beats:
        return _check_against(sessions, gate, name)
    passed = _within(gate, ours)
    others = [arm for arm in run.arms if arm not in (gate.arm, *_FREE)]
    means = {arm: mean for arm in others if (mean := mean_of(session_values(sessions, arm, gate.figure)))}
    words = f"{ours.mean:.4f} over {ours.sessions} sessions"
    if passed and means and all(_within(gate, mean) for mean in means.values()):
        return GateOutcome(name, "vacuous", f"{words}; but so do {', '.join(means)}")
    return GateOutcome(name, "passed" if passed else "failed", words)


def _check_against(sessions: Sequence[SessionOutcome], gate: Gate, name: str) -> GateOutcome:
    """Whether our arm is better than each of the others, by a margin outside of the interval."""
    comparisons, failed = [], False
    sign = FIGURES[gate.figure].better or 1
    ours = session_values(sessions, gate.arm, gate.figure)
    for arm in gate.beats:
        theirs = session_values(sessions, arm, gate.figure)
        margin = difference(ours, {key: gate.times * value for key, value in theirs.items()})
        if margin is None:
            return GateOutcome(name, "nothing to look at", f"no session gives both {gate.arm} and {arm} this figure")
        failed |= (margin.low if sign > 0 else -margin.high) <= 0
        comparisons.append(f"{arm} {margin.mean:+.4f} [{margin.low:+.4f}, {margin.high:+.4f}]")
    return GateOutcome(name, "failed" if failed else "passed", "; ".join(comparisons))


def _within(gate: Gate, found: Interval) -> bool:
    low = gate.at_least is None or found.mean >= gate.at_least - 1e-9
    return low and (gate.at_most is None or found.mean <= gate.at_most + 1e-9)


def _name(gate: Gate) -> str:
    words: list[Any] = [f"{gate.arm}: {FIGURES[gate.figure].title if gate.figure in FIGURES else gate.figure}"]
    words += [f"at least {gate.at_least:g}"] if gate.at_least is not None else []
    words += [f"at most {gate.at_most:g}"] if gate.at_most is not None else []
    times = f"{gate.times:g} times " if gate.times != 1 else ""
    words += [f"better than {times}{', '.join(gate.beats)}"] if gate.beats else []
    words += [f"on {gate.source} sessions"] if gate.source else []
    return ", ".join(words)


def has_failed(run: RunOutcome) -> bool:
    return any(gate.failed for gate in run.gates)
