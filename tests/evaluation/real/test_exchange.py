"""The exchange of files with those who act as models: letters, what is refused, and what is set aside."""

from __future__ import annotations

import json

import pytest

from evals.real import exchange
from summarizing_context.errors import TranscriptError
from tests.evaluation.real.building import BY, answer, built, copied, replied


def test_a_reply_to_a_changed_request_is_refused(tmp_path):
    recording = copied(tmp_path)
    request = built(recording).missing[0]
    exchange.write_requests(tmp_path, [request])
    answer(tmp_path, request.purpose, request.key, request.case)
    path = tmp_path / "requests" / f"{request.key}.json"
    path.write_text(path.read_text().replace("boiler", "engine"))
    with pytest.raises(TranscriptError, match="changed after it was written"):
        exchange.take_replies(tmp_path, recording, BY)


def read_by(tmp_path, recording, **answers):
    """Let a reader answer each question from the views of these arms."""
    case = recording.cases[0]
    exchange.write_views(tmp_path, case, built(recording), recording.questions(case))
    (tmp_path / "answers").mkdir(exist_ok=True)
    for arm, words in answers.items():
        text = json.dumps({question.id: words for question in recording.questions(case)})
        (tmp_path / "answers" / f"heating.{arm}.json").write_text(text)
    exchange.take_answers(tmp_path, recording, BY)
    exchange.write_judging(tmp_path, recording, case)


def test_the_judge_sees_letters_drawn_anew_for_each_question(tmp_path):
    recording = replied(tmp_path)
    read_by(tmp_path, recording, ours="mine", compact="theirs", tail="else", masking="and more")
    judged = json.loads((tmp_path / "judge" / "heating.json").read_text())
    keys = json.loads((tmp_path / "keys" / "heating.json").read_text())
    assert not any(arm in json.dumps(judged) for arm in ("ours", "masking", "compact"))
    assert len({tuple(row.values()) for row in keys.values()}) > 1
    for question in judged["questions"]:
        by_arm = {keys[question["id"]][letter]: words for letter, words in question["answers"].items()}
        assert by_arm == {"ours": "mine", "compact": "theirs", "tail": "else", "masking": "and more"}


@pytest.mark.parametrize(
    "given", [{"q1": {"A": 2}}, {"q1": {"A": 2, "B": 3}}, {"q1": {"A": 2, "C": 0}}, {"q2": {"A": 2, "B": 0}}]
)
def test_marks_that_do_not_fit_the_letters_are_refused(given):
    with pytest.raises(TranscriptError, match="marks of heating"):
        exchange.marks_of("heating", given, {"q1": {"A": "ours", "B": "tail"}}, "m")


def test_answers_to_a_view_that_changed_are_set_aside(tmp_path):
    recording = replied(tmp_path)
    read_by(tmp_path, recording, ours="mine", tail="else")
    (tmp_path / "views" / "heating" / "ours.txt").write_text("an earlier view")
    exchange.write_views(tmp_path, recording.cases[0], built(recording), recording.questions(recording.cases[0]))
    assert [path.name for path in (tmp_path / "answers").iterdir()] == ["heating.tail.json"]
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["0000-heating.ours.json"]


def test_marks_of_answers_that_changed_are_set_aside(tmp_path):
    recording = replied(tmp_path)
    read_by(tmp_path, recording, ours="mine", tail="else")
    (tmp_path / "marks").mkdir()
    (tmp_path / "marks" / "heating.json").write_text("{}")
    exchange.write_judging(tmp_path, recording, recording.cases[0])
    assert (tmp_path / "marks" / "heating.json").exists()
    read_by(tmp_path, recording, ours="another answer")
    assert list((tmp_path / "marks").iterdir()) == []
