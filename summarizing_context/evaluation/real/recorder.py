"""Recording through an API: what is missing is sent to models, in the order in which it can be asked.

First questions, if they are wanted; then summaries, in rounds, until every view can be built; then the answers from
unread views; then the marks of cases in which an answer has none. All calls go through cassettes, which
keep replies and count the cost. A forecast goes the same way with assumed replies, and saves nothing.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from string import ascii_uppercase
from typing import Any, TypeVar

import anyio
import msgspec

from summarizing_context.errors import CassetteError, TranscriptError
from summarizing_context.evaluation import cassettes
from summarizing_context.evaluation.cassettes import Chat, ModelPlan, RecordedModel, fenced_record
from summarizing_context.evaluation.real.arms import Built, Request, build, compact_request
from summarizing_context.evaluation.real.recording import (
    ABSENT,
    ABSTAINED,
    CATEGORIES,
    PARTLY,
    RIGHT,
    WRONG,
    Answers,
    Case,
    Category,
    Mark,
    Question,
    Recording,
    Reply,
)
from summarizing_context.summarizers.prompts import latest
from summarizing_context.summarizers.providers import make_model

ABSTENTION = "not in the record"
READING = "isolated"  # each request is a call of its own
_TRIES = 3  # for a reply that can be read
_WORDS = "word " * 20  # that a forecast assumes, of a question and of an answer

Value = TypeVar("Value")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AnswerRecorder:
    """The models of a recording: they summarize, write questions, read and judge."""

    recording: Recording
    plan: ModelPlan
    summarizer: RecordedModel
    writer: RecordedModel
    reader: RecordedModel
    judge: RecordedModel
    questions: int = 0  # to be written for a case that has none

    async def record(self, arms: Sequence[str], watch: Callable[[str], None] = lambda _: None) -> None:
        """Send what is missing, case by case, and keep what comes. A forecast sends nothing, and assumes replies."""
        for case in self.recording.cases:
            if self.questions and not self.recording.questions(case):
                await self._ask(case)
            built = await self._summarize(case, arms)
            if not (built.missing or built.waiting):
                await self._answer(case, built)
                await self._mark(case)
            watch(case.name)

    async def _ask(self, case: Case) -> None:
        """Have the questions of a case written."""
        number, prompt = self.questions, latest("questions")
        system, log = prompt.render(number=number), compact_request(case, self.recording.messages(case)).user
        tag = f"{prompt.name}/v{prompt.version}/{prompt.hash[:16]}"
        parts, most = (fenced_record(log),), 500 + 120 * number
        asked = cassettes.Request("questions", self.writer.maker, system, parts, most, prompt=tag)
        assumed = [Question(f"q{at}", CATEGORIES[at % len(CATEGORIES)], _WORDS, _WORDS) for at in range(1, number + 1)]
        read = partial(read_questions, case=case, number=number)
        found = await self._readable(self.writer, case, asked, read, assumed=str(assumed))
        if found is None:
            self.recording.asked[case.name] = assumed
        else:
            self.recording.write_questions(case, found)

    async def _summarize(self, case: Case, arms: Sequence[str]) -> Built:
        """Return the views of a case, with every summary written that they need."""

        async def write(request: Request) -> None:
            maker, user = self.summarizer.maker, (request.user,)
            asked = cassettes.Request(request.purpose, maker, request.system, user, request.max_tokens)
            assumed = "word " * (request.max_tokens // 2)
            reply = await self.summarizer.ask(asked, assumed=assumed, is_usable=lambda kept: not kept.fault)
            if reply.fault:
                raise CassetteError(
                    f"{case.name}: {self.summarizer.where} gave no {request.purpose} summary ({reply.fault}); the same "
                    "command asks again"
                )
            model = self.plan.chats[0].model
            self.recording.add_replies([Reply(request.key, request.purpose, model, READING, reply.text)])

        messages = self.recording.messages(case)
        rounds = 1_000  # one for each rank, second requests after a refusal, and calls for rules in their order
        for _ in range(rounds):
            built = await build(case, messages, self.recording.replies, arms, self.recording.settings)
            if not built.missing:
                return built
            await self._all([partial(write, request) for request in built.missing])
        raise CassetteError(f"{case.name}: summaries are missing after {rounds} rounds; record again to go on")

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
            view = built.views[arm]
            system = latest("answers").render(abstention=ABSTENTION)
            parts = fenced_record(view.text), f"Questions: {listed}"
            asked = cassettes.Request("reader", self.reader.maker, system, parts, 4_000)
            found = await self._readable(self.reader, case, asked, read)
            if found is None:
                found = {question.id: "word " * 15 for question in questions}
            answers = {question.id: found.get(question.id, ABSTENTION) for question in questions}
            line = Answers(case.name, arm, view.digest, view.tokens, answers, self.plan.reader.model, READING)
            self.recording.add_answers(line)

        unread = [
            arm
            for arm, view in built.views.items()
            if questions and ((case.name, arm) not in known or known[case.name, arm].view != view.digest)
        ]
        await self._all([partial(ask, arm) for arm in unread])

    async def _mark(self, case: Case) -> None:
        """Ask the judge about all answers of a case, unless each has a mark. One judge marks all arms at once."""
        arms = [arm for name, arm in self.recording.answers if name == case.name]
        questions = self.recording.questions(case)
        if all((case.name, question.id, arm) in self.recording.marks for question in questions for arm in arms):
            return
        document, letters = judging(self.recording, case)
        system = latest("marks").render(right=RIGHT, partly=PARTLY, abstained=ABSTAINED, wrong=WRONG)
        parts = (fenced_record(json.dumps(document, ensure_ascii=False)),)
        asked = cassettes.Request("judge", self.judge.maker, system, parts, 4_000)

        def read(text: str) -> list[Mark]:
            return marks_of(case.name, _object(text, dict[str, dict[str, int]]), letters, self.plan.judge.model)

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
            if model.mode == "forecast":
                return None
            try:
                return read(reply.text)
            except ValueError as error:
                complaint = reply.fault or str(error)
                logger.warning(
                    "%s: the %s reply of %s cannot be used: %s", case.name, asked.kind, model.where, complaint
                )
        raise TranscriptError(
            f"{case.name}: no usable {asked.kind} reply in {_TRIES} of {model.where}, in the last one {complaint}; "
            "the same command asks again, or take another model"
        )

    async def _all(self, jobs: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Run jobs, some side by side. The first failure is raised once those under way have ended."""
        failures: list[Exception] = []
        waiting = iter(jobs)

        async def work() -> None:
            for job in waiting:
                try:
                    await job()
                except Exception as error:
                    failures.append(error)
                if failures:
                    return

        async with anyio.create_task_group() as tasks:
            for _ in range(min(self.plan.concurrency, len(jobs))):
                tasks.start_soon(work)
        if failures:
            raise failures[0]


@asynccontextmanager
async def open_recorder(
    recording: Recording, cassette_of: Callable[[Chat], cassettes.Cassette], plan: ModelPlan, *, questions: int = 0
) -> AsyncIterator[AnswerRecorder]:
    """Yield the models of a plan, for the length of an `async with`; what was recorded is saved at its end.

    Args:
        recording: What is known.
        cassette_of: Where a model's replies are kept; several may share one.
        plan: Names the models.
        questions: To be written for a case that has none.
    """
    async with AsyncExitStack() as stack:

        def opened(chat: Chat) -> RecordedModel:
            cassette = cassette_of(chat)
            model = make_model(chat.settings(call_timeout=plan.call_timeout), read_only=not cassette.sends)
            stack.push_async_callback(model.close)
            return RecordedModel(model, cassette, plan.call_timeout)

        summarizer, writer, reader, judge = map(opened, plan.chats)
        try:
            yield AnswerRecorder(recording, plan, summarizer, writer, reader, judge, questions)
        finally:
            if any(cassette_of(chat).sends for chat in plan.chats):
                recording.save()


class _Written(msgspec.Struct, frozen=True):
    category: Category
    question: str
    answer: str
    evidence: list[int] = []


class _Reply(msgspec.Struct, frozen=True):
    questions: list[_Written]


def read_questions(text: str, case: Case, *, number: int) -> list[Question]:
    """Return the questions of a reply, with ids. Raise `ValueError` that says what is wrong with the first bad one."""
    written = _object(text, _Reply, "not a JSON object with questions").questions
    if not written:
        raise ValueError("no question at all")
    for at, one in enumerate(written, 1):
        beyond = [message for message in one.evidence if not 0 <= message < case.cut]
        if not one.question.strip() or not one.answer.strip():
            complaint = "lacks its words or its answer"
        elif not one.evidence and one.category != ABSENT:
            complaint = "names no message that holds its answer"
        elif beyond:
            complaint = f"names message {beyond[0]}, but there are 0 to {case.cut - 1} before the cut"
        else:
            continue
        raise ValueError(f"question {at} ({one.category}) {complaint}")
    if len({one.question.strip() for one in written}) < len(written):
        raise ValueError("the same question twice")
    return [
        Question(f"q{at}", one.category, one.question.strip(), one.answer.strip(), one.evidence)
        for at, one in enumerate(written[:number], 1)
    ]


def _object(text: str, of: type[Value], complaint: str = "not a JSON object as asked for") -> Value:
    """Return the one JSON object of a reply, whatever words are around it."""
    start, stop = text.find("{"), text.rfind("}") + 1
    try:
        return msgspec.json.decode(text[start:stop], type=of)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"{complaint} ({error})") from error


def judging(recording: Recording, case: Case) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Return what the judge of a case gets, and by question which arm each letter is."""
    answers = {arm: found.answers for (name, arm), found in recording.answers.items() if name == case.name}
    questions, letters = [], {}
    for one in recording.questions(case):
        drawn = random.Random(f"letters/{case.name}/{one.id}").sample(sorted(answers), len(answers))
        mine = letters[one.id] = dict(zip(ascii_uppercase, drawn, strict=False))
        said = {letter: answers[arm].get(one.id, "") for letter, arm in mine.items()}
        asked = {"id": one.id, "category": one.category, "question": one.question, "gold": one.answer}
        questions.append({**asked, "answers": said})
    return {"case": case.name, "questions": questions}, letters


def marks_of(
    case: str, given: Mapping[str, Mapping[str, int]], letters: Mapping[str, Mapping[str, str]], model: str
) -> list[Mark]:
    """Return marks by letters as marks by arms. Raise `TranscriptError` for a letter or a mark that there is not, or
    where an answer has none."""
    if {question: sorted(row) for question, row in given.items()} != {q: sorted(row) for q, row in letters.items()}:
        raise TranscriptError(f"marks of {case}: not the questions and letters that the judge was given")
    rows = [
        {"case": case, "question": question, "arm": letters[question][letter], "mark": mark, "model": model}
        for question, row in given.items()
        for letter, mark in row.items()
    ]
    try:
        return msgspec.convert(rows, list[Mark])
    except msgspec.ValidationError as error:
        raise TranscriptError(f"marks of {case}: {error}; a mark is 2, 1, 0 or -1") from error
