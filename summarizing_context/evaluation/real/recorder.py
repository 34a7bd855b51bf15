"""Recording through an API: what is missing is sent to models, in the order in which it can be asked.

First questions, if they are wanted; then summaries, in rounds, until every view can be built; then the answers from
views that nobody has read; then the marks of cases in which an answer has none. All calls go through cassettes, which
keep replies and count the cost. A forecast goes the same way on a copy, with assumed replies.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from string import ascii_uppercase
from typing import Any, TypeVar

import anyio
import msgspec

from summarizing_context.errors import CassetteError, TranscriptError
from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.models import Chat, ModelPlan, RecordedModel, view_text
from summarizing_context.evaluation.real.arms import Built, build, compact_request
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
from summarizing_context.evaluation.real.rendering import Message
from summarizing_context.evaluation.real.views import Request
from summarizing_context.evaluation.requests import Reply as ModelReply
from summarizing_context.evaluation.requests import Request as Asked
from summarizing_context.summarizers.prompts import latest
from summarizing_context.summarizers.providers import make_model

ABSTENTION = "not in the record"
READING = "isolated"  # each request is a call of its own
_ROUNDS = 1_000  # of summaries: one for each rank, second requests after a refusal, and calls for rules in their order
_TRIES = 3  # for a reply that can be read
_REPLY_TOKENS = 4_000
_ANSWER = "word " * 15  # that a forecast assumes

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
        """Send what is missing, case by case, and keep what comes. A forecast sends and keeps nothing."""
        recording = self.recording.copy() if self._forecasts else self.recording
        await replace(self, recording=recording)._record(arms, watch)

    async def _record(self, arms: Sequence[str], watch: Callable[[str], None]) -> None:
        for case in self.recording.cases:
            await self._asked(case)
            built = await self._written(case, arms)
            if not (built.missing or built.waiting):
                await self._read(case, built)
                await self._judged(case)
            watch(case.name)

    @property
    def _forecasts(self) -> bool:
        return self.writer.mode == "forecast"

    async def _asked(self, case: Case) -> None:
        """Have questions written, if the case has none."""
        if not self.questions or self.recording.questions(case):
            return
        request = questions_request(self.writer.maker, case, self.recording.messages(case), number=self.questions)
        assumed = assumed_questions(self.questions)
        found = await self._readable(
            self.writer, case, request, partial(read_questions, case=case, number=self.questions), assumed=str(assumed)
        )
        if found is None:
            self.recording.asked[case.name] = assumed
        else:
            self.recording.write_questions(case, found)

    async def _written(self, case: Case, arms: Sequence[str]) -> Built:
        """The views of a case, with every summary written that they need."""
        messages = self.recording.messages(case)
        for _ in range(_ROUNDS):
            built = await build(case, messages, self.recording.replies, arms, self.recording.settings)
            if not built.missing:
                return built
            await self._all([partial(self._write, request) for request in built.missing])
        raise CassetteError(f"{case.name}: summaries are missing after {_ROUNDS} rounds; record again to go on")

    async def _write(self, request: Request) -> None:
        asked = Asked(
            kind=request.purpose,
            maker=self.summarizer.maker,
            system=request.system,
            user=(request.user,),
            max_tokens=request.max_tokens,
        )
        assumed = "word " * (request.max_tokens // 2)
        reply = await self.summarizer.ask(asked, assumed=assumed, is_usable=lambda kept: not kept.fault)
        if reply.fault:
            raise CassetteError(
                f"{request.case}: {self.summarizer.where} gave no {request.purpose} summary ({reply.fault}); the same "
                "command asks again"
            )
        model = self.plan.summarizes.model
        self.recording.add_replies([Reply(request.key, request.purpose, model, READING, reply.text)])

    async def _read(self, case: Case, built: Built) -> None:
        """Ask the reader about each view that has no answers yet."""
        questions = self.recording.questions(case)
        listed = json.dumps([{"id": one.id, "question": one.question} for one in questions], ensure_ascii=False)
        system = latest("answers").render(abstention=ABSTENTION)

        async def read(arm: str) -> None:
            view = built.views[arm]
            user = (view_text([view.text]), f"Questions: {listed}")
            asked = self._request("reader", self.reader, (system, *user))
            found = await self._readable(self.reader, case, asked, partial(read_answers, questions=questions))
            if found is None:
                found = {question.id: _ANSWER for question in questions}
            answers = {question.id: found.get(question.id, ABSTENTION) for question in questions}
            line = Answers(case.name, arm, view.digest, view.tokens, answers, self.plan.reader.model, READING)
            self.recording.add_answers(line)

        known = self.recording.answers
        unread = [
            arm
            for arm, view in built.views.items()
            if questions and ((case.name, arm) not in known or known[case.name, arm].view != view.digest)
        ]
        await self._all([partial(read, arm) for arm in unread])

    async def _judged(self, case: Case) -> None:
        """Ask the judge about all answers of a case, unless each has a mark. One judge marks all arms at once."""
        arms = [arm for name, arm in self.recording.answers if name == case.name]
        questions = self.recording.questions(case)
        if all((case.name, question.id, arm) in self.recording.marks for question in questions for arm in arms):
            return
        document, letters = judging(self.recording, case)
        names = {"right": RIGHT, "partly": PARTLY, "abstained": ABSTAINED, "wrong": WRONG}
        texts = (latest("marks").render(**names), view_text([json.dumps(document, ensure_ascii=False)]))

        def read_marks(text: str) -> list[Mark]:
            return marks_of(case.name, _object(text, dict[str, dict[str, int]]), letters, self.plan.judge.model)

        marks = await self._readable(self.judge, case, self._request("judge", self.judge, texts), read_marks)
        self.recording.add_marks(marks or [])

    def _request(self, kind: str, model: RecordedModel, texts: Sequence[str]) -> Asked:
        return Asked(kind=kind, maker=model.maker, system=texts[0], user=tuple(texts[1:]), max_tokens=_REPLY_TOKENS)

    async def _readable(
        self,
        model: RecordedModel,
        case: Case,
        asked: Asked,
        read: Callable[[str], Value],
        *,
        assumed: str = "word " * (_REPLY_TOKENS // 4),
    ) -> Value | None:
        """Return what `read` finds in the reply; None in a forecast. A reply that it refuses with `ValueError` is told
        and asked for again, also one that was kept. Raise `TranscriptError` where none can be read."""

        def is_usable(reply: ModelReply) -> bool:
            try:
                read(reply.text)
            except ValueError:
                return False
            return True

        for _ in range(_TRIES):
            reply = await model.ask(asked, assumed=assumed, is_usable=is_usable)
            if self._forecasts:
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
    recording: Recording, cassette_of: Callable[[Chat], Cassette], plan: ModelPlan, *, questions: int = 0
) -> AsyncIterator[AnswerRecorder]:
    """The models of a plan, for the length of an `async with`; what was recorded is saved at its end.

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
            return RecordedModel(model, cassette, plan)

        summarizer, writer, reader, judge = map(opened, plan.chats)
        try:
            yield AnswerRecorder(recording, plan, summarizer, writer, reader, judge, questions)
        finally:
            if any(cassette_of(chat).sends for chat in plan.chats):
                recording.save()


_TOKENS, _TOKENS_EACH = 500, 120  # of a reply
_WORDS_EACH = 20  # that a forecast assumes, of a question and of an answer


class _Written(msgspec.Struct, frozen=True):
    category: Category
    question: str
    answer: str
    evidence: list[int] = []


class _Reply(msgspec.Struct, frozen=True):
    questions: list[_Written]


def questions_request(maker: str, case: Case, messages: Sequence[Message], *, number: int) -> Asked:
    """The request for so many questions about a case."""
    prompt = latest("questions")
    return Asked(
        kind="questions",
        maker=maker,
        system=prompt.render(number=number),
        user=(view_text([compact_request(case, messages).user]),),
        max_tokens=_TOKENS + number * _TOKENS_EACH,
        prompt=f"{prompt.name}/v{prompt.version}/{prompt.hash[:16]}",
    )


def read_questions(text: str, case: Case, *, number: int) -> list[Question]:
    """The questions of a reply, with ids. Raises `ValueError` that says what is wrong with the first bad one."""
    written = _object(text, _Reply, "not a JSON object with questions").questions
    if not written:
        raise ValueError("no question at all")
    for at, one in enumerate(written, 1):
        if complaint := _complaint(one, case):
            raise ValueError(f"question {at} ({one.category}) {complaint}")
    if len({one.question.strip() for one in written}) < len(written):
        raise ValueError("the same question twice")
    return [
        Question(f"q{at}", one.category, one.question.strip(), one.answer.strip(), one.evidence)
        for at, one in enumerate(written[:number], 1)
    ]


def read_answers(text: str, questions: Sequence[Question]) -> dict[str, str]:
    """Return the answers of a reply by question. Raise `ValueError` for one that answers none."""
    found = _object(text, dict[str, str])
    if questions and not any(question.id in found for question in questions):
        raise ValueError("an answer to none of the questions")
    return found


def _object(text: str, of: type[Value], complaint: str = "not a JSON object as asked for") -> Value:
    """Return the one JSON object of a reply, whatever words are around it."""
    start, stop = text.find("{"), text.rfind("}") + 1
    try:
        return msgspec.json.decode(text[start:stop], type=of)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"{complaint} ({error})") from error


def assumed_questions(number: int) -> list[Question]:
    """What a forecast takes for the questions."""
    words = "word " * _WORDS_EACH
    return [Question(f"q{at}", CATEGORIES[at % len(CATEGORIES)], words, words) for at in range(1, number + 1)]


def _complaint(one: _Written, case: Case) -> str:
    if not one.question.strip() or not one.answer.strip():
        return "lacks its words or its answer"
    if not one.evidence and one.category != ABSENT:
        return "names no message that holds its answer"
    if beyond := [at for at in one.evidence if not 0 <= at < case.cut]:
        return f"names message {beyond[0]}, but there are 0 to {case.cut - 1} before the cut"
    return ""


def judging(recording: Recording, case: Case) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """What the judge of a case gets, and by question which arm each letter is."""
    answers = {arm: found for (name, arm), found in recording.answers.items() if name == case.name}
    letters = {question.id: shuffled(case.name, question.id, sorted(answers)) for question in recording.questions(case)}
    questions = [
        {
            "id": question.id,
            "category": question.category,
            "question": question.question,
            "gold": question.answer,
            "answers": {
                letter: answers[arm].answers.get(question.id, "") for letter, arm in letters[question.id].items()
            },
        }
        for question in recording.questions(case)
    ]
    return {"case": case.name, "questions": questions}, letters


def shuffled(case: str, question: str, arms: Sequence[str]) -> dict[str, str]:
    """Which arm each letter is, drawn anew for each question."""
    drawn = random.Random(f"letters/{case}/{question}").sample(list(arms), len(arms))
    return dict(zip(ascii_uppercase, drawn, strict=False))


def marks_of(
    case: str, given: Mapping[str, Mapping[str, int]], letters: Mapping[str, Mapping[str, str]], model: str
) -> list[Mark]:
    """Marks by letters as marks by arms. Raises `TranscriptError` for a letter or a mark that there is not, or where
    an answer has none."""
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
