"""What counts as an answer in the demo: a sentence that says it, and not a word that means something else."""

import pytest

from summarizing_context.evaluation.demo import demo_session, find_answers

FORBIDDEN, TESTS, BRANCH, CALLED, SETTINGS, DATABASE, PORT, BROKE, FIXED = range(9)  # the questions, in their order
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


@pytest.mark.parametrize(("question", "sentence"), WRONG)
def test_a_sentence_that_means_something_else_is_no_answer(question: int, sentence: str):
    view = [{"role": "assistant", "content": sentence}]
    assert not find_answers(view, [])[question]["found"]
    assert not find_answers([], view)[question]["without"]


def test_the_session_answers_what_the_questions_ask_for():
    messages = demo_session()
    for which, found in (("found", find_answers(messages, [])), ("without", find_answers([], messages))):
        assert all(one[which] for one in found)
