"""What counts as an answer in the demo: a sentence that says it, and not a word that means something else."""

from __future__ import annotations

import pytest

from summarizing_context.evaluation.demo import DemoQuestion, demo_questions, demo_session, find_answers, is_answer
from summarizing_context.evaluation.laws import LogIndex, ViewChecker, called_ids, canonical
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.reading import message_text_parts

MESSAGES = demo_session()
QUESTIONS = {question.question: question for question in demo_questions(MESSAGES)}
FORBIDDEN, TESTS, BRANCH, CALLED, SETTINGS, DATABASE, PORT, BROKE, FIXED = QUESTIONS.values()

RIGHT = [
    (FORBIDDEN, "One rule before anything else: Never push to main."),
    (FORBIDDEN, "I stay on feat/berth-rules and will not push to main."),
    (TESTS, "ran `pytest -q` (14 times) → 120 passed"),
    (BRANCH, "Work on the branch `feat/berth-rules` and leave merging to Maren."),
    (BRANCH, "Version 2.4.0 is ready on feat/berth-rules."),
    (CALLED, "Before a deployment somebody has to call Maren in the harbour office, as the operations page says."),
    (CALLED, "The harbour office has to be called before the deployment."),
    (SETTINGS, "All settings stand in **config/quayside.toml**; every part reads it."),
    (DATABASE, "Decision: we stay with SQLite."),
    (PORT, "The API listens on port 9090 now; 8080 is gone."),
    (PORT, "port = 9090"),
    (BROKE, "ValueError: hour must be in 0..23: '24:00' (data/tides/2026.csv, row 2976)"),
    (BROKE, "Cause: the table writes midnight as 24:00, which parse_clock refused."),
    (FIXED, "Fix: parse_clock hands 24:00 to roll_over_midnight, which makes it 00:00 of the next day."),
]

WRONG = [
    (FORBIDDEN, "I commit on feat/berth-rules and do not push."),
    (FORBIDDEN, "It runs on main."),
    (TESTS, "Now the tests."),
    (BRANCH, "Leave merging to Maren."),
    (CALLED, "Work on the branch feat/berth-rules and leave merging to Maren."),
    (CALLED, "Changes are paged to the harbour office by page_harbour_office."),
    (SETTINGS, "edited config/quayside.toml"),
    (DATABASE, "looked at quayside/store/sqlite.py"),
    (PORT, "The API listens on port 8080 at the moment."),
    (PORT, "took 9090 ms"),
    (BROKE, "The import takes all 35,040 rows."),
    (BROKE, "E   ValueError: hour must be in 0..23"),
    (FIXED, "also named roll_over_midnight, clock.py"),
]


@pytest.mark.parametrize(("question", "sentence"), RIGHT)
def test_a_sentence_that_says_it_is_an_answer(question: DemoQuestion, sentence: str):
    assert is_answer(question, sentence)


@pytest.mark.parametrize(("question", "sentence"), WRONG)
def test_a_word_that_means_something_else_is_no_answer(question: DemoQuestion, sentence: str):
    assert not is_answer(question, sentence)


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_the_message_that_is_named_answers_and_names_alone_do_not(question: DemoQuestion):
    def answered(messages: list[dict[str, object]]) -> bool:
        return find_answers([question], messages, messages)[0].found

    assert answered([MESSAGES[question.stated_at]])
    assert not answered([{"role": "assistant", "content": "Maren, main, SQLite, 8080, 24:00, config/quayside.toml"}])


def test_an_answer_of_two_sentences_of_one_line_is_none():
    view = [{"role": "assistant", "content": "Before a deployment I test. I call you. The harbour office is near."}]
    assert not find_answers([CALLED], view, view)[0].found


def test_a_finding_quotes_the_sentence_and_says_whether_the_newest_messages_have_it_too():
    view = [{"role": "user", "content": "Good. Decision: we stay with SQLite. It is small."}]
    (found,) = find_answers([DATABASE], view, view, without=[])
    assert (found.found, found.words, found.without) == (True, "Decision: we stay with SQLite.", False)
    assert find_answers([DATABASE], [], [], without=view)[0].without


def test_it_is_long():
    messages = demo_session()
    assert len(messages) >= 300
    assert sum(4 + sum(map(estimate_text, message_text_parts(message))) for message in messages) >= 150_000


def test_it_has_parallel_calls_and_every_call_its_result():
    messages, log = demo_session(), LogIndex()
    for message in messages:
        log.add(message)
    checker = ViewChecker(log)
    checker.look(messages, [canonical(message) for message in messages], common=0)
    assert not checker.tool_unsafe()
    assert not checker.out_of_order()
    assert sum(len(called_ids(message)) > 1 for message in messages) > 20


def test_two_rules_are_given_and_a_value_is_superseded():
    said = [message["content"] for message in demo_session() if message["role"] == "user"]
    assert "Never push to main" in said[0]
    assert "always use pytest -q" in said[1]
    assert any("no longer uses port 8080 but port 9090" in text for text in said)


def test_an_error_is_seen_before_its_fix():
    texts = [str(message["content"]) for message in demo_session()]
    seen = next(at for at, text in enumerate(texts) if "E   ValueError: hour must be in 0..23" in text)
    fixed = next(at for at, text in enumerate(texts) if "+        return roll_over_midnight(" in text)
    assert seen < fixed


@pytest.mark.parametrize("turns", [6, 12, 44])
def test_a_shorter_session_keeps_what_the_questions_ask_for(turns):
    messages = demo_session(turns)
    assert sum(message["role"] == "user" for message in messages) == turns
    assert len(demo_questions(messages)) == 9
