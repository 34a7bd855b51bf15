"""The runner of evals: each session goes through every arm at every cut, and each view is scored.

Sessions run in parallel processes, and their outcomes come back in order. Recall, expand and search are measured on
the reference arm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Protocol

import anyio

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation import baselines
from summarizing_context.evaluation.arms import ARMS, REFERENCE, Arm, ArmView
from summarizing_context.evaluation.artifacts import last_operations
from summarizing_context.evaluation.cases.model import Case, Cut, Message, Probe, Read, read_session, tokens_before
from summarizing_context.evaluation.cases.verdicts import Text, Verdict
from summarizing_context.evaluation.cassettes import Cassette, scrub_case
from summarizing_context.evaluation.figures import Ground, Scored, Source, Sum, Sums, score_view
from summarizing_context.evaluation.models import CassetteFile, open_summarizer, summarizes_by_model
from summarizing_context.evaluation.outcomes import ProbeOutcome, SessionOutcome, ViewOutcome
from summarizing_context.evaluation.strategies import StrategyArm, open_arm
from summarizing_context.messages.reading import Reading, is_reminder, read_message
from summarizing_context.settings.values import Settings

_SHOWN = 400  # characters of evidence


class CaseSource(Protocol):
    """Where one case comes from; made in the process that needs it."""

    def load(self) -> Case: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """How cases are run."""

    settings: Settings = field(default_factory=Settings)
    arms: tuple[str, ...] = ()  # all of them if none is named
    cassette_file: CassetteFile | None = None  # where a model summarizes

    def chosen(self) -> list[Arm]:
        """The arms to run; the reference is always among them."""
        return [arm for arm in ARMS if not self.arms or arm.name in (*self.arms, REFERENCE)]


def run_sources(
    sources: Sequence[CaseSource], plan: Plan, *, jobs: int = 1, cassette: Cassette | None = None
) -> Iterator[SessionOutcome]:
    """Run the cases, `jobs` at a time, in the order of the sources. With an open cassette they run one by one; without
    one, what models say is replayed from the plan's."""
    jobs = min(jobs, len(sources))
    if jobs <= 1 or cassette is not None:
        yield from (run_source(source, plan=plan, cassette=cassette) for source in sources)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(partial(run_source, plan=plan), sources)


def run_source(source: CaseSource, *, plan: Plan, cassette: Cassette | None = None) -> SessionOutcome:
    """Load one case and run it, in an event loop of its own."""
    if cassette is None and plan.cassette_file is not None:
        cassette = Cassette.open(plan.cassette_file.path, redact=plan.cassette_file.redaction())
    return anyio.run(run_case, source.load(), plan, cassette)


async def run_case(case: Case, plan: Plan, cassette: Cassette | None = None) -> SessionOutcome:
    """Every arm at every cut of one session; what models say comes through the cassette."""
    if cassette is not None:
        case = scrub_case(case, cassette)
    reads = read_session(case.messages)
    results = _Results(case, reads)
    if cassette is None and summarizes_by_model(plan.settings):
        raise SettingsError("summaries by a model are measured through a cassette; name its file")
    async with AsyncExitStack() as stack:
        summarizer = await stack.enter_async_context(open_summarizer(plan.settings, cassette))
        strategies = {
            arm.name: await stack.enter_async_context(open_arm(arm.settings(plan.settings), case, summarizer))
            for arm in plan.chosen()
            if arm.strategy
        }
        recaller = await stack.enter_async_context(open_arm(plan.settings, case)) if summarizer is None else None
        for cut in sorted(case.cuts, key=lambda cut: cut.at):
            views = await _views_at(_past(case, cut, reads), strategies, plan)
            if cassette is not None:
                cassette.check()  # a context makes good what is missing; an eval must not
            if views is None:
                results.skipped.append(f"{cut.at}: everything before it fits into {cut.budget} tokens")
            else:
                results.add(cut, views)
                results.add_retrieval(
                    await measure_retrieval(strategies[REFERENCE], views[REFERENCE], case.probes_at(cut))
                )
                if recaller is not None:  # with summaries by a model each use would have to be in the cassette
                    used = [probe for probe in case.probes_at(cut) if probe.kind == "used"]
                    results.add_retrieval({"recalled": await measure_recall(recaller, case, used, cut.budget)})
        if summarizes_by_model(plan.settings):
            for name, strategy in strategies.items():
                results.add_dropped(name, strategy.dropped_lines)
    return results.outcome([arm.name for arm in plan.chosen()])


async def _views_at(
    past: baselines.Past, strategies: Mapping[str, StrategyArm], plan: Plan
) -> dict[str, ArmView] | None:
    """The view of each arm; None where nothing has to be left out. The reference says how many tokens all get."""
    for strategy in strategies.values():
        await strategy.feed(past.cut.at)
    first = await strategies[REFERENCE].view(past.cut.budget)
    if first is None or not first.nodes:
        return None
    views = {REFERENCE: first}
    for arm in plan.chosen():
        if arm.name == REFERENCE:
            continue
        made: ArmView | None
        if arm.strategy:
            made = await strategies[arm.name].fitted(first.tokens)
        else:
            made = baselines.BASELINES[arm.name](past, first)
        if made is not None:  # else no budget gives a view so small: the report says which cuts an arm has
            views[arm.name] = made
    return views


def _past(case: Case, cut: Cut, reads: Sequence[Read]) -> baselines.Past:
    before = reads[: cut.at]
    return baselines.Past(case, cut, [list(read.texts) for read in before], [read.is_result for read in before])


class _Results:
    """Gathers what the cuts of one session give."""

    def __init__(self, case: Case, reads: Sequence[Read]) -> None:
        self.skipped: list[str] = []
        self._case, self._reads = case, reads
        self._sums: dict[str, dict[str, Sum]] = {}
        self._views: dict[str, list[ViewOutcome]] = {}
        self._probes: list[ProbeOutcome] = []
        self._before = tokens_before(reads)

    def add(self, cut: Cut, views: Mapping[str, ArmView]) -> None:
        ground = self._ground(cut)
        target = views[REFERENCE].tokens
        scored: dict[str, Scored] = {}
        for name, view in views.items():
            found = scored[name] = score_view(view, ground)
            self._add_sums(name, found.sums)
            outcome = ViewOutcome(cut.at, view.tokens, target, list(found.unsupported), list(found.drifted))
            self._views.setdefault(name, []).append(outcome)
        self._probes += [self._probe(probe, views[REFERENCE], scored) for probe in ground.probes]

    def add_retrieval(self, sums: Sums) -> None:
        """What leads back to what the view leaves out; of the reference arm alone."""
        self._add_sums(REFERENCE, {name: found for name, found in sums.items() if found.out_of})

    def add_dropped(self, arm: str, lines: int) -> None:
        """What grounding took out of the summaries of an arm; the values left are its unsupported ones."""
        self._add_sums(arm, {"dropped_lines": Sum(lines, 1)})

    def outcome(self, order: Sequence[str]) -> SessionOutcome:
        case = self._case
        return SessionOutcome(
            id=case.id,
            group=case.group or case.id,
            title=case.title,
            domain=case.domain,
            source=case.source,
            messages=len(case.messages),
            tokens=self._before[-1],
            budget=case.cuts[-1].budget if case.cuts else 0,
            skipped=self.skipped,
            sums={
                name: {figure: (sum.of, sum.out_of) for figure, sum in self._sums[name].items()}
                for name in order
                if name in self._sums
            },
            views={name: self._views[name] for name in order if name in self._views},
            probes=self._probes,
        )

    def _ground(self, cut: Cut) -> Ground:
        before = self._reads[: cut.at]
        source = Source(text for read in before for text in read.source)
        return Ground(self._case.probes_at(cut), self._before[cut.at], before, source, last_operations(before))

    def _add_sums(self, arm: str, sums: Sums) -> None:
        mine = self._sums.setdefault(arm, {})
        for name, found in sums.items():
            known = mine.get(name, Sum(0, 0))
            mine[name] = Sum(known.of + found.of, known.out_of + found.out_of)

    def _probe(self, probe: Probe, reference: ArmView, scored: Mapping[str, Scored]) -> ProbeOutcome:
        newest = max(probe.evidence, default=0)
        return ProbeOutcome(
            id=probe.id,
            kind=probe.kind,
            cut=probe.cut,
            question=probe.question,
            literals=list(probe.literals),
            forbid=list(probe.forbid),
            evidence=[(at, self._words(at, probe)) for at in probe.evidence],
            age=self._before[probe.cut] - self._before[newest],
            passes=reference.passes_at(newest),
            depth=probe.depth,
            used_at=probe.used_at,
            kept={name: _mark(found.verdicts[probe.id]) for name, found in scored.items()},
            why=scored[REFERENCE].verdicts[probe.id].why,
            words=scored[REFERENCE].verdicts[probe.id].words,
        )

    def _words(self, at: int, probe: Probe) -> str:
        text = Text(self._reads[at].texts)
        place = max(text.place(probe.literals[0]) if probe.literals else 0, 0)
        return text.excerpt(place, _SHOWN // 4, _SHOWN // 2)


def _mark(verdict: Verdict) -> int:
    return -1 if verdict.stale else int(verdict.kept)


TOKENS = 2_000  # of the page
_FOLDER = re.compile(r"(\S*/)\{([^\s{}]+)\}")


async def measure_recall(arm: StrategyArm, case: Case, probes: Sequence[Probe], budget: int) -> Sum:
    """Of the values that the view at their use does not show, those that the page holds."""
    uses: dict[int, list[Probe]] = {}
    for probe in probes:
        if probe.used_at is not None:
            uses.setdefault(probe.used_at, []).append(probe)
    held = missing = 0
    for at in sorted(uses):
        await arm.feed(at)
        view = await arm.view(budget)
        shown = Text(view.texts if view else ())
        missing_probes = [probe for probe in uses[at] if not shown.holds(probe.literals[0])]
        if missing_probes:
            page = Text([with_folder_paths(await arm.recall(query_before(case.messages, at), TOKENS))])
            held += sum(page.holds(probe.literals[0]) for probe in missing_probes)
            missing += len(missing_probes)
    return Sum(held, missing)


def with_folder_paths(page: str) -> str:
    """A page with the paths of a folder, `src/{app.py,page.py}`, one by one, as its reader understands them."""
    paths = [f"{folder}{name}" for folder, names in _FOLDER.findall(page) for name in names.split(",")]
    return "\n".join([page, *paths])


def query_before(messages: Sequence[Message], at: int) -> str:
    """The newest words of the human and of the assistant before a message."""
    human = _newest(messages, at, lambda reading: reading.human)
    return f"{human}\n{_newest(messages, at, lambda reading: reading.role == 'assistant')}".strip()


def _newest(messages: Sequence[Message], at: int, wanted: Callable[[Reading], bool]) -> str:
    for message in reversed(messages[:at]):
        reading = read_message(message)
        texts = [text for part in reading.parts if part.kind == "text" for text in part.texts if not is_reminder(text)]
        if wanted(reading) and (words := "\n".join(texts).strip()):
            return words
    return ""


HITS = 10
PAGE_TOKENS = 2_000  # of the page about a node
_NO_QUESTIONS = ("used", "abstention")  # kinds without words to search for, or without an answer


class RetrievalArm(Protocol):
    """An arm that can be asked about what its view leaves out."""

    def drops(self) -> Mapping[range, tuple[str, ...]]:
        """The nodes of the view, each with the values that it says it does not hold."""

    async def paragraph(self, node: range, tokens: int) -> str: ...

    async def hits(self, query: str, limit: int) -> list[range]: ...


async def measure_retrieval(arm: RetrievalArm, view: ArmView, probes: Sequence[Probe]) -> Sums:
    """Of the used values that the view leaves out, those that the nodes over them name or show when they are asked;
    of the planted questions, those whose evidence search finds."""
    hinted = shown = missing = 0
    texts = Text(view.texts)
    pages: dict[range, Text] = {}
    drops = {node: Text(["\n".join(values)]) for node, values in arm.drops().items()}
    for probe in (probe for probe in probes if probe.kind == "used" and not texts.holds(probe.literals[0])):
        node = next((node for node in drops if node.start <= max(probe.evidence, default=-1) < node.stop), None)
        if node is None:
            continue
        if node not in pages:
            pages[node] = Text([await arm.paragraph(node, PAGE_TOKENS)])
        hinted += drops[node].holds(probe.literals[0])
        shown += pages[node].holds(probe.literals[0])
        missing += 1
    searchable = [probe for probe in probes if probe.kind not in _NO_QUESTIONS and probe.evidence and probe.question]
    found = [
        any(at in hit for hit in await arm.hits(probe.question, HITS) for at in probe.evidence) for probe in searchable
    ]
    return {
        "hinted": Sum(hinted, missing),
        "drilled": Sum(shown, missing),
        "searched": Sum(sum(found), len(found)),
    }
