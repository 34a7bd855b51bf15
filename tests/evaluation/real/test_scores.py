"""Scores from marks, bounds, the report, and whether answers belong to the views as they are now."""

from __future__ import annotations

import json

import msgspec
import pytest

from summarizing_context.evaluation.real.arms import Case, digest
from summarizing_context.evaluation.real.recording import (
    Answers,
    Bound,
    Mark,
    Question,
    Recording,
    check_bounds,
    replay,
    scores,
)
from summarizing_context.evaluation.report import write_reports
from tests.evaluation.real.building import BY, built, replied

CATEGORIES = ("rule", "fact", "fact", "absent")  # of the questions of each case


def marked(tmp_path, **marks):
    """A recording of two cases with four questions each; of each arm the marks of the first and the second case."""
    cases = [Case(name, f"{name}.jsonl", 1, 400, "made up", "MIT") for name in ("one", "two")]
    recording = Recording(tmp_path, cases)
    for at, case in enumerate(cases):
        recording.asked[case.name] = [
            Question(f"q{number}", category, f"Q{number} of {case.name}?", "gold")
            for number, category in enumerate(CATEGORIES)
        ]
        for arm, given in marks.items():
            answers = {question.id: f"<{arm}>" for question in recording.questions(case)}
            recording.add_answers(Answers(case.name, arm, "0" * 64, 9, answers, BY.model, BY.reading))
            recording.add_marks(
                Mark(case.name, question.id, arm, mark, BY.model)
                for question, mark in zip(recording.questions(case), given[at], strict=True)
            )
    return recording


MARKS = {"ours": ([2, 2, 1, 2], [2, 2, 2, -1]), "compact": ([2, 1, 0, 2], [2, -1, 2, 2])}


def test_partly_right_counts_half_and_wrong_nothing(tmp_path):
    ours, compact = scores(marked(tmp_path, **MARKS), ("ours", "compact"))
    assert (ours.score.points, ours.score.questions) == (5.5, 6)
    assert ours.score.mean.mean == pytest.approx((2.5 / 3 + 1) / 2)
    assert (compact.score.points, compact.wrong) == (3.5, 1)
    assert (ours.cases, compact.cases) == (2, 2)
    assert (ours.absent.points, ours.absent.questions, ours.wrong) == (1, 2, 0)  # never said: apart


def test_the_lead_is_paired_over_sessions(tmp_path):
    ours, compact = scores(marked(tmp_path, **MARKS), ("ours", "compact"))
    first, second = 2.5 / 3 - 1.5 / 3, 1 - 2 / 3
    assert ours.score.ahead.mean == pytest.approx((first + second) / 2)
    assert ours.score.ahead.low == pytest.approx(min(first, second))
    assert ours.categories["rule"].ahead.mean == 0
    assert compact.score.ahead is None


def test_cases_of_one_session_count_as_one(tmp_path):
    recording = marked(tmp_path, **MARKS)
    recording.cases = [msgspec.structs.replace(case, session="same") for case in recording.cases]
    (ours,) = scores(recording, ("ours",))
    assert ours.score.mean.sessions == 1
    assert ours.score.mean.mean == pytest.approx(5.5 / 6)


@pytest.mark.parametrize(
    ("bound", "result"),
    [
        (Bound(at_least=0.9), "passed"),
        (Bound(at_least=0.95), "failed"),
        (Bound(category="rule", not_behind=True), "passed"),
        (Bound(category="absent", not_behind=True), "passed"),  # behind in the mean, but not in every draw
        (Bound(category="absent", at_least=1.0), "failed"),
        (Bound(arm="tail", at_least=0.1), "nothing to look at"),
        (Bound(category="error", at_least=0.1), "nothing to look at"),
    ],
)
def test_bounds_are_kept_or_not(tmp_path, bound, result):
    assert [gate.result for gate in check_bounds(scores(marked(tmp_path, **MARKS), ("ours", "compact")), [bound])] == [
        result
    ]


def test_an_arm_that_is_behind_in_every_session_is_told(tmp_path):
    marks = {"ours": ([0, 2, 2, 2], [0, 2, 2, 2]), "compact": ([2, 2, 2, 2], [2, 2, 2, 2])}
    found = scores(marked(tmp_path, **marks), ("ours", "compact"))
    gates = check_bounds(found, [Bound(category="rule", not_behind=True)])
    assert gates[0].failed
    assert "-100.0 points" in gates[0].words


def answered(tmp_path):
    """The made-up recording with answers and marks of two arms, from the views as they are now."""
    recording = replied(tmp_path)
    views = built(recording).views
    for arm in ("ours", "compact"):
        answers = {question.id: f"<b>{arm}</b>" for question in recording.questions(recording.cases[0])}
        recording.add_answers(Answers("heating", arm, digest(views[arm]), 9, answers, BY.model, BY.reading))
        recording.add_marks(Mark("heating", question, arm, 2, BY.model) for question in answers)
    recording.save()
    return recording


def test_a_view_that_changed_is_told_and_its_marks_still_count(tmp_path):
    recording = answered(tmp_path)
    changed = next(reply for reply in recording.replies.values() if reply.purpose == "compact")
    recording.replies[changed.key] = msgspec.structs.replace(changed, reply="Another summary.")
    recording.save()
    outcome = replay(recording, ("ours", "compact"))
    assert [view["reading"] for view in outcome.views] == ["this view", "an earlier view"]
    assert [score.arm for score in outcome.arms] == ["ours", "compact"]


def test_the_page_shows_gold_and_all_answers_escaped(tmp_path):
    outcome = replay(answered(tmp_path), ("ours", "compact"))
    gates = check_bounds(outcome.arms, [Bound(at_least=0.9), Bound(at_least=1.1)])
    page, _ = write_reports(outcome, "a claim & more", gates, tmp_path / "out")
    shown = page.read_text("utf8")
    assert shown.startswith("<!doctype html>")
    assert "&lt;b&gt;ours&lt;/b&gt;" in shown
    assert "a claim &amp; more" in shown
    assert "<b>compact</b></td>" in shown
    assert "Because the display reads the same function." in shown
    assert "1 gate failed" in shown
    assert "<script" not in shown
    document = json.loads(page.with_suffix(".json").read_text("utf8"))
    assert document["arms"]["ours"]["score"]["points"] == 4
    assert document["arms"]["ours"]["absent"]["points"] == 1
    assert [gate["result"] for gate in document["gates"]] == ["passed", "failed"]
