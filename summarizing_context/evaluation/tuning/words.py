"""What a run of tuning amounts to, in sentences. Pure."""

from __future__ import annotations

from summarizing_context.evaluation.intervals import Interval
from summarizing_context.evaluation.tuning.outcome import LEAST_SESSIONS, TuneOutcome


def headline(run: TuneOutcome) -> list[str]:
    """The sentences that matter, the most important first."""
    verdict, lines = run.verdict, []
    if run.winner == run.start:
        lines.append("Nothing that was tried is better than the start on the sessions that were tuned on.")
    elif verdict.gain is not None:
        sure = "surely" if verdict.is_sure else "not surely"
        lines.append(f"On held-out sessions the winner is {sure} better than the start: {_change(verdict.gain)}.")
        if verdict.gain.sessions < LEAST_SESSIONS:
            lines.append(f"{verdict.gain.sessions} held-out sessions are too few to be sure of anything; give more.")
    if run.winner != run.shipped and run.start != run.shipped and verdict.gap is not None:
        lines.append(f"The shipped figures are ahead of the start by {_change(verdict.gap)} there.")
        if verdict.recovered is not None:
            lines.append(f"Tuning regained {_share(verdict.recovered)} of that.")
        else:
            lines.append("That way is not surely there, so no share of it is told.")
    if verdict.wanted:
        passed = "does not hold" if verdict.failed else "holds"
        lines.append(
            f"The claim {passed}: at least {verdict.wanted:.0%} regained, and a gain whose interval excludes zero."
        )
    lines.append(f"It ended because {run.stopped}.")
    return lines


def _change(interval: Interval) -> str:
    return f"{interval.mean:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]"


def _share(interval: Interval) -> str:
    return f"{interval.mean:.0%} [{interval.low:.0%}, {interval.high:.0%}]"
