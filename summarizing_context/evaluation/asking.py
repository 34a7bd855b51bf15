"""Recording through an API: what is missing is sent to models, in the order in which it can be asked.

First questions, if they are wanted; then summaries, in rounds, until every view can be built; then the answers from
unread views; then the marks of cases in which an answer has none. All calls go through a cassette, which
keeps replies and counts the cost. A forecast goes the same way with assumed replies, and saves nothing.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any, TypeVar

import anyio
import msgspec

from summarizing_context.errors import CassetteError, TranscriptError
from summarizing_context.evaluation import cassettes
from summarizing_context.evaluation.cassettes import Cassette, RecordedModel
from summarizing_context.evaluation.recording import CATEGORIES, SCALE, Answers, Mark, Question, Recording
from summarizing_context.evaluation.report import ABSENT
from summarizing_context.evaluation.views import OURS, Built, Case, Reply, Request, build, compact_request, digest
from summarizing_context.messages.fences import fence
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.prompts import latest
from summarizing_context.summarizers.providers import make_model

ABSTENTION = "not in the record"
READING = "isolated"  # each request is a call of its own
_TRIES = 3  # for a reply that can be read
_ROUNDS = 1_000  # of summaries: one for each rank, second requests after a refusal, and calls for rules in their order

Item = TypeVar("Item")
Value = TypeVar("Value")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AnswerRecorder:
    """The models of a recording: they summarize, write questions, read and judge."""

    recording: Recording
    summarizer: RecordedModel
    writer: RecordedModel
    reader: RecordedModel
    judge: RecordedModel
    questions: int = 0  # to be written for a case that has none
    concurrency: int = 8  # requests

    async def record(self, arms: Sequence[str]) -> None:
        """Send what is missing, case by case, and keep what comes. A forecast sends nothing, and assumes replies."""
        for case in self.recording.cases:
            if self.questions and not self.recording.questions(case):
                await self._ask(case)
            built = await self._summarize(case, arms)
            if not built.waiting:
                await self._answer(case, built)
                await self._mark(case)

    async def compare(self, cases: Sequence[Case], arms: Mapping[str, Settings]) -> None:
        """Have the views of several settings read, and their answers marked together, case by case."""
        for case in cases:
            views = {}
            for name, settings in arms.items():
                built = await self._summarize(case, (OURS,), settings)
                views[name] = built.views[OURS]
            await self._answer(case, Built(views))
            await self._mark(case)

    async def _ask(self, case: Case) -> None:
        """Have the questions of a case written."""
        number, prompt = self.questions, latest("questions")
        log = compact_request(case, self.recording.messages(case)).user
        asked = cassettes.Request(
            "questions", self.writer.maker, prompt.render(number=number), (fence("session_record", log),),
            500 + 120 * number,
        )  # fmt: skip
        words = "word " * 20
        assumed = [Question(f"q{at}", CATEGORIES[at % len(CATEGORIES)], words, words) for at in range(1, number + 1)]
        found = await self._readable(
            self.writer, case, asked, lambda text: read_questions(text, case, number=number), assumed=str(assumed)
        )
        if found is None:
            self.recording.asked[case.name] = assumed
        else:
            self.recording.write_questions(case, found)

    async def _summarize(self, case: Case, arms: Sequence[str], own: Settings | None = None) -> Built:
        """Return the views of a case, with every summary written that they need; `own` settings in the place of those
        of the recording."""
        model, replies = self.summarizer, self.recording.replies

        async def write(request: Request) -> None:
            parts = (request.user,)
            asked = cassettes.Request(request.purpose, model.maker, request.system, parts, request.max_tokens)
            assumed = "word " * (request.max_tokens // 2)
            reply = await model.ask(asked, assumed=assumed, is_usable=lambda kept: not kept.fault)
            if reply.fault:
                raise CassetteError(
                    f"{case.name}: {model.where} gave no {request.purpose} summary ({reply.fault}); the same command "
                    "asks again"
                )
            replies[request.key] = Reply(request.key, request.purpose, model.model, READING, reply.text)

        messages = self.recording.messages(case)
        for _ in range(_ROUNDS):
            built = await build(case, messages, replies, arms, own or self.recording.settings)
            if not built.missing:
                return built
            await self._all(write, built.missing)
        raise CassetteError(f"{case.name}: summaries are missing after {_ROUNDS} rounds; record again to go on")

    async def _answer(self, case: Case, built: Built) -> None:
        """Ask the reader about each view that has no answers yet."""
        questions, known = self.recording.questions(case), self.recording.answers
        listed = json.dumps([{"id": one.id, "question": one.question} for one in questions], ensure_ascii=False)

        def read(text: str) -> dict[str, str]:
            found = _object(text, dict[str, str])
            if not any(question.id in found for question in questions):
                raise ValueError("an answer to none of the questions")
            return found

        async def ask(arm: str) -> None:
            view, system = built.views[arm], latest("answers").render(abstention=ABSTENTION)
            parts = fence("session_record", view), f"Questions: {listed}"
            asked = cassettes.Request("reader", self.reader.maker, system, parts, 4_000)
            found = await self._readable(self.reader, case, asked, read)
            if found is None:
                found = {question.id: "word " * 15 for question in questions}
            answers = {question.id: found.get(question.id, ABSTENTION) for question in questions}
            line = Answers(case.name, arm, digest(view), estimate_text(view), answers, self.reader.model, READING)
            self.recording.add_answers(line)

        if questions:
            read_views = {arm: answers.view for (name, arm), answers in known.items() if name == case.name}
            await self._all(ask, [arm for arm, view in built.views.items() if read_views.get(arm) != digest(view)])

    async def _mark(self, case: Case) -> None:
        """Ask the judge about all answers of a case, unless each has a mark. One judge marks all arms at once, under
        letters that are drawn for each question."""
        answers = {arm: found.answers for (name, arm), found in self.recording.answers.items() if name == case.name}
        questions, marks = self.recording.questions(case), self.recording.marks
        if all((case.name, question.id, arm) in marks for question in questions for arm in answers):
            return
        shown, arms = [], dict[str, dict[str, str]]()  # arms by question and letter
        for one in questions:
            drawn = random.Random(f"letters/{case.name}/{one.id}").sample(sorted(answers), len(answers))
            arms[one.id] = dict(zip(ascii_uppercase, drawn, strict=False))
            said = {letter: answers[arm].get(one.id, "") for letter, arm in arms[one.id].items()}
            asked_for = {"id": one.id, "category": one.category, "question": one.question, "gold": one.answer}
            shown.append({**asked_for, "answers": said})
        document = json.dumps({"case": case.name, "questions": shown}, ensure_ascii=False)
        system = latest("marks").render(**SCALE)
        asked = cassettes.Request("judge", self.judge.maker, system, (fence("session_record", document),), 4_000)

        def read(text: str) -> list[Mark]:
            given = _object(text, dict[str, dict[str, int]])
            if {id: sorted(row) for id, row in given.items()} != {id: sorted(row) for id, row in arms.items()}:
                raise ValueError("not the questions and letters that the judge was given")
            by = {"case": case.name, "model": self.judge.model}
            rows = [
                {**by, "question": id, "arm": arms[id][letter], "mark": mark}
                for id, row in given.items()
                for letter, mark in row.items()
            ]
            return msgspec.convert(rows, list[Mark])

        self.recording.add_marks(await self._readable(self.judge, case, asked, read) or [])

    async def _readable(
        self,
        model: RecordedModel,
        case: Case,
        asked: cassettes.Request,
        read: Callable[[str], Value],
        *,
        assumed: str = "word " * 1_000,
    ) -> Value | None:
        """Return what `read` finds in the reply; None in a forecast. A reply that it refuses with `ValueError` is told
        and asked for again, also one that was kept. Raise `TranscriptError` where none can be read."""

        def is_usable(reply: cassettes.Reply) -> bool:
            try:
                read(reply.text)
            except ValueError:
                return False
            return True

        for _ in range(_TRIES):
            reply = await model.ask(asked, assumed=assumed, is_usable=is_usable)
            try:
                return read(reply.text)
            except ValueError as error:
                if model.mode == "forecast":
                    return None
                complaint = reply.fault or str(error)
                told = (case.name, asked.kind, model.where, complaint)
                logger.warning("%s: the %s reply of %s cannot be used: %s", *told)
        raise TranscriptError(
            f"{case.name}: no usable {asked.kind} reply in {_TRIES} of {model.where}, in the last one {complaint}; "
            "the same command asks again, or take another model"
        )

    async def _all(self, ask: Callable[[Item], Awaitable[None]], items: Iterable[Item]) -> None:
        """Ask for all, some side by side. The first failure is raised once those under way have ended."""
        failures: list[Exception] = []
        places = anyio.CapacityLimiter(self.concurrency)

        async def work(item: Item) -> None:
            async with places:
                try:
                    if not failures:
                        await ask(item)
                except Exception as error:
                    failures.append(error)

        async with anyio.create_task_group() as tasks:
            for item in items:
                tasks.start_soon(work, item)
        if failures:
            raise failures[0]


async def record_answers(
    recording: Recording, cassette: Cassette, models: Sequence[Settings], arms: Sequence[str], questions: int = 0
) -> None:
    """Have models asked for what a recording lacks, and save it; what came before a failure too.

    Args:
        recording: What is known.
        cassette: Keeps the replies.
        models: Settings that name the model that summarizes, the writer of questions, the reader and the judge.
        arms: Views to be read.
        questions: To be written for a case that has none.
    """
    async with AsyncExitStack() as stack:

        def opened(settings: Settings) -> RecordedModel:
            model = make_model(settings, read_only=not cassette.sends)
            stack.push_async_callback(model.close)
            return RecordedModel(model, cassette, settings.call_timeout)

        summarizer, writer, reader, judge = map(opened, models)
        try:
            await AnswerRecorder(recording, summarizer, writer, reader, judge, questions).record(arms)
        finally:
            if cassette.sends:
                recording.save()


def read_questions(text: str, case: Case, *, number: int) -> list[Question]:
    """Return the questions of a reply, with ids. Raise `ValueError` that says what is wrong with the first bad one."""
    written = _object(text, dict[str, list[dict[str, Any]]]).get("questions", [])
    try:
        found = msgspec.convert([{**one, "id": f"q{at}"} for at, one in enumerate(written, 1)], list[Question])
    except msgspec.ValidationError as error:
        raise ValueError(f"not a JSON object with questions ({error})") from error
    if not found:
        raise ValueError("no question at all")
    for at, one in enumerate(found, 1):
        beyond = [message for message in one.evidence if not 0 <= message < case.cut]
        complaint = ""
        if one.category not in (*CATEGORIES, ABSENT):
            complaint = f"has none of the categories {', '.join((*CATEGORIES, ABSENT))}"
        elif not one.question.strip() or not one.answer.strip():
            complaint = "lacks its words or its answer"
        elif not one.evidence and one.category != ABSENT:
            complaint = "names no message that holds its answer"
        elif beyond:
            complaint = f"names message {beyond[0]}, but there are 0 to {case.cut - 1} before the cut"
        if complaint:
            raise ValueError(f"question {at} ({one.category}) {complaint}")
    return found[:number]


def _object(text: str, of: type[Value]) -> Value:
    """Return the one JSON object of a reply, whatever words are around it."""
    try:
        return msgspec.json.decode(text[text.find("{") : text.rfind("}") + 1], type=of)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"not a JSON object as asked for ({error})") from error
