"""Recording through an API: what a recording lacks is sent to models, in the order in which it can be asked.

First questions, if they are wanted; then summaries, as a session asks for them; then the answers from unread views;
then the marks of cases in which an answer has none. All calls go through a cassette, which keeps replies and counts
the cost. A forecast goes the same way with assumed replies, and saves nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from string import ascii_uppercase
from typing import Any, TypeVar

import msgspec

from summarizing_context.errors import CassetteError, SummarizerRefused, TranscriptError
from summarizing_context.evaluation.cassettes import Cassette, RecordedModel, Reply, Request
from summarizing_context.evaluation.recording import CATEGORIES, SCALE, Answers, Mark, Question, Recording
from summarizing_context.evaluation.report import ABSENT
from summarizing_context.evaluation.views import COMPACT, OURS, READING, Built, Case, Write, build, compaction, digest
from summarizing_context.messages.fences import fence
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.prompts import latest
from summarizing_context.summarizers.providers import make_model

ABSTENTION = "not in the record"
_TRIES = 3  # for a reply that can be read

Value = TypeVar("Value")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AnswerRecorder:
    """The models of a recording: one summarizes and writes questions, another reads views and marks the answers.
    `write` summarizes in the place of the first one."""

    recording: Recording
    writer: RecordedModel
    judge: RecordedModel
    questions: int = 0  # to be written for a case that has none
    write: Write | None = None

    async def record(self, arms: Sequence[str] | Mapping[str, Settings]) -> None:
        """Send what is missing, case by case, and keep what comes. Settings by name are compared by their views."""
        for case in self.recording.cases:
            if self.questions and not self.recording.questions(case):
                await self._ask(case)
            if isinstance(arms, Mapping):
                views = {name: (await self._build(case, (OURS,), own)).views[OURS] for name, own in arms.items()}
            else:
                views = (await self._build(case, arms, self.recording.settings)).views
            if views:
                await self._answer(case, views)
                await self._mark(case)

    async def _ask(self, case: Case) -> None:
        """Have the questions of a case written."""
        log = fence("session_record", compaction(self.recording.messages(case)).content)
        system, some = latest("questions").render(number=self.questions), "word " * 20
        assumed = [Question(f"q{at}", "fact", some, some) for at in range(1, self.questions + 1)]
        asked = Request("questions", self.writer.maker, system, (log,), 500 + 120 * self.questions)
        read = partial(read_questions, case=case, number=self.questions)
        found = await self._readable(self.writer, case, asked, read, assumed=str(assumed))
        if found is None:
            self.recording.asked[case.name] = assumed
        else:
            self.recording.write_questions(case, found)

    async def _build(self, case: Case, arms: Sequence[str], own: Settings | None) -> Built:
        """Return the views of a case, with every summary written that they need."""
        model, refused = self.writer, list[str]()

        async def write(purpose: str, job: SummaryJob) -> str | None:
            if refused:  # nothing more is paid for
                return None
            attempts = 3 if purpose == COMPACT else 1  # a context tries again by itself
            try:
                reply = await model.summarize(
                    job, kind=purpose, attempts=attempts, is_usable=lambda kept: not kept.fault
                )
                return reply.text
            except SummarizerRefused as error:
                refused.append(f"{case.name}: {model.where} gave no {purpose} summary ({error})")
                return None

        recording = self.recording
        messages = recording.messages(case)
        built = await build(case, messages, recording.replies, arms, own, self.write or write, model.model)
        if self.write is None:
            model.check()  # a context makes good what is missing
        if refused:
            raise CassetteError(f"{refused[0]}; the same command asks again")
        return built

    async def _answer(self, case: Case, views: Mapping[str, str]) -> None:
        """Ask the reader about each view that has no answers yet."""
        questions, known = self.recording.questions(case), self.recording.answers
        listed = json.dumps([{"id": one.id, "question": one.question} for one in questions], ensure_ascii=False)

        def read(text: str) -> dict[str, str]:
            found = _object(text, dict[str, str])
            if not any(question.id in found for question in questions):
                raise ValueError("an answer to none of the questions")
            return found

        async def ask(arm: str) -> None:
            view, system = views[arm], latest("answers").render(abstention=ABSTENTION)
            parts = fence("session_record", view), f"Questions: {listed}"
            asked = Request("reader", self.judge.maker, system, parts, 4_000)
            found = await self._readable(self.judge, case, asked, read)
            if found is None:
                found = {question.id: "word " * 15 for question in questions}
            answers = {question.id: found.get(question.id, ABSTENTION) for question in questions}
            line = Answers(case.name, arm, digest(view), estimate_text(view), answers, self.judge.model, READING)
            self.recording.add_answers(line)

        lines = {arm: known.get((case.name, arm)) for arm in views} if questions else {}
        unread = [arm for arm, line in lines.items() if line is None or line.view != digest(views[arm])]
        done = await asyncio.gather(*map(ask, unread), return_exceptions=True)
        for failure in (one for one in done if one is not None):
            raise failure

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

        asked = Request("judge", self.judge.maker, system, (fence("session_record", document),), 4_000)
        self.recording.add_marks(await self._readable(self.judge, case, asked, read) or [])

    async def _readable(
        self,
        model: RecordedModel,
        case: Case,
        asked: Request,
        read: Callable[[str], Value],
        *,
        assumed: str = "word " * 1_000,
    ) -> Value | None:
        """Return what `read` finds in the reply; None in a forecast. A reply that it refuses with `ValueError` is told
        and asked for again, also one that was kept. Raise `TranscriptError` where none can be read."""

        def is_usable(reply: Reply) -> bool:
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


async def record_answers(
    recording: Recording,
    cassette: Cassette,
    models: Sequence[Settings],
    arms: Sequence[str] | Mapping[str, Settings],
    questions: int = 0,
) -> None:
    """Have models asked for what a recording lacks, and save it; what came before a failure too. `models` name the
    writer and the judge. What settings come to, by name, is compared and not saved."""
    made = [make_model(settings, read_only=not cassette.sends) for settings in models]
    writer, judge = (RecordedModel(model, cassette, 300.0) for model in made)  # one reply answers all questions
    try:
        await AnswerRecorder(recording, writer, judge, questions).record(arms)
    finally:
        for model in made:
            await model.close()
        if cassette.mode != "forecast" and not isinstance(arms, Mapping):
            recording.save()


def read_questions(text: str, *, case: Case, number: int) -> list[Question]:
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
