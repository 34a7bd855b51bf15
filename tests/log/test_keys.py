"""Names for content: what enters them and what does not."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given, settings

from summarizing_context.log.entries import (
    content_digest,
    group_digest,
    message_digest,
    output_hash,
    range_hash,
    recipe_hash,
    rollup_hash,
)
from summarizing_context.messages.reading import read_message
from tests.making import ODD_MESSAGES, answer, assistant, call, one_call, timeline, user

ONE, TWO = b"1" * 32, b"2" * 32


def digest(message: dict) -> bytes:
    return content_digest(read_message(message))


@given(ODD_MESSAGES)
@settings(max_examples=100, deadline=None)
def test_what_a_model_cannot_read_does_not_enter(message):
    stamped = {**message, "timestamp": "2026-01-01", "usage": {"input": 5}, "id": "msg_1"}
    assert digest(stamped) == digest(message)


def test_what_a_model_can_read_enters():
    texts = [user("a"), user("b"), assistant("a"), answer("x", "a"), user("a") | {"metadata": {"source": "hook"}}]
    texts += [one_call("x"), one_call("x", text="a"), answer("x", "a") | {"is_error": True}]
    assert len({digest(message) for message in texts}) == len(texts)


def test_texts_do_not_run_into_each_other():
    blocks = [[{"type": "text", "text": text} for text in pair] for pair in (("ab", "c"), ("a", "bc"))]
    assert digest(user(blocks[0])) != digest(user(blocks[1]))


def test_provider_minted_ids_do_not_enter_but_which_call_is_answered_does():
    def names(one: str, two: str, first: str, second: str) -> list[bytes]:
        made = call("openai", (one, "read", {}), (two, "read", {}))
        return [entry.digest for entry in timeline([made, answer(first), answer(second)]).entries]

    assert names("a", "b", "a", "b") == names("x", "y", "x", "y")
    assert names("a", "b", "a", "b") != names("a", "b", "b", "a")


def test_lone_surrogates_have_a_digest():
    assert digest(user("\ud800")) != digest(user("\ud801"))


def test_a_message_without_calls_or_results_is_named_by_its_content():
    assert message_digest(ONE, -1, ()) == ONE
    assert len({message_digest(ONE, 0, ()), message_digest(ONE, 1, ()), message_digest(ONE, -1, (0,)), ONE}) == 4


def test_a_group_of_one_is_named_by_its_message_and_order_counts():
    assert group_digest([ONE]) == ONE
    assert group_digest([ONE, TWO]) != group_digest([TWO, ONE])


def test_parts_of_a_range_have_names_of_their_own():
    names = {range_hash([ONE]), range_hash([ONE], 0, 2), range_hash([ONE], 1, 2), range_hash([ONE], 0, 3)}
    assert len(names) == 4


def test_a_range_and_a_rollup_of_equal_bytes_differ():
    assert len({range_hash([]), rollup_hash(1, []), rollup_hash(2, []), recipe_hash({}), output_hash("")}) == 5


def test_rollups_are_named_by_rank_and_children_in_order():
    one, two = output_hash("one"), output_hash("two")
    assert len({rollup_hash(1, [one, two]), rollup_hash(1, [two, one]), rollup_hash(2, [one, two])}) == 3


def test_a_recipe_does_not_depend_on_the_order_of_its_parts():
    assert recipe_hash({"a": 1, "b": 2}) == recipe_hash({"b": 2, "a": 1}) != recipe_hash({"a": 1, "b": 3})


def test_keys_are_equal_in_any_process():
    code = (
        "from summarizing_context.messages.reading import read_message as r;"
        "from summarizing_context.log.entries import *;"
        "print(range_hash([content_digest(r({'role': 'user', 'content': 'Grüße', 'x': {1: 2}.__class__()}))]))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert found == {range_hash([digest(user("Grüße"))])}
