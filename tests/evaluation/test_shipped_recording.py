"""The recording that comes along: complete, small, licensed, and read from the views as they are now."""

from pathlib import Path

import pytest

from summarizing_context.evaluation import Run
from summarizing_context.evaluation.datasets import recorded
from summarizing_context.evaluation.recording import CATEGORIES, Recording
from summarizing_context.evaluation.views import ARMS

FOLDER = Path(__file__).parents[2] / "evals" / "real"

MOST_BYTES = 5_000_000


@pytest.fixture(scope="module")
def recording():
    return Recording.open(FOLDER)


def test_it_is_complete_small_and_licensed_and_each_question_has_an_answer_from_before_the_cut(recording):
    assert len({case.drawn_as for case in recording.cases}) >= 12
    assert len({case.source for case in recording.cases}) >= 5
    assert len(recording.cases) > len({case.drawn_as for case in recording.cases})  # long ones are cut twice
    for case in recording.cases:
        assert case.licence == "MIT"
        assert (FOLDER / "licences" / f"{case.source.replace('/', '__')}.txt").is_file()
        assert len(recording.messages(case)) == case.cut
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= MOST_BYTES
    for case in recording.cases:
        questions = recording.at(case).questions
        assert len([question for question in questions if question.category in CATEGORIES]) >= 16
        assert all(question.answer for question in questions)
        assert all(message < case.cut for question in questions for message in question.evidence)


def test_each_arm_was_read_and_each_case_marked_from_the_views_that_are_built_today(recording):
    assert all(recording.at(case).arms == list(ARMS) for case in recording.cases)
    report = Run(recorded(recording), jobs=2).report()
    assert (len(report.views), report.missing) == (len(recording.cases) * len(ARMS), 0)
    assert {one.reading for one in report.views} == {"this view"}
    assert all(answer.mark is not None for one in report.asked for answer in one.answers.values())

    # From our views a model answers as well as from one-shot compaction of equal tokens.
    assert all(gate.passed for gate in report.check({"right": 0.94, "laws": 0}))
    leads = {name: report.ahead("ours", "compact", category=name) for name in CATEGORIES}
    assert {name for name, lead in leads.items() if lead is None or lead.high < 0} == set()
    for arm, category, least in (("ours", "absent", 0.95), ("extractive", "all", 0.76)):
        score = report.score(arm, category=category)
        assert score.mean >= least
