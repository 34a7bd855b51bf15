"""The recording that comes along: complete, small, licensed, and read from the views as they are now."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from summarizing_context.evaluation.recording import CATEGORIES, Recording
from summarizing_context.evaluation.views import ARMS, build, digest

FOLDER = Path(__file__).parents[2] / "evals" / "real"

MOST_BYTES = 5_000_000


@pytest.fixture(scope="module")
def recording():
    return Recording.open(FOLDER)


def test_it_has_enough_sessions_of_enough_sources(recording):
    assert len({case.drawn_as for case in recording.cases}) >= 12
    assert len({case.source for case in recording.cases}) >= 5
    assert len(recording.cases) > len({case.drawn_as for case in recording.cases})  # long ones are cut twice


def test_each_log_has_its_licence_and_all_of_it_is_small(recording):
    for case in recording.cases:
        assert case.licence == "MIT"
        assert (FOLDER / "licences" / f"{case.source.replace('/', '__')}.txt").is_file()
        assert len(recording.messages(case)) == case.cut
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= MOST_BYTES


def test_each_question_has_a_gold_answer_from_before_the_cut(recording):
    for case in recording.cases:
        questions = recording.questions(case)
        assert len([question for question in questions if question.category in CATEGORIES]) >= 16
        assert all(question.answer for question in questions)
        assert all(message < case.cut for question in questions for message in question.evidence)


def test_each_arm_was_read_and_each_answer_was_marked(recording):
    for case in recording.cases:
        assert {arm for name, arm in recording.answers if name == case.name} == set(ARMS)
    for (name, arm), answers in recording.answers.items():
        asked = {question.id for question in recording.asked[name]}
        assert set(answers.answers) == asked
        assert all((name, question, arm) in recording.marks for question in asked)


@pytest.mark.parametrize("name", ["tau-02-56", "openhands-4595-22"])
def test_answers_were_read_from_the_views_that_are_built_today(recording, name):
    case = next(case for case in recording.cases if case.name == name)
    arms = list(ARMS)
    built = anyio.run(build, case, recording.messages(case), recording.replies, arms)
    assert not built.missing
    for arm in arms:
        assert digest(built.views[arm]) == recording.answers[name, arm].view, arm
