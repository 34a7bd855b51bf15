"""What counts as an answer in the demo: a sentence that says it, and not a word that means something else."""

from __future__ import annotations

import pytest

from summarizing_context.evaluation.demo import demo_session, find_answers

FORBIDDEN, TESTS, BRANCH, CALLED, SETTINGS, DATABASE, PORT, BROKE, FIXED = range(9)  # the questions, in their order
RIGHT = [
    (FORBIDDEN, "I stay on feat/berth-rules and will not push to main."),
    (TESTS, "ran `pytest -q` (14 times) → 120 passed"),
    (BRANCH, "Work on the branch `feat/berth-rules` and leave merging to Maren."),
    (CALLED, "The harbour office has to be called before the deployment."),
    (SETTINGS, "All settings stand in **config/quayside.toml**; every part reads it."),
    (DATABASE, "Decision: we stay with SQLite."),
    (PORT, "port = 9090"),
    (BROKE, "Cause: the table writes midnight as 24:00, which parse_clock refused."),
    (FIXED, "Fix: parse_clock hands 24:00 to roll_over_midnight, which makes it 00:00 of the next day."),
]
WRONG = [
    (FORBIDDEN, "I commit on feat/berth-rules and do not push."),
    (TESTS, "Now the tests."),
    (BRANCH, "Leave merging to Maren."),
    (CALLED, "Before a deployment I test. I call you. The harbour office is near."),
    (SETTINGS, "edited config/quayside.toml"),
    (DATABASE, "looked at quayside/store/sqlite.py"),
    (PORT, "The API listens on port 8080 at the moment."),
    (BROKE, "E   ValueError: hour must be in 0..23"),
    (FIXED, "also named roll_over_midnight, clock.py"),
]


@pytest.mark.parametrize(
    ("question", "sentence", "is_one"), [(*one, True) for one in RIGHT] + [(*one, False) for one in WRONG]
)
def test_a_sentence_that_says_it_is_an_answer(question: int, sentence: str, is_one: bool):
    view = [{"role": "assistant", "content": sentence}]
    assert find_answers(view, [])[question]["found"] == is_one
    assert find_answers([], view)[question]["without"] == is_one


@pytest.mark.parametrize("turns", [6, 12, 44])
def test_a_shorter_session_keeps_what_the_questions_ask_for(turns: int):
    messages = demo_session(turns)
    assert sum(message["role"] == "user" for message in messages) == turns
    assert all(found["found"] for found in find_answers(messages, []))
