"""One variant on one session: the quality of its views at equal tokens, their cost, and its summaries beside others'.

Each process loads a session once, because many variants use it. Summaries of two variants are compared on held-out
sessions; what a model says about them is in the cassette by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

import anyio
import msgspec

from summarizing_context.evaluation.arms import ArmView
from summarizing_context.evaluation.cases.model import Case, Cut, Probe, read_session, tokens_before
from summarizing_context.evaluation.cases.sources import CaseSource
from summarizing_context.evaluation.cases.verdicts import Text, Verdict
from summarizing_context.evaluation.cassettes import Cassette, scrub_case
from summarizing_context.evaluation.figures import score_retention
from summarizing_context.evaluation.models import open_summarizer
from summarizing_context.evaluation.outcomes import Interval, mean_of, ratios
from summarizing_context.evaluation.strategies import StrategyArm, open_arm
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.settings.values import Settings

VIEW_SHARE = 0.5  # of a cut's budget: the tokens that every variant's view is given
_TRIES = 4  # budgets to find such a view
_LOST = 12  # lost values of one session that are told
Sum = tuple[float, float]  # of, out of


class SessionScore(msgspec.Struct, frozen=True):
    """What one variant's views of one session hold."""

    group: str
    sums: dict[str, Sum]  # by figure
    view_tokens: int
    summary_tokens: int  # of these
    views: int
    history_tokens: int = 0
    model_tokens: int = 0  # read and written for its summaries
    lost: list[str] = []  # in words, for the proposer of better prompts


class TrialPool:
    """Tries variants on sessions, some at a time. While a cassette records or forecasts, they run one by one."""

    def __init__(self, jobs: int = 1, cassette: Cassette | None = None) -> None:
        self._cassette = cassette
        parallel = jobs > 1 and (cassette is None or cassette.mode == "replay")
        self._pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) if parallel else None

    def __enter__(self) -> TrialPool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def scores(self, sources: Sequence[CaseSource], settings: Settings) -> Iterator[SessionScore]:
        """A score for each session, in their order."""
        if self._pool is not None:
            path = None if self._cassette is None else self._cassette.path
            return self._pool.map(partial(_replayed, settings=settings, path=path), sources)
        return map(partial(try_variant, settings=settings, cassette=self._cassette), sources)


def try_variant(source: CaseSource, settings: Settings, cassette: Cassette | None = None) -> SessionScore:
    """The variant that the settings say, on one session; what a model says comes through the cassette."""
    return anyio.run(_try, load(source), settings, cassette)


def _replayed(source: CaseSource, settings: Settings, path: Path | None) -> SessionScore:
    return try_variant(source, settings, None if path is None else _recorded(path))


@lru_cache(maxsize=1)
def _recorded(path: Path) -> Cassette:
    return Cassette.open(path)


@lru_cache(maxsize=512)
def load(source: CaseSource) -> Case:
    """A session; the same object again for the same source."""
    return source.load()


async def _try(case: Case, settings: Settings, cassette: Cassette | None) -> SessionScore:
    sums: dict[str, Sum] = {}
    lost: list[str] = []
    shown: list[ArmView] = []
    if cassette is not None:
        case = scrub_case(case, cassette)
    async with views_of(case, settings, cassette) as (arm, views):
        async for cut, view in views:
            verdicts = _add(sums, view, case.probes_at(cut))
            lost += [_feedback(probe, cut) for probe in case.probes_at(cut) if not verdicts[probe.id].kept]
            shown.append(view)
        model_tokens = arm.model_tokens
    return SessionScore(
        group=case.group or case.id,
        sums=sums,
        view_tokens=sum(view.tokens for view in shown),
        summary_tokens=sum(estimate_text(text) for view in shown for text in view.summaries),
        views=len(shown),
        history_tokens=tokens_before(read_session(case.messages))[-1],
        model_tokens=model_tokens,
        lost=lost[:_LOST],
    )


@asynccontextmanager
async def views_of(
    case: Case, settings: Settings, cassette: Cassette | None
) -> AsyncIterator[tuple[StrategyArm, AsyncIterator[tuple[Cut, ArmView]]]]:
    """The arm of a session, and its views at the cuts at which something has to be left out, one after the other."""
    async with open_summarizer(settings, cassette) as summarizer, open_arm(settings, case, summarizer) as arm:

        async def views() -> AsyncIterator[tuple[Cut, ArmView]]:
            before = tokens_before(read_session(case.messages))
            for cut in sorted(case.cuts, key=lambda cut: cut.at):
                if before[cut.at] <= cut.budget:
                    continue
                await arm.feed(cut.at)
                if cassette is not None:
                    cassette.check()  # a context makes good what is missing; a trial must not
                view = await arm.fitted(round(VIEW_SHARE * cut.budget), tries=_TRIES)
                yield cut, view or ArmView(pieces=(), tokens=0)

        yield arm, views()


def _add(sums: dict[str, Sum], view: ArmView, probes: Sequence[Probe]) -> dict[str, Verdict]:
    found, verdicts = score_retention(view, probes)
    for name, (of, out_of) in found.items():
        if out_of:
            known = sums.get(name, (0, 0))
            sums[name] = (known[0] + of, known[1] + out_of)
    return verdicts


def _feedback(probe: Probe, cut: Cut) -> str:
    """Hindsight in words: what was needed later, and was dropped."""
    words = ", ".join(probe.literals[:3])
    when = f"used later at message {probe.used_at}" if probe.used_at is not None else f"asked for at message {cut.at}"
    return f"{words!r} ({probe.kind}), {when}, was dropped"


FIGURES = ("used", "literals")
MODEL_COST = "tokens a model reads and writes for 1,000 tokens of history"
VIEW_COST = "tokens that summaries take in a view"
QUALITY_MEANING = "the mean of hindsight retention and literal retention"


def qualities(scores: Sequence[SessionScore]) -> dict[str, float]:
    """The quality of each session: the mean of its figures. One session at several budgets is one."""
    shares = [ratios((score.group, score.sums.get(figure, (0, 0))) for score in scores) for figure in FIGURES]
    groups = dict.fromkeys(group for found in shares for group in found)
    return {group: fmean(found[group] for found in shares if group in found) for group in groups}


def quality(scores: Sequence[SessionScore]) -> Interval | None:
    """The mean over sessions with its interval; None where nothing was asked."""
    return mean_of(qualities(scores))


def cost(scores: Sequence[SessionScore]) -> float:
    """What the summaries cost: where a model makes them, what it reads and writes, else their tokens in a view."""
    if spent := sum(score.model_tokens for score in scores):
        return 1_000 * spent / max(1, sum(score.history_tokens for score in scores))
    return sum(score.summary_tokens for score in scores) / max(1, sum(score.views for score in scores))


_MOST_SESSIONS = 8
_MOST_PAIRS = 6
_MOST_OF_A_SESSION = 2
_MOST_VALUES = 8  # that are named
Messages = tuple[int, int]  # the first, and one past the last


class Pair(msgspec.Struct, frozen=True):
    """Two summaries of the same messages."""

    session: str
    start: int  # first message
    stop: int  # one past the last
    old: str
    new: str
    needed: list[str]  # values of these messages that something asks for later
    old_keeps: list[str]  # of these
    new_keeps: list[str]

    @property
    def title(self) -> str:
        return f"{self.session}, messages {self.start} to {self.stop - 1}"

    def kept(self, values: Sequence[str]) -> str:
        """What one of the two keeps, in words."""
        if not self.needed:
            return "no value of these messages is needed later"
        lost = [value for value in self.needed if value not in values]
        told = f"keeps {len(values)} of {len(self.needed)} values that are needed later"
        told += f": {_few(values)}" if values else ""
        return f"{told}; drops {_few(lost)}" if lost else told


def _few(values: Sequence[str]) -> str:
    more = len(values) - _MOST_VALUES
    return ", ".join(values[:_MOST_VALUES]) + (f" and {more} more" if more > 0 else "")


def most_changed(
    sources: Sequence[CaseSource], old: Settings, new: Settings, cassette: Cassette | None = None
) -> list[Pair]:
    """The pairs of summaries that differ in most words, from several sessions."""
    found = [pair for source in sources[:_MOST_SESSIONS] for pair in _pairs(load(source), old, new, cassette)]
    chosen: list[Pair] = []
    sessions: Counter[str] = Counter()
    for pair in sorted(found, key=lambda one: -_changed(one)):
        if sessions[pair.session] < _MOST_OF_A_SESSION and len(chosen) < _MOST_PAIRS:
            sessions[pair.session] += 1
            chosen.append(pair)
    return chosen


def _pairs(case: Case, old: Settings, new: Settings, cassette: Cassette | None) -> Iterator[Pair]:
    if cassette is not None:
        case = scrub_case(case, cassette)
    before, after = (anyio.run(_summaries, case, settings, cassette) for settings in (old, new))
    for start, stop in sorted(before.keys() & after.keys()):
        first, second = before[start, stop], after[start, stop]
        if first != second:
            needed = _needed(case, start, stop)
            keeps = [[value for value in needed if Text([text]).holds(value)] for text in (first, second)]
            yield Pair(case.group or case.id, start, stop, first, second, needed, *keeps)


async def _summaries(case: Case, settings: Settings, cassette: Cassette | None) -> dict[Messages, str]:
    """The summaries of all segments, and those that views show."""
    found: dict[Messages, str] = {}
    async with views_of(case, settings, cassette) as (arm, views):
        async for _, view in views:
            nodes = (*arm.summaries(), *view.nodes)
            found |= {(node.start, node.stop): node.text for node in nodes}
    return found


def _needed(case: Case, start: int, stop: int) -> list[str]:
    probes = [probe for probe in case.probes if any(start <= at < stop for at in probe.evidence)]
    return list(dict.fromkeys(literal for probe in probes for literal in probe.literals))


def _changed(pair: Pair) -> int:
    """Words that only one of the two has."""
    old, new = Counter(pair.old.split()), Counter(pair.new.split())
    return (old - new).total() + (new - old).total()
