"""A run: the views of all arms at the places of a data set, scored, with what they took.

All arms that need no settings of this package show as many tokens as the first arm's view. What a model says comes
through a cassette, so a run that stopped goes on, and a finished one is repeated without a key.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any, Literal, TypeVar

import anyio
import msgspec

from summarizing_context.errors import CassetteMissError, SettingsError, TranscriptError
from summarizing_context.evaluation import cassettes, datasets, views
from summarizing_context.evaluation.cassettes import Cassette, PricedWork, RecordedModel, Reply, Request
from summarizing_context.evaluation.datasets import ABSENT, AskedCase, Dataset, Log, Question, Recording, recorded
from summarizing_context.evaluation.replay import for_each
from summarizing_context.evaluation.report import EVIDENCE, HELD, RIGHT, Answer, Asked, Report, Spent, Viewed
from summarizing_context.evaluation.views import Case, Message, Text, compaction
from summarizing_context.messages.text import fence
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings import PROVIDERS, Settings
from summarizing_context.summarizers.base import Summarizer
from summarizing_context.summarizers.prompts import latest
from summarizing_context.summarizers.sdk import SdkSummarizer

SCALE = {"right": 2, "partly": 1, "abstained": 0, "wrong": -1}  # of a judge's marks
ABSTENTION = "not in the record"
_TRIES = 3  # for a reply that can be read

Mark = Literal[2, 1, 0, -1]  # of a judge, by `SCALE`
Value = TypeVar("Value")

logger = logging.getLogger(__name__)


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
    `Text.holds` tells whether words stand in a view."""

    name: str
    points: Callable[[Question, Text], float | None]


def _held(question: Question, view: Text) -> float | None:
    return sum(map(view.holds, question.values)) / len(question.values) if question.values else None


def _evidence(question: Question, view: Text) -> float | None:
    return None if question.category == ABSENT else view.share(question.answer, question.question)


VALUES_HELD = Metric(HELD, _held)  # the share of a question's values that stand in the view, word for word
EVIDENCE_KEPT = Metric(EVIDENCE, _evidence)  # the share of the gold answer's words that stand together in the view


@dataclass
class Run:
    """Measure arms on a data set.

    Args:
        dataset: What is measured.
        arms: Ways to make views, the one that the run is about first. By default this package without a model, beside
            two ways that need none; of recorded answers all arms that were read.
        metrics: The one that counts first. By default the values held and the evidence kept; of recorded answers,
            beside their marks, the evidence kept.
        cassette: The file of replies, where an arm's settings name a model.
        baseline: The arm that the others are compared with. By default one-shot compaction, or else the best of them.
        jobs: Logs at a time, in processes, or in one where a model is asked.
        writer: The model whose summaries arms of recorded answers show. By default the recorded one, which is only
            replayed, as the judge.
        judge: The model that answers what is asked of recorded answers from views, and marks the answers.
    """

    dataset: Dataset
    arms: Sequence[Arm] = ()
    metrics: Sequence[Metric] = ()
    cassette: Path | str | None = None
    baseline: str = ""
    jobs: int = 1
    writer: Settings | SdkSummarizer | None = None
    judge: Settings | SdkSummarizer | None = None

    def __post_init__(self) -> None:
        folder = self.dataset.recording
        if not self.arms and folder is not None:
            read = {arm for case in folder.cases for arm in folder.at(case).arms}
            self.arms = [Arm(name) for name in views.ARMS if not read or name in read]
        self.arms = self.arms or [Arm(views.OURS, Settings(max_tokens=16_000)), Arm("tail"), Arm("masking")]
        self.metrics = self.metrics or [*([VALUES_HELD] if folder is None else []), EVIDENCE_KEPT]
        known = views.MECHANICAL if folder is None else views.ARMS
        for arm in self.arms:
            if arm.settings is None and arm.name not in known:
                there = f"{views.OURS} and extractive, which have settings, and " if folder is None else ""
                raise SettingsError(f"there is no arm {arm.name!r}; there are {there}{', '.join(known)}")
            if arm.asks_model and not self.cassette:
                raise SettingsError(f"{arm.name}: summaries by a model come through a cassette; name its file")
        names = [arm.name for arm in self.arms]
        if len({*names}) < len(names):
            raise SettingsError(f"two arms have one name: {', '.join(names)}")
        if folder is None and self.arms[0].settings is None:
            raise SettingsError(f"{names[0]}: the first arm needs settings, for the others show as many tokens")
        self.baseline = next((name for name in (self.baseline, views.COMPACT) if name in names), "")

    @property
    def models(self) -> list[Settings]:
        """The settings of arms whose summaries a model writes."""
        return [arm.settings for arm in self.arms if arm.settings is not None and arm.asks_model]

    @property
    def plays(self) -> int:
        """How often each log is played: for each arm with settings, and for recorded views of this package."""
        recorded = self.dataset.recording.asked.values() if self.dataset.recording is not None else ()
        named = {name for one in recorded for name in (views.OURS, *one.arms)} | {arm.name for arm in self.arms}
        return len({arm.name for arm in self.arms if arm.settings} | named & {views.OURS, "extractive"}) or 1

    def price(self, watch: Callable[[str], None] = lambda _: None) -> list[cassettes.Spent]:
        """Return, by model, what is not recorded yet and what it will take. Nothing is sent."""
        work = partial(self.report, watch=watch)
        return PricedWork(Path(str(self.cassette)), self.models, work).spent if self.models else []

    def report(self, cassette: Cassette | None = None, watch: Callable[[str], None] = lambda _: None) -> Report:
        """Measure, and return the report. Without an open cassette, replies are replayed. `watch` is called with each
        log. Raise `CassetteMissError` for a reply that is not recorded, `CassetteLimitError` at a cap."""
        # Other processes can be given neither an open cassette nor objects of one's own.
        has_own = any(arm.summarizer for arm in self.arms) or {*self.metrics} - {VALUES_HELD, EVIDENCE_KEPT}
        jobs = 1 if cassette is not None or has_own else self.jobs
        whole: Any = {"left_out": [*self.dataset.skipped], "missing": 0}
        whole |= {name: [] for name in ("asked", "views", "spent", "notes")}
        measure: Callable[[Log], dict[str, Any]] = partial(anyio.run, self.measure_log, cassette)  # type: ignore[arg-type]
        parts: Iterable[dict[str, Any]] = for_each(self.dataset.logs, measure, jobs)
        if cassette is not None and cassette.sends:
            parts, watch = anyio.run(self._measure_together, cassette, watch), lambda _: None
        for log, part in zip(self.dataset.logs, parts, strict=True):
            watch(log.name)
            for name, found in part.items():
                whole[name] += found
        is_marked = any(RIGHT in answer.points for one in whole["asked"] for answer in one.answers.values())
        about, shown = dict[str, str](), dict[str, dict[str, Any]]()
        for arm in self.arms:
            about[arm.name] = arm.about or views.ARMS.get(arm.name, "")
            if arm.settings is not None:
                own = "own summaries" if arm.summarizer is not None else "no model"
                own = f"summaries by {arm.settings.model}" if arm.asks_model else own
                about[arm.name] = arm.about or f"this package, {own}"
                changed = datasets.changed_settings(arm.settings).items()
                shown[arm.name] = {name: one.name if isinstance(one, Path) else one for name, one in changed}
        made_by: dict[str, list[str]] = {}
        recording = self.dataset.recording
        cases = [] if recording is None else [recording.at(case) for case in recording.cases]
        for what, role in (("summaries", "writer"), ("answers", "judge"), ("marks", "judge")):
            if makers := Counter(maker.partition(";")[0] for case in cases if (maker := getattr(case, role))):
                made_by[what] = [f"{maker} ({count:,})" for maker, count in makers.most_common()]
        report = Report(
            name=self.dataset.name,
            arms=about,
            metric=RIGHT if is_marked else self.metrics[0].name,
            baseline=self.baseline,
            settings=shown,
            made_by=made_by,
            **whole,
        )
        return msgspec.structs.replace(report, baseline=self.baseline or report.best)

    async def _measure_together(self, cassette: Cassette, watch: Callable[[str], None]) -> list[dict[str, Any]]:
        """Measure so many logs at a time, for a model takes long to answer."""
        room, failed = anyio.CapacityLimiter(max(1, self.jobs)), list[Exception]()

        async def measure(log: Log) -> dict[str, Any]:
            async with room:
                try:
                    return {} if failed else await self.measure_log(cassette, log)
                except Exception as error:  # those under way go on, for what they have asked for is paid
                    failed.append(error)
                    return {}
                finally:
                    watch(log.name)

        parts = await asyncio.gather(*map(measure, self.dataset.logs))
        for error in failed:
            raise error
        return parts

    async def measure_log(self, cassette: Cassette | None, log: Log) -> dict[str, Any]:
        """Measure one log: the views of all arms at its cuts, then each question of each view."""
        if cassette is None and self.models:
            cassette = Cassette(Path(str(self.cassette)), secrets=[one.api_key for one in self.models])
        first = next((arm.settings for arm in self.arms if arm.settings is not None), Settings())
        messages = [*log.read()] if cassette is None else [*map(cassette.scrub, log.read())]
        cases = log.ask(messages, int(first.max_tokens))
        recording, texts = self.dataset.recording, dict[tuple[str, str], str]()  # views by case and arm
        bare = [arm.name for arm in self.arms if arm.settings is None]
        history = sum(map(datasets.message_tokens, messages))
        folder = None  # the cassette of recorded arms: it is only replayed, unless their models are named
        if recording is not None and bare:
            folder = cassette if self.writer is not None else Cassette(recording.cassette)
        part: dict[str, Any] = {"asked": [], "views": [], "spent": [], "left_out": [], "notes": [], "missing": 0}

        size = int(cases[0][0].budget if cases else first.max_tokens)
        nothing = f"{log.name}: nothing is asked about it in a budget of {size:,}; take a smaller one or a longer log"
        if self.models and recording is None and not any(questions for _, questions in cases):  # no call is worth it
            part["spent"] = [Spent(log.session, arm.name, 0) for arm in self.arms]
            return part | {"left_out": [nothing]}

        # This package's views, by settings. Recorded cases have budgets of their own.
        for arm, settings in ((arm, arm.settings) for arm in self.arms if arm.settings is not None):
            cuts = [case.cut for case, _ in cases]
            if recording is not None:
                settings = replace(settings, max_tokens=cases[0][0].budget)
            own: Any = nullcontext(arm.summarizer)
            async with RecordedModel(settings, cassette) if arm.asks_model and cassette is not None else own as writer:
                played = await views.play(messages, cuts, settings, writer, between_calls=recording is not None)
            if cassette is not None:
                cassette.check()  # a context makes good what is missing; an eval must not
            part["spent"].append(_spent(log, arm.name, history, played))
            if played.tally.counts["model_calls"] and (extracts := played.stand_ins):
                few = f"{extracts} of {extracts + len(played.summaries)} replies cannot serve as summaries"
                few += f" ({played.why})" if played.why else ""
                part["notes"].append(f"{log.name}, {arm.name}: {few}; extracts stand for them")
            texts |= {(case.name, arm.name): played.views[case.cut] for case, _ in cases}
        refused = [(case, arm) for case, _ in cases for arm in self.arms if texts.get((case.name, arm.name)) == ""]
        for case, arm in refused:
            size = int(case.budget if recording is not None or arm.settings is None else arm.settings.max_tokens)
            fixed = views.cost(views.Past(messages[: case.cut], size).leading)
            few = f"{size:,} tokens are no room for a view, of which system rows take {fixed:,}; take a larger budget"
            part["left_out"].append(f"{case.name}, {arm.name}: {few}")
        cases = [(case, questions) for case, questions in cases if case.name not in {one.name for one, _ in refused}]

        # Recorded arms, or those that need nothing and cost nothing.
        if bare and recording is None:
            for case, _ in cases:
                past = views.Past(messages[: case.cut], estimate_text(texts[case.name, self.arms[0].name]))
                texts |= {(case.name, name): views.mechanical(name, past) for name in bare}
            part["spent"] += [Spent(log.session, name, history) for name in bare]
        elif recording is not None and folder is not None:
            case, asked = cases[0][0], recording.at(cases[0][0])
            async with RecordedModel(self.writer or asked.writer, folder, is_needed=True) as model:
                arms = [*{*asked.arms, *bare}]
                ours, shown, compacted = await views.build(case, messages, arms, recording.settings, model)
            if self.writer is not None:
                folder.check()
            for name in bare:
                spent = Spent(log.session, name, history, compacted if name.startswith(views.COMPACT) else 0)
                part["spent"].append(_spent(log, name, history, ours) if name == views.OURS else spent)
            if not folder.missed:  # while a summary is missing, the tokens of our view are not known
                texts |= {(case.name, name): text for name, text in shown.items()}

        for case, questions in cases:
            answers, marks = dict[str, dict[str, str]](), dict[tuple[str, str], int]()
            read_by = cassette if self.judge is not None else folder
            if recording is not None and read_by is not None:
                asked = recording.at(case)
                read = asked.arms if bare else [arm.name for arm in self.arms]
                shown = {arm: texts[case.name, arm] for arm in read if (case.name, arm) in texts}
                async with RecordedModel(self.judge or asked.judge, read_by) as model:
                    with nullcontext() if self.judge is not None else suppress(CassetteMissError):
                        answers = await read_answers(case, asked.questions, shown, model)
                        marks = await mark_answers(case, asked.questions, answers, model)
                part["missing"] += len(read_by.missed)
            searched: dict[str, Text] = {}
            for arm in self.arms:
                view = texts.get((case.name, arm.name))
                reading = "" if folder is None else "no view" if view is None else "not read"
                reading = "this view" if arm.name in answers else reading
                tokens = None if view is None else estimate_text(view)
                part["views"].append(Viewed(case.name, arm.name, tokens, reading))
                searched[arm.name] = Text([view or ""])
            for one in questions:
                found: dict[str, Answer] = {}
                for name, text in searched.items():
                    points = {each.name: got for each in self.metrics if (got := each.points(one, text)) is not None}
                    if name in answers:
                        mark = marks.get((one.id, name))
                        right = {} if mark is None else {RIGHT: max(mark, 0) / SCALE["right"]}
                        found[name] = Answer(answers[name].get(one.id, ""), right | points, mark)
                    elif points:
                        found[name] = Answer(" … ".join(filter(None, map(text.excerpt, one.values[:4]))), points)
                evidence = []  # messages, with the text around the first value that each holds; else its first ones
                for at in (at for at in one.evidence if at < len(messages)):
                    text = Text(datasets.read_messages([messages[at]])[0].words)
                    begin = " ".join(text.text[:180].split())
                    evidence.append((at, next(filter(None, map(text.excerpt, one.values)), begin)))
                asked_for = one.id, one.question, found, one.category, one.answer, list(one.values), evidence
                if found:
                    part["asked"].append(Asked(case.session, case.name, *asked_for))
        if not (refused or any(questions for _, questions in cases)):
            part["left_out"].append(nothing)
        return part


async def record(
    recording: Recording,
    cassette: Cassette,
    writer: Settings | SdkSummarizer,
    judge: Settings | SdkSummarizer,
    arms: Sequence[str],
    questions: int,
) -> None:
    """Have models asked for all that the one case of a recording lacks. Arms that were read are read with them."""
    (case,) = recording.cases
    asked = recording.at(case)
    async with RecordedModel(writer, cassette) as model, RecordedModel(judge, cassette) as reader:
        found = asked.questions or await write_questions(case, recording.messages(case), questions, model)
        asked = AskedCase(found, [*dict.fromkeys([*asked.arms, *arms])], model.maker, reader.maker)
    if cassette.mode == "forecast":
        recording.asked[case.name] = asked
    else:
        recording.write(case, asked)
    run = Run(recorded(recording), [Arm(name) for name in asked.arms], writer=writer, judge=judge)
    await run.measure_log(cassette, run.dataset.logs[0])


def _spent(log: Log, arm: str, history: int, played: views.Played) -> Spent:
    tokens = played.tally.counts["model_input_tokens"], played.tally.counts["model_output_tokens"]
    laws, useless = played.tally.broken_laws(), played.stand_ins
    return Spent(log.session, arm, history, *tokens, laws, played.summaries, played.dropped, useless)


# What models are asked: questions about a log, answers from views, and marks


class WrittenQuestion(msgspec.Struct):
    category: Literal["rule", "decision", "error", "artifact", "fact", "absent"]
    question: Annotated[str, msgspec.Meta(pattern=r"\S")]
    answer: Annotated[str, msgspec.Meta(pattern=r"\S")]
    evidence: list[Annotated[int, msgspec.Meta(ge=0)]] = []


async def write_questions(
    case: Case, messages: Sequence[Message], number: int, writer: RecordedModel
) -> list[Question]:
    """Return so many questions about a log, written by a model."""
    log = fence("session_record", compaction(messages).content)
    system, some = latest("questions").render(number=number), "word " * 20
    assumed = {"questions": [{"category": "fact", "question": some, "answer": some, "evidence": [0]}] * number}
    asked = Request("questions", writer.maker, system, (log,), 500 + 120 * number)

    def read(text: str) -> list[Question]:  # the error says what is wrong with the first bad one
        written = _object(text, dict[str, list[WrittenQuestion]]).get("questions", [])
        found = [Question(f"q{at}", **msgspec.structs.asdict(one)) for at, one in enumerate(written, 1)]
        if not found:
            raise ValueError("no question at all")
        for one in found:
            if one.category != ABSENT and not one.evidence:
                raise ValueError(f"{one.id} ({one.category}) names no message that holds its answer")
            if beyond := [message for message in one.evidence if message >= case.cut]:
                raise ValueError(f"{one.id} names message {beyond[0]}, but there are 0 to {case.cut - 1}")
        return found[:number]

    return await _readable(writer, case, asked, read, assumed)


async def read_answers(
    case: Case, questions: Sequence[Question], views: Mapping[str, str], reader: RecordedModel
) -> dict[str, dict[str, str]]:
    """Return a reader's answers from each view, by arm and question."""
    listed = json.dumps([{"id": one.id, "question": one.question} for one in questions], ensure_ascii=False)
    system, assumed = latest("answers").render(abstention=ABSTENTION), {one.id: "word " * 15 for one in questions}

    def read(text: str) -> dict[str, str]:
        found = _object(text, dict[str, str])
        if not any(question.id in found for question in questions):
            raise ValueError("an answer to none of the questions")
        return found

    async def ask(arm: str) -> None:
        parts = fence("session_record", views[arm]), f"Questions: {listed}"
        found = await _readable(reader, case, Request("reader", reader.maker, system, parts, 4_000), read, assumed)
        answers[arm] = {question.id: found.get(question.id, ABSTENTION) for question in questions}

    answers: dict[str, dict[str, str]] = {}
    done = await asyncio.gather(*map(ask, views), return_exceptions=True) if questions else []
    for failure in filter(None, done):
        raise failure
    return answers


async def mark_answers(
    case: Case, questions: Sequence[Question], answers: Mapping[str, Mapping[str, str]], judge: RecordedModel
) -> dict[tuple[str, str], int]:
    """Return a judge's marks by question and arm. All are marked at once, under letters drawn for each question."""
    if not (questions and answers):
        return {}
    shown, arms = [], dict[str, dict[str, str]]()  # arms by question and letter
    for one in questions:
        drawn = random.Random(f"letters/{case.name}/{one.id}").sample(sorted(answers), len(answers))
        arms[one.id] = dict(zip(ascii_uppercase, drawn, strict=False))
        said = {letter: answers[arm].get(one.id, "") for letter, arm in arms[one.id].items()}
        asked_for = {"id": one.id, "category": one.category, "question": one.question, "gold": one.answer}
        shown.append({**asked_for, "answers": said})
    document = json.dumps({"case": case.name, "questions": shown}, ensure_ascii=False)

    def read(text: str) -> dict[tuple[str, str], int]:
        given = _object(text, dict[str, dict[str, Mark]])
        if {id: sorted(row) for id, row in given.items()} != {id: sorted(row) for id, row in arms.items()}:
            raise ValueError("not the questions and letters that the judge was given")
        return {(id, arms[id][letter]): mark for id, row in given.items() for letter, mark in row.items()}

    asked = Request("judge", judge.maker, latest("marks").render(**SCALE), (fence("session_record", document),), 4_000)
    assumed = {id: dict.fromkeys(row, SCALE["abstained"]) for id, row in arms.items()}
    return await _readable(judge, case, asked, read, assumed)


async def _readable(
    model: RecordedModel, case: Case, asked: Request, read: Callable[[str], Value], assumed: Mapping[str, object]
) -> Value:
    """Return what `read` finds in a reply; one that it refuses by `ValueError` is asked for again, also a kept one."""

    def is_usable(reply: Reply) -> bool:
        with suppress(ValueError):
            read(reply.text)
            return True
        return False

    for _ in range(_TRIES):
        reply = await model.ask(asked, assumed=json.dumps(assumed), is_usable=is_usable)
        try:
            return read(reply.text)
        except ValueError as error:
            complaint = reply.fault or str(error)
            logger.warning("%s: the %s reply of %s cannot be used: %s", case.name, asked.kind, model.where, complaint)
    last = f"in the last one {complaint}; the same command asks again, or take another model"
    raise TranscriptError(f"{case.name}: no usable {asked.kind} reply in {_TRIES} of {model.where}, {last}")


def _object(text: str, of: type[Value]) -> Value:
    """Return the one JSON object of a reply, whatever words are around it."""
    try:
        return msgspec.json.decode(text[text.find("{") : text.rfind("}") + 1], type=of)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"the reply holds no JSON object as asked for ({error})") from error
