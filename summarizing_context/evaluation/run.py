"""A run: the views of all arms at the places of a data set, scored, with what they took.

All arms that need no settings of this package show as many tokens as the first arm's view. What a model says comes
through a cassette, so a run that stopped goes on, and a finished one is repeated without a key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.cassettes import Cassette, Mode, open_summarizer
from summarizing_context.evaluation.datasets import Dataset, Log, read_messages
from summarizing_context.evaluation.outcomes import changed_settings, for_each
from summarizing_context.evaluation.recording import SCALE, Question, Recording
from summarizing_context.evaluation.replay import LAW_FIGURES
from summarizing_context.evaluation.report import ABSENT, EVIDENCE, HELD, RIGHT, Answer, Asked, Report, Spent, Viewed
from summarizing_context.evaluation.views import (
    ARMS,
    COMPACT,
    OURS,
    Case,
    Message,
    Past,
    Played,
    Text,
    build,
    digest,
    mechanical,
    play,
)
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings.values import PROVIDERS, Settings
from summarizing_context.summarizers.base import Summarizer
from summarizing_context.summarizers.prices import load_prices
from summarizing_context.summarizers.providers import make_model

MECHANICAL = ("tail", "masking", "cliff")


@dataclass(frozen=True)
class Arm:
    """A way to make views: this package with settings (a strategy, prompts, a model, a budget), or one of `tail`,
    `masking` and `cliff`, which need none. Recorded answers have more arms, by name. A `summarizer` of your own takes
    the place of that of the settings; nothing of it is kept in a cassette."""

    name: str
    settings: Settings | None = None
    summarizer: Summarizer | None = None
    about: str = ""


@dataclass(frozen=True)
class Metric:
    """How a view is scored: `points` from 0 to 1 for a question and the text of a view; None where it does not apply.

    `Text.holds` tells whether words stand in a view.
    """

    name: str
    points: Callable[[Question, Text], float | None]


def _held(question: Question, view: Text) -> float | None:
    return sum(map(view.holds, question.values)) / len(question.values) if question.values else None


def _evidence(question: Question, view: Text) -> float | None:
    return None if question.category == ABSENT else view.share(question.answer, question.question)


VALUES_HELD = Metric(HELD, _held)  # the share of a question's values that stand in the view, word for word
EVIDENCE_KEPT = Metric(EVIDENCE, _evidence)  # the share of the gold answer's words that stand together in the view


class Price(msgspec.Struct, frozen=True):
    """What one model is asked for: of a forecast what is not recorded yet, else what was sent."""

    model: str
    address: str
    calls: int
    by_kind: dict[str, int]
    input_tokens: int
    output_tokens: int
    recorded: int  # answered from the cassette
    estimated_cost: float | None  # US dollars
    priced: str = ""  # prices for a million tokens, and their date


class _Part(NamedTuple):
    """What came of one log."""

    asked: list[Asked]
    views: list[Viewed]
    spent: list[Spent]
    missing: int
    left_out: list[str]


@dataclass
class Run:
    """Measure arms on a data set.

    Args:
        dataset: What is measured.
        arms: Ways to make views, the one that the run is about first. By default this package without a model, beside
            two ways that need none; of recorded answers all arms that were read.
        metrics: By default the values held; of recorded answers, beside their marks, the evidence kept.
        cassette: The file of replies, where an arm's settings name a model.
        baseline: The arm that the others are compared with.
        jobs: Logs at a time; one where a model is asked.
        redact: Names a function that takes secrets out of messages, as `module:function`.
    """

    dataset: Dataset
    arms: Sequence[Arm] = ()
    metrics: Sequence[Metric] = ()
    cassette: Path | str | None = None
    baseline: str = ""
    jobs: int = 1
    redact: str | None = None
    _own: bool = field(init=False, default=False)  # has objects that other processes cannot be given

    def __post_init__(self) -> None:
        recording = self.dataset.recording
        if not self.arms and recording is not None:
            read = {arm for _, arm in Recording.open(recording).answers}
            takes_all = self.dataset.bounds or not read
            self.arms = [Arm(name) for name in ARMS if takes_all or name in read]
        elif not self.arms:
            self.arms = [Arm(OURS, Settings(max_tokens=8_000)), Arm("tail"), Arm("masking")]
        self.metrics = self.metrics or ([VALUES_HELD] if recording is None else [EVIDENCE_KEPT])
        known = ARMS if recording is not None else MECHANICAL
        for arm in self.arms:
            if arm.settings is None and arm.name not in known:
                raise SettingsError(f"there is no arm {arm.name!r}; there are {', '.join(known)}, or give it settings")
            if arm.settings and arm.settings.summarizer in PROVIDERS and not (arm.summarizer or self.cassette):
                raise SettingsError(f"{arm.name}: summaries by a model come through a cassette; name its file")
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise SettingsError(f"two arms have one name: {', '.join(names)}")
        if recording is None and self.arms[0].settings is None:
            raise SettingsError(f"{names[0]}: the first arm needs settings, for the others show as many tokens")
        preferred = (self.baseline, COMPACT, "tail", *names[1:], names[0])
        self.baseline = next(name for name in preferred if name in names)
        self._own = any(arm.summarizer for arm in self.arms) or any(
            one not in (VALUES_HELD, EVIDENCE_KEPT) for one in self.metrics
        )

    @property
    def models(self) -> list[Settings]:
        """The settings of arms whose summaries a model writes."""
        arms = (arm for arm in self.arms if arm.summarizer is None and arm.settings is not None)
        return [arm.settings for arm in arms if arm.settings and arm.settings.summarizer in PROVIDERS]

    def open(self, mode: Mode, max_calls: int | None = None) -> Cassette | None:
        """Return the cassette of the run, to be entered; None where no model is asked."""
        keys = [settings.api_key for settings in self.models]
        if not self.models or self.cassette is None:
            return None
        return Cassette(Path(self.cassette), mode, max_calls=max_calls, secrets=keys, redact=self.redact)

    def price(self) -> list[Price]:
        """Return, by model, what is not recorded yet and what it will take. Nothing is sent."""
        if (cassette := self.open("forecast")) is None:
            return []
        with cassette:
            self.report(cassette)
        return prices_of(cassette, self.models)

    def report(self, cassette: Cassette | None = None, watch: Callable[[str], None] = lambda _: None) -> Report:
        """Measure, and return the report. Without an open cassette, replies are replayed. `watch` is called with each
        log. Raise `CassetteMissError` for a reply that is not recorded, `CassetteLimitError` at a cap.
        """
        logs = self.dataset.logs
        jobs = 1 if cassette is not None or self._own else self.jobs
        if jobs == 1:
            parts: Iterator[_Part] = (self._measure_now(log, cassette) for log in logs)
        else:
            parts = for_each(logs, partial(_measure_alone, run=self), jobs)
        found = []
        for log, part in zip(logs, parts, strict=True):
            found.append(part)
            watch(log.name)
        asked = [one for part in found for one in part.asked]
        made_by: dict[str, list[str]] = {}
        if self.dataset.recording is not None:
            made_by = _makers(Recording.open(self.dataset.recording))
        is_marked = any(RIGHT in answer.points for one in asked for answer in one.answers.values())
        about = {arm.name: arm.about or _about(arm) for arm in self.arms}
        shown = {arm.name: changed_settings(arm.settings) for arm in self.arms if arm.settings is not None}
        for values in shown.values():
            values |= {name: Path(value).name for name, value in values.items() if isinstance(value, Path)}
        return Report(
            name=self.dataset.name,
            arms=about,
            metric=RIGHT if is_marked else self.metrics[0].name,
            baseline=self.baseline,
            asked=asked,
            views=[one for part in found for one in part.views],
            spent=[one for part in found for one in part.spent],
            claim=self.dataset.claim,
            settings=shown,
            bounds=[bound for bound in self.dataset.bounds if (bound.arm or OURS) in about],
            made_by=made_by,
            missing=sum(part.missing for part in found),
            left_out=[*self.dataset.skipped, *(line for part in found for line in part.left_out)],
        )

    def _measure_now(self, log: Log, cassette: Cassette | None) -> _Part:
        if cassette is None and (replaying := self.open("replay")) is not None:
            with replaying:
                return anyio.run(self._measure, log, replaying)
        return anyio.run(self._measure, log, cassette)

    async def _measure(self, log: Log, cassette: Cassette | None) -> _Part:
        """Measure one log: the views of all arms at its cuts, then each question of each view."""
        first = next((arm.settings for arm in self.arms if arm.settings is not None), Settings())
        if cassette is None:
            messages, cases = log.open(int(first.max_tokens))
        else:  # questions for secrets are left out
            messages, cases = log.open(int(first.max_tokens), cassette.scrub)
            cases = [
                (case, [one for one in questions if all(cassette.clean(text) == text for text in one.values)])
                for case, questions in cases
            ]
        recording = None if self.dataset.recording is None else Recording.open(self.dataset.recording)
        history = sum(read.tokens for read in read_messages(messages))
        texts: dict[tuple[str, str], str] = {}  # by arm and case
        spent, missing = [], 0

        # This package's views, by settings. Recorded cases have budgets of their own.
        for arm in self.arms:
            if arm.settings is None:
                continue
            budget = cases[0][0].budget if recording is not None else arm.settings.max_tokens
            settings = replace(arm.settings, max_tokens=budget)
            cuts = [case.cut for case, _ in cases]
            async with AsyncExitStack() as stack:
                summarizer = arm.summarizer
                if summarizer is None:
                    summarizer = await stack.enter_async_context(open_summarizer(settings, cassette))
                played = await play(messages, cuts, settings, summarizer, fresh=recording is None)
            if cassette is not None:
                cassette.check()  # a context makes good what is missing; an eval must not
            spent.append(_spent(log, arm.name, history, played))
            texts |= {(arm.name, case.name): played.views[case.cut] for case, _ in cases}
        refused = [case.name for case, _ in cases if "" in (texts.get((arm.name, case.name)) for arm in self.arms)]
        left_out = [f"{name}: its system rows leave no room; take a larger budget" for name in refused]
        cases = [(case, questions) for case, questions in cases if case.name not in refused]

        # Recorded arms, then those that need nothing and cost nothing.
        if recording is None:
            spent += [Spent(log.session, arm.name, history) for arm in self.arms if arm.settings is None]
        for case, _ in cases:
            names = [arm.name for arm in self.arms if arm.settings is None]
            if recording is not None and set(names) - {*MECHANICAL}:
                built = await build(case, messages, recording.replies, names, recording.settings)
                missing += len(built.missing) + built.waiting
                texts |= {(name, case.name): text for name, text in built.views.items()}
                for name in names:
                    if name == OURS:
                        spent.append(_spent(log, name, history, built.played[OURS]))
                    elif name.startswith(COMPACT):
                        spent.append(Spent(log.session, name, history, built.compaction_tokens))
                    else:
                        spent.append(Spent(log.session, name, history))
            elif names:
                past = Past(messages[: case.cut], estimate_text(texts[self.arms[0].name, case.name]))
                texts |= {(name, case.name): mechanical(name, past) for name in names}

        asked, views = [], []
        for case, questions in cases:
            searched = {arm.name: Text([texts.get((arm.name, case.name), "")]) for arm in self.arms}
            for arm in self.arms:
                view = texts.get((arm.name, case.name))
                reading = "" if recording is None else _reading(recording, case, arm.name, view)
                views.append(Viewed(case.name, arm.name, None if view is None else estimate_text(view), reading))
            for one in questions:
                answers = {}
                for name, text in searched.items():
                    if (answer := self._answer(one, case, name, text, recording)) is not None:
                        answers[name] = answer
                evidence = [(at, _words(messages[at], one)) for at in one.evidence if at < len(messages)]
                told = one.id, one.question, answers, one.category, one.answer, list(one.values), evidence
                if answers:
                    asked.append(Asked(case.drawn_as, case.name, *told))
        return _Part(asked, views, spent, missing, left_out)

    def _answer(self, one: Question, case: Case, arm: str, view: Text, recording: Recording | None) -> Answer | None:
        """Return what a view says to a question, or a reader of it, with its points; None where nothing is scored."""
        scored = ((metric.name, metric.points(one, view)) for metric in self.metrics)
        points = {name: value for name, value in scored if value is not None}
        said, mark = " … ".join(filter(None, map(view.excerpt, one.values[:4]))), None
        read = None if recording is None else recording.answers.get((case.name, arm))
        if recording is not None and read is not None:
            said = read.answers.get(one.id, "")
            if (marked := recording.marks.get((case.name, one.id, arm))) is not None:
                mark = marked.mark
                points = {RIGHT: right(mark), **points}
        return Answer(said, points, mark) if points or read is not None else None


def _measure_alone(log: Log, run: Run) -> _Part:
    return run._measure_now(log, None)


def right(mark: int) -> float:
    """Return the points of a judge's mark: one for right, half for partly right."""
    return {SCALE["right"]: 1.0, SCALE["partly"]: 0.5}.get(mark, 0.0)


def _words(message: Message, question: Question) -> str:
    """The words of a message around the first value that it holds; else those it begins with."""
    text = Text(read_messages([message])[0].words)
    return next(filter(None, map(text.excerpt, question.values)), "") or " ".join(text.text[:180].split())


def _about(arm: Arm) -> str:
    if arm.settings is None:
        return ARMS[arm.name]
    model = arm.settings.model if arm.settings.summarizer in PROVIDERS else None
    by = f"summaries by {model}" if model else "no model" if arm.summarizer is None else "own summaries"
    return f"this package, {by}"


def _spent(log: Log, arm: str, history: int, played: Played) -> Spent:
    laws = {name: getattr(played.tally, name) for name in LAW_FIGURES if getattr(played.tally, name)}
    tokens = played.tally.model_input_tokens, played.tally.model_output_tokens
    return Spent(log.session, arm, history, *tokens, played.dropped, laws, played.summaries)


def _reading(recording: Recording, case: Case, arm: str, view: str | None) -> str:
    """Whether the recorded answers were read from this view."""
    answers = recording.answers.get((case.name, arm))
    if view is None:
        return "no view"
    return "not read" if answers is None else "this view" if answers.view == digest(view) else "an earlier view"


def _makers(recording: Recording) -> dict[str, list[str]]:
    """Who wrote what, with how often."""
    makers = {
        "summaries": Counter(f"{one.model}, {one.reading}" for one in recording.replies.values()),
        "answers": Counter(f"{one.model}, {one.reading}" for one in recording.answers.values()),
        "marks": Counter(one.model for one in recording.marks.values()),
    }
    return {
        what: [f"{maker} ({n:,})" for maker, n in counts.most_common()] for what, counts in makers.items() if counts
    }


def prices_of(cassette: Cassette, models: Sequence[Settings]) -> list[Price]:
    """Return what a cassette was asked for, by model."""
    prices, addresses = load_prices(models[0].prices), dict[str, list[str]]()
    for settings in models:
        address = make_model(settings, read_only=True).address
        addresses.setdefault(f"{settings.summarizer}/{settings.model}", []).append(address)
    found = []
    for name, asked in addresses.items():
        model, spent, price = name.partition("/")[2], cassette.spent[name], prices.price_of(name.partition("/")[2])
        tokens = spent.input_tokens, spent.output_tokens
        cost = None if price is None else round(price.cost(*tokens, spent.cached_tokens), 6)
        priced = (
            "" if price is None else f"${price.input:g} in, ${price.output:g} out for a million, as of {price.as_of}"
        )
        kinds = dict(sorted(spent.by_kind.items()))
        where = " and ".join(dict.fromkeys(asked))
        found.append(Price(model, where, spent.calls, kinds, *tokens, spent.replayed, cost, priced))
    return found
