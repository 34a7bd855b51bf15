"""The judges can fail: each catches a violation that was put there, and passes what is lawful."""

from __future__ import annotations

import copy

import pytest

from .builders import DIALECTS, Message, assistant, call, result, results, system, user
from .checkers import (
    find_tail,
    order_problems,
    tail_problems,
    tool_safe_problems,
)
from .repairs import ALL_REPAIRS, explain, is_shrunk_text

HEADER = user("<summary>what happened before</summary>")


def log_of(dialect: str = "openai") -> list[Message]:
    return [
        system("rules"),
        user("first ask"),
        call(dialect, ("a", "read", {}), ("b", "read", {}), text="I look."),
        result(dialect, "a", "alpha " * 60),
        result(dialect, "b", "beta"),
        assistant("found"),
        user("second ask"),
        call(dialect, ("c", "run", {})),
        result(dialect, "c", "gamma"),
        assistant("done"),
    ]


def judged(view: list[Message], log: list[Message]) -> list[str]:
    return tool_safe_problems(view) + order_problems(view, log) + tail_problems(view, log, ALL_REPAIRS)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tool_safe_catches_a_missing_result_a_lone_result_and_a_row_between(dialect: str) -> None:
    log = log_of(dialect)
    assert tool_safe_problems(log) == []
    assert tool_safe_problems(log[:4] + log[5:])
    assert tool_safe_problems(log[3:])
    assert tool_safe_problems([*log[:3], user("hello"), *log[3:]])
    assert tool_safe_problems([*log[:5], log[4], *log[5:]])
    assert tool_safe_problems(log[:3]) == []
    assert tool_safe_problems(log[:4]) == []


def test_order_lets_results_move_to_their_call_and_no_further() -> None:
    a, b = call("openai", ("a", "read", {})), call("openai", ("b", "read", {}))
    ra, rb = result("openai", "a", "one"), result("openai", "b", "two")
    log = [user("go"), a, b, ra, rb, assistant("ok")]
    assert order_problems([log[0], a, ra, b, rb, log[5]], log) == []
    assert judged([log[0], a, ra, b, rb, log[5]], log) == []
    assert order_problems([log[0], b, rb, a, ra, log[5]], log)


def test_what_stands_before_the_tail_is_system_rows_pins_and_one_header() -> None:
    log = log_of()
    assert tail_problems([log[1], HEADER, *log[6:]], log, ALL_REPAIRS)
    assert tail_problems([*log[:2], HEADER, HEADER, *log[6:]], log, ALL_REPAIRS)
    assert tail_problems([*log[:2], HEADER, log[5], *log[7:]], log, ALL_REPAIRS)
    assert tail_problems([HEADER, *log], log, ALL_REPAIRS)
    assert tail_problems([*log[:2], HEADER, log[6], *log[7:]], log, ALL_REPAIRS) == []


def test_a_shrunk_result_is_a_named_repair_and_an_edited_one_is_not() -> None:
    log = log_of()
    shown = copy.deepcopy(log)
    shown[3]["content"] = "alpha alpha [... 80 tokens left out ...] alpha alpha "
    assert tail_problems(shown, log, ALL_REPAIRS) == []
    assert tail_problems(shown, log, ALL_REPAIRS - {"shrunk"}) == ["1 x shrunk"]
    shown[3] = copy.deepcopy(log[3])
    shown[3]["content"] = "alpha alpha and so on, as often before" + " and more" * 40
    assert tail_problems(shown, log, ALL_REPAIRS)
    assert not is_shrunk_text("abc", "abcdef" * 9 + "zz")


def test_stand_ins_late_notes_and_split_results_are_told_apart() -> None:
    log = [user("x"), call("openai", ("a", "read", {})), user("wait"), result("openai", "a", "late news"), user("y")]
    stand_in, note = result("openai", "a", "no result came"), user("<note>late result of read: late news</note>")
    view = [log[0], log[1], stand_in, log[2], note, log[4]]
    tail = find_tail(view, log)
    assert not isinstance(tail, str)
    assert tail.repairs == {"stand_in_result": 1, "late_result_note": 1}
    assert judged(view, log) == []
    assert judged([log[0], log[1], stand_in, log[2], log[4]], log)
    one, two = call("anthropic", ("p", "r", {})), call("anthropic", ("q", "r", {}))
    both = [one, two, results(("p", "1"), ("q", "2")), user("go")]
    split = find_tail([one, results(("p", "1")), two, results(("q", "2")), both[3]], both)
    assert not isinstance(split, str)
    assert split.repairs == {"split_results": 2}
    assert judged([one, results(("p", "1")), two, results(("q", "9")), both[3]], both)


def test_words_beside_a_result_stand_behind_the_stand_in_of_the_call_they_give_up() -> None:
    asked = call("anthropic", ("a", "read", {}), ("b", "read", {}))
    told, said = results(("b", "beta")), {"type": "text", "text": "never mind the other"}
    log = [user("x"), asked, {**told, "content": [*told["content"], said]}, assistant("well")]
    view = [log[0], asked, told, results(("a", "no result came")), user([said]), log[3]]
    assert judged(view, log) == []
    assert judged([*view[:4], log[3]], log), "the words are lost"
    assert judged([*view[:4], user([{**said, "text": "mind the other"}]), log[3]], log)


def test_a_pinned_request_beside_results_is_told_in_a_note_of_its_words() -> None:
    log = log_of("anthropic")
    log[4]["content"].append({"type": "text", "text": "and now the third ask"})
    told = '<earlier_message role="user">\n{}\n</earlier_message>'.format
    assert judged([*log[:2], HEADER, user(told("beta\nand now the third ask")), *log[6:]], log) == []
    assert judged([*log[:2], HEADER, user(told("beta\nand [9] ask")), *log[6:]], log) == []
    assert judged([*log[:2], HEADER, user(told("beta\nand now something else")), *log[6:]], log)


def test_thinking_is_dropped_whole_or_kept_whole() -> None:
    thought = {"type": "thinking", "thinking": "a long thought about it", "signature": "abc"}
    entry = assistant([thought, {"type": "text", "text": "hi"}])
    assert explain(assistant([{"type": "text", "text": "hi"}]), entry) == {"thinking_dropped"}
    cut = assistant([{**thought, "thinking": "a long [5 left out] it"}, {"type": "text", "text": "hi"}])
    assert explain(cut, entry) is None
    assert explain({"role": "assistant", "content": ""}, {"role": "assistant", "content": None}) == {"content_none"}
    assert explain(user("hi"), assistant("hi")) is None


def test_of_a_wide_group_the_newest_may_stand_by_themselves_as_notes() -> None:
    ids = ("a", "b", "c")
    made, answers = call("openai", *((i, "r", {}) for i in ids)), [result("openai", i, f"of {i}") for i in ids]
    log = [user("x"), made, *answers, assistant("done")]
    notes = [user(f'<late_result call="{i}">\nof {i}\n</late_result>') for i in ids]
    assert find_tail([HEADER, *notes[1:], log[5]], log).alone == (1, 5)
    assert judged([HEADER, *notes[1:], log[5]], log) == []
    assert judged([HEADER, notes[2], log[5]], log) == []
    assert judged([HEADER, notes[2], notes[1], log[5]], log)
    assert judged([HEADER, *notes[:2], log[5]], log)
    assert judged([HEADER, *notes[1:]], log)
    assert judged([HEADER, user("[3 calls left out]"), *notes, log[5]], log) == []
    assert judged([HEADER, user("[2 calls left out]"), *notes, log[5]], log)
