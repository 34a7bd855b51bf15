"""What models are asked about recorded answers: questions about a log, answers from views, and marks.

All calls go through a cassette; a forecast goes the same way with assumed replies.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from string import ascii_uppercase
from typing import Any, Literal, TypeVar

import msgspec

from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.cassettes import RecordedModel, Reply, Request
from summarizing_context.evaluation.recording import ABSENT, CATEGORIES, SCALE, Question
from summarizing_context.evaluation.views import Case, Message, compaction
from summarizing_context.messages.fences import fence
from summarizing_context.summarizers.prompts import latest

ABSTENTION = "not in the record"
_TRIES = 3  # for a reply that can be read

Mark = Literal[2, 1, 0, -1]  # of a judge, by `SCALE`
Value = TypeVar("Value")

logger = logging.getLogger(__name__)


async def write_questions(
    case: Case, messages: Sequence[Message], number: int, writer: RecordedModel
) -> list[Question]:
    """Return so many questions about a log, written by a model."""
    log = fence("session_record", compaction(messages).content)
    system, some = latest("questions").render(number=number), "word " * 20
    assumed = [Question(f"q{at}", "fact", some, some) for at in range(1, number + 1)]
    asked = Request("questions", writer.maker, system, (log,), 500 + 120 * number)
    read = partial(read_questions, case=case, number=number)
    return await _readable(writer, case, asked, read, str(assumed)) or assumed


async def read_answers(
    case: Case, questions: Sequence[Question], views: Mapping[str, str], reader: RecordedModel
) -> dict[str, dict[str, str]]:
    """Return a reader's answers from each view, by arm and question."""
    listed = json.dumps([{"id": one.id, "question": one.question} for one in questions], ensure_ascii=False)
    system = latest("answers").render(abstention=ABSTENTION)

    def read(text: str) -> dict[str, str]:
        found = _object(text, dict[str, str])
        if not any(question.id in found for question in questions):
            raise ValueError("an answer to none of the questions")
        return found

    async def ask(arm: str) -> None:
        parts = fence("session_record", views[arm]), f"Questions: {listed}"
        asked = Request("reader", reader.maker, system, parts, 4_000)
        found = await _readable(reader, case, asked, read)
        if found is None:
            found = {question.id: "word " * 15 for question in questions}
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

    system = latest("marks").render(**SCALE)
    asked = Request("judge", judge.maker, system, (fence("session_record", document),), 4_000)
    return await _readable(judge, case, asked, read) or {}


async def _readable(
    model: RecordedModel, case: Case, asked: Request, read: Callable[[str], Value], assumed: str = "word " * 1_000
) -> Value | None:
    """Return what `read` finds in the reply; None in a forecast. A reply that it refuses with `ValueError` is logged
    and asked for again, also one that was kept. Raise `TranscriptError` where none can be read."""

    def is_usable(reply: Reply) -> bool:
        with suppress(ValueError):
            read(reply.text)
            return True
        return False

    for _ in range(_TRIES):
        reply = await model.ask(asked, assumed=assumed, is_usable=is_usable)
        try:
            return read(reply.text)
        except ValueError as error:
            if model.mode == "forecast":
                return None
            complaint = reply.fault or str(error)
            logger.warning("%s: the %s reply of %s cannot be used: %s", case.name, asked.kind, model.where, complaint)
    raise TranscriptError(
        f"{case.name}: no usable {asked.kind} reply in {_TRIES} of {model.where}, in the last one {complaint}; "
        "the same command asks again, or take another model"
    )


def read_questions(text: str, *, case: Case, number: int) -> list[Question]:
    """Return the questions of a reply, with ids. Raise `ValueError` that says what is wrong with the first bad one."""
    written = _object(text, dict[str, list[dict[str, Any]]]).get("questions", [])
    try:
        found = msgspec.convert([{**one, "id": f"q{at}"} for at, one in enumerate(written, 1)], list[Question])
    except msgspec.ValidationError as error:
        raise ValueError(f"not a JSON object with questions ({error})") from error
    if not found:
        raise ValueError("no question at all")
    known = (*CATEGORIES, ABSENT)
    for at, one in enumerate(found, 1):
        beyond = next((message for message in one.evidence if not 0 <= message < case.cut), None)
        for is_wrong, complaint in (
            (one.category not in known, f"has none of the categories {', '.join(known)}"),
            (not one.question.strip() or not one.answer.strip(), "lacks its words or its answer"),
            (not one.evidence and one.category != ABSENT, "names no message that holds its answer"),
            (beyond is not None, f"names message {beyond}, but there are 0 to {case.cut - 1} before the cut"),
        ):
            if is_wrong:
                raise ValueError(f"question {at} ({one.category}) {complaint}")
    return found[:number]


def _object(text: str, of: type[Value]) -> Value:
    """Return the one JSON object of a reply, whatever words are around it."""
    try:
        return msgspec.json.decode(text[text.find("{") : text.rfind("}") + 1], type=of)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"not a JSON object as asked for ({error})") from error
