"""Builders for tests of the recorded answers: a made-up recording, and what models would have said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import anyio

from summarizing_context.evaluation.recording import Answers, Mark, Recording
from summarizing_context.evaluation.views import ARMS, Built, build, digest
from summarizing_context.summarizers.base import SummaryJob

MADE_UP = Path(__file__).parents[1] / "data" / "real"
WRITTEN = {  # what a model might write, by purpose
    "segment": "The sensor reports tenths of a degree; read_celsius divided by 100. Never restart by day.",
    "rollup": "The sensor reports tenths of a degree. Never restart by day.",
    "compact": "read_celsius in src/sensors.py divided by 100; fixed. test_frost failed with the old divisor.",
    "rules": '- [1] task "read_celsius"',
}


class By(NamedTuple):
    """Who wrote it."""

    model: str
    reading: str


BY = By("a person, by hand", "isolated")


def copied(folder: Path) -> Recording:
    """The made-up recording in a folder of its own, its results long enough for several segments."""
    shutil.copytree(MADE_UP, folder / "data")
    log = folder / "data" / "logs" / "heating.jsonl"
    messages = [json.loads(line) for line in log.read_text().splitlines()]
    for message in messages:
        if message["role"] == "tool":
            message["content"] += "".join(f"\nNothing new stands in line {number}." for number in range(120))
    log.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return Recording.open(folder / "data")


def built(recording: Recording, arms: tuple[str, ...] = tuple(ARMS)) -> Built:
    """The views of its one case."""
    case = recording.cases[0]
    return anyio.run(build, case, recording.messages(case), recording.replies, arms)


def replied(folder: Path) -> Recording:
    """The made-up recording with a reply to every request."""
    recording = copied(folder)
    case = recording.cases[0]

    async def write(purpose: str, job: SummaryJob) -> str:
        return WRITTEN[purpose]

    anyio.run(build, case, recording.messages(case), recording.replies, tuple(ARMS), None, write, BY.model)
    return recording


def answered(folder: Path) -> Recording:
    """The made-up recording with answers and marks of two arms, from the views as they are now."""
    recording = replied(folder)
    views = built(recording).views
    for arm in ("ours", "compact"):
        answers = {question.id: f"<b>{arm}</b>" for question in recording.questions(recording.cases[0])}
        recording.add_answers(Answers("heating", arm, digest(views[arm]), 9, answers, BY.model, BY.reading))
        recording.add_marks(Mark("heating", question, arm, 2, BY.model) for question in answers)
    recording.save()
    return recording
