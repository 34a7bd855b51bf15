"""The bundled demo session: long, lawful in itself, the same every time."""

from __future__ import annotations

import pytest

from summarizing_context.evaluation.demo_run import demo_questions
from summarizing_context.evaluation.demo_session import demo_session
from summarizing_context.evaluation.laws import LogIndex, ViewChecker, called_ids, canonical
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.reading import message_text_parts


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
