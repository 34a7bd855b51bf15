"""A run: the views of all arms at the places of a data set, scored, with what they took.

All arms that need no settings of this package show as many tokens as the first arm's view. What a model says comes
through a cassette, so a run that stopped goes on, and a finished one is repeated without a key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.cassettes import Cassette, Mode, Price, open_summarizer, prices_of
from summarizing_context.evaluation.datasets import Dataset, Log, read_messages
from summarizing_context.evaluation.outcomes import changed_settings, for_each
from summarizing_context.evaluation.recording import SCALE, Question, Recording
from summarizing_context.evaluation.replay import LAW_FIGURES
from summarizing_context.evaluation.report import ABSENT, EVIDENCE, HELD, RIGHT, Answer, Asked, Report, Spent, Viewed
from summarizing_context.evaluation.views import (
    ARMS,
    COMPACT,
    MECHANICAL,
    OURS,
    Message,
    Past,
    Played,
    Text,
    build,
    digest,
    mechanical,
    play,
    show_activated,
)
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings.values import PROVIDERS, Settings
from summarizing_context.summarizers.base import Summarizer


@dataclass(frozen=True)
class Arm:
    """A way to make views: this package with settings (a strategy, prompts, a model, a budget), or one of `tail`,
    `masking` and `cliff`, which need none. Recorded answers have more arms, by name. A `summarizer` of your own takes
    the place of that of the settings; nothing of it is kept in a cassette."""

    name: str
    settings: Settings | None = None
    summarizer: Summarizer | None = None
    about: str = ""

    @property
    def asks_model(self) -> bool:
        """Whether a model that the settings name writes its summaries."""
        return self.summarizer is None and self.settings is not None and self.settings.summarizer in PROVIDERS


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


@dataclass
class _Part:
    """What came of one log."""

    asked: list[Asked]
    views: list[Viewed]
    spent: list[Spent]
    left_out: list[str]
    missing: int = 0


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

    def __post_init__(self) -> None:
        folder = self.dataset.recording
        if not self.arms and folder is not None:
            read = {arm for _, arm in Recording.open(folder).answers}
            self.arms = [Arm(name) for name in ARMS if self.dataset.bounds or not read or name in read]
        self.arms = self.arms or [Arm(OURS, Settings(max_tokens=8_000)), Arm("tail"), Arm("masking")]
        self.metrics = self.metrics or [VALUES_HELD if folder is None else EVIDENCE_KEPT]
        known = MECHANICAL if folder is None else ARMS
        for arm in self.arms:
            if arm.settings is None and arm.name not in known:
                raise SettingsError(f"there is no arm {arm.name!r}; there are {', '.join(known)}, or give it settings")
            if arm.asks_model and not self.cassette:
                raise SettingsError(f"{arm.name}: summaries by a model come through a cassette; name its file")
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise SettingsError(f"two arms have one name: {', '.join(names)}")
        if folder is None and self.arms[0].settings is None:
            raise SettingsError(f"{names[0]}: the first arm needs settings, for the others show as many tokens")
        preferred = (self.baseline, COMPACT, "tail", *names[1:], names[0])
        self.baseline = next(name for name in preferred if name in names)

    @property
    def models(self) -> list[Settings]:
        """The settings of arms whose summaries a model writes."""
        return [arm.settings for arm in self.arms if arm.settings is not None and arm.asks_model]

    def _cassette(self, mode: Mode) -> Cassette | None:
        """Return the cassette of the run, to be entered; None where no model is asked."""
        if not self.models or self.cassette is None:
            return None
        keys = [settings.api_key for settings in self.models]
        return Cassette(Path(self.cassette), mode, secrets=keys, redact=self.redact)

    def price(self, watch: Callable[[str], None] = lambda _: None) -> list[Price]:
        """Return, by model, what is not recorded yet and what it will take. Nothing is sent."""
        if (cassette := self._cassette("forecast")) is None:
            return []
        self.report(cassette, watch)
        return prices_of(cassette, self.models)

    def report(self, cassette: Cassette | None = None, watch: Callable[[str], None] = lambda _: None) -> Report:
        """Measure, and return the report. Without an open cassette, replies are replayed. `watch` is called with each
        log. Raise `CassetteMissError` for a reply that is not recorded, `CassetteLimitError` at a cap.
        """
        # Other processes can be given neither an open cassette nor objects of one's own; each replays by itself.
        has_own = any(arm.summarizer for arm in self.arms) or {*self.metrics} - {VALUES_HELD, EVIDENCE_KEPT}
        if cassette is not None and cassette.mode == "replay" and self.jobs > 1:
            cassette = None
        jobs = 1 if cassette is not None or has_own else self.jobs
        parts: list[_Part] = []
        for part in for_each(self.dataset.logs, partial(self._measure_log, cassette), jobs):
            watch(self.dataset.logs[len(parts)].name)
            parts.append(part)
        asked = [one for part in parts for one in part.asked]
        is_marked = any(RIGHT in answer.points for one in asked for answer in one.answers.values())
        about, shown = {arm.name: arm.about or _about(arm) for arm in self.arms}, {}
        for arm in self.arms:
            if arm.settings is not None:
                changed = changed_settings(arm.settings).items()
                shown[arm.name] = {name: one.name if isinstance(one, Path) else one for name, one in changed}
        return Report(
            name=self.dataset.name,
            arms=about,
            metric=RIGHT if is_marked else self.metrics[0].name,
            baseline=self.baseline,
            asked=asked,
            views=[one for part in parts for one in part.views],
            spent=[one for part in parts for one in part.spent],
            claim=self.dataset.claim,
            settings=shown,
            bounds=[bound for bound in self.dataset.bounds if (bound.arm or OURS) in about],
            made_by={} if self.dataset.recording is None else _makers(Recording.open(self.dataset.recording)),
            missing=sum(part.missing for part in parts),
            left_out=[*self.dataset.skipped, *(line for part in parts for line in part.left_out)],
        )

    def _measure_log(self, cassette: Cassette | None, log: Log) -> _Part:
        if cassette is None and (replaying := self._cassette("replay")) is not None:
            cassette = replaying
        return anyio.run(self._measure, log, cassette)

    async def _measure(self, log: Log, cassette: Cassette | None) -> _Part:
        """Measure one log: the views of all arms at its cuts, then each question of each view."""
        first = next((arm.settings for arm in self.arms if arm.settings is not None), Settings())
        messages, cases = log.open(int(first.max_tokens), *(() if cassette is None else (cassette.scrub,)))
        if cassette is not None:  # questions for secrets are left out
            cases = [
                (case, [one for one in questions if all(cassette.clean(text) == text for text in one.values)])
                for case, questions in cases
            ]
        recording = None if self.dataset.recording is None else Recording.open(self.dataset.recording)
        bare = [arm.name for arm in self.arms if arm.settings is None]
        texts: dict[tuple[str, str], str] = {}  # by case and arm
        history = sum(read.tokens for read in read_messages(messages))
        part = _Part([], [], [], [])

        # This package's views, by settings. Recorded cases have budgets of their own.
        for arm in self.arms:
            if arm.settings is None:
                continue
            show, settings = None, arm.settings
            if recording is None:
                show = partial(show_activated, budget=int(settings.max_tokens))
            else:
                settings = replace(settings, max_tokens=cases[0][0].budget)
            async with AsyncExitStack() as stack:
                writer = arm.summarizer or await stack.enter_async_context(open_summarizer(settings, cassette))
                cuts = [case.cut for case, _ in cases]
                played = await play(messages, cuts, settings, writer, show, between_calls=recording is not None)
            if cassette is not None:
                cassette.check()  # a context makes good what is missing; an eval must not
            part.spent.append(_spent(log, arm.name, history, played))
            texts |= {(case.name, arm.name): played.views[case.cut] for case, _ in cases}
        refused = [case.name for case, _ in cases if "" in (texts.get((case.name, arm.name)) for arm in self.arms)]
        part.left_out += [f"{name}: its system rows leave no room; take a larger budget" for name in refused]
        cases = [(case, questions) for case, questions in cases if case.name not in refused]

        # Recorded arms, or those that need nothing and cost nothing.
        for case, _ in cases if bare else ():
            if recording is None:
                past = Past(messages[: case.cut], estimate_text(texts[case.name, self.arms[0].name]))
                views = {name: mechanical(name, past) for name in bare}
            else:
                built = await build(case, messages, recording.replies, bare, recording.settings)
                views, part.missing = built.views, part.missing + built.missing
                for name in bare:
                    tokens = built.compaction_tokens if name.startswith(COMPACT) else 0
                    spent = Spent(log.session, name, history, tokens)
                    part.spent.append(_spent(log, name, history, built.ours) if name == OURS else spent)
            texts |= {(case.name, name): text for name, text in views.items()}
        if recording is None:
            part.spent += [Spent(log.session, name, history) for name in bare]

        for case, questions in cases:
            searched = {}
            for arm in self.arms:
                view = texts.get((case.name, arm.name))
                reading = "" if recording is None else _reading(recording, case.name, arm.name, view)
                part.views.append(Viewed(case.name, arm.name, None if view is None else estimate_text(view), reading))
                searched[arm.name] = Text([view or ""])
            for one in questions:
                scored = {name: self._answer(one, case.name, name, text, recording) for name, text in searched.items()}
                answers = {name: answer for name, answer in scored.items() if answer is not None}
                evidence = [(at, _words(messages[at], one)) for at in one.evidence if at < len(messages)]
                told = one.id, one.question, answers, one.category, one.answer, list(one.values), evidence
                if answers:
                    part.asked.append(Asked(case.drawn_as, case.name, *told))
        return part

    def _answer(self, one: Question, case: str, arm: str, view: Text, recording: Recording | None) -> Answer | None:
        """Return what a view says to a question, or a reader of it, with its points; None where nothing is scored."""
        scored = ((metric.name, metric.points(one, view)) for metric in self.metrics)
        points = {name: value for name, value in scored if value is not None}
        read = None if recording is None else recording.answers.get((case, arm))
        if recording is None or read is None:
            return Answer(" … ".join(filter(None, map(view.excerpt, one.values[:4]))), points) if points else None
        marked = recording.marks.get((case, one.id, arm))
        if marked is not None:
            points = {RIGHT: right(marked.mark), **points}
        return Answer(read.answers.get(one.id, ""), points, None if marked is None else marked.mark)


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
    own = "own summaries" if arm.summarizer is not None else "no model"
    return f"this package, {f'summaries by {arm.settings.model}' if arm.asks_model else own}"


def _spent(log: Log, arm: str, history: int, played: Played) -> Spent:
    laws = {name: getattr(played.tally, name) for name in LAW_FIGURES if getattr(played.tally, name)}
    tokens = played.tally.model_input_tokens, played.tally.model_output_tokens
    return Spent(log.session, arm, history, *tokens, played.dropped, laws, played.summaries)


def _reading(recording: Recording, case: str, arm: str, view: str | None) -> str:
    """Whether the recorded answers were read from this view."""
    answers = recording.answers.get((case, arm))
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
    return {of: [f"{maker} ({n:,})" for maker, n in one.most_common()] for of, one in makers.items() if one}
