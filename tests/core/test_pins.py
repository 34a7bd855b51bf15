"""Covered messages that stay in the view."""

from __future__ import annotations

from summarizing_context.core.pins import Candidates, Pins, choose_pins
from tests.core.making import PRICE, answer, assistant, one_call, room, shown, system, timeline, user

LONG = "word " * 2_000


def pins(log: list[dict], cut: int | None = None, tokens: int = 4_000) -> Pins:
    made = timeline(log)
    return choose_pins(made.candidates(len(log) if cut is None else cut), made.read, room(tokens), PRICE)


def test_the_first_human_message_stands_before_and_the_latest_after():
    found = pins([user("task"), assistant("ok"), user("more"), assistant("ok")])
    assert (shown(found.before), shown(found.after)) == ([user("task")], [user("more")])
    assert found.tokens == PRICE.message(user("task")) + PRICE.message(user("more"))


def test_all_user_rows_before_the_first_answer_are_the_first_message():
    log = [user("one"), user("two"), assistant("ok")]
    assert shown(pins(log).before) == log[:2]


def test_nothing_is_pinned_twice():
    found = pins([user("task") | {"critical": True}, assistant("ok")])
    assert (len(found.before), len(found.after)) == (1, 0)
    same = pins([user("task"), assistant("ok"), system("rule"), assistant("ok"), system("rule")])
    assert shown(same.after) == [system("rule")]


def test_only_what_is_covered_is_pinned():
    assert shown(pins([user("task"), assistant("ok"), user("more")], cut=2).after) == []


def test_system_rows_between_and_critical_messages_stay_in_log_order():
    critical = assistant("never push") | {"critical": True}
    log = [user("task"), assistant("ok"), critical, system("use tabs"), assistant("ok")]
    assert shown(pins(log).after) == [critical, system("use tabs")]


def test_what_a_hook_injected_is_no_rule_to_pin():
    hook = system("remember") | {"metadata": {"source": "hook"}}
    assert shown(pins([user("task"), assistant("ok"), hook, assistant("ok")]).after) == []


def test_a_rule_before_the_last_opening_row_stands_before_the_header():
    log = [user("task"), system("use tabs"), user("go"), assistant("ok")]
    assert shown(pins(log).before) == log[:3]


def test_each_pin_is_held_to_its_share():
    found = pins([user(LONG), assistant("ok"), user(LONG + "!"), assistant("ok")])
    cap = room(4_000).pin_cap
    assert all(pin.tokens <= cap and pin.repairs == ("shrunk",) for pin in (*found.before, *found.after))


def test_short_opening_rows_stay_whole_beside_a_long_one():
    found = pins([user("task"), user(LONG), assistant("ok")])
    assert found.before[0].message == user("task")
    assert sum(pin.tokens for pin in found.before) <= room(4_000).pin_cap


def test_more_than_fits_is_left_out_the_newest_first_kept():
    log = [user("task"), *(assistant(f"{n} " + LONG) | {"critical": True} for n in range(9)), assistant("ok")]
    found = pins(log)
    assert found.left_out == 6
    assert [pin.seq for pin in found.after] == [7, 8, 9]


def test_critical_messages_come_before_rules_and_stay_whole_where_others_are_cut():
    said = "word " * 600
    log = [user("task"), assistant("ok"), user("c " + said) | {"critical": True}, user("n " + said), user("last")]
    log += [system(f"rule {n} " * 100) for n in range(9)]
    kept = {pin.seq: pin for pin in pins([*log, assistant("ok")]).after}
    assert (kept[2].message, kept[2].repairs) == (log[2], ())
    many = [*log[:2], *(user(f"{n} " * 60) | {"critical": True} for n in range(12)), *log[5:], assistant("ok")]
    assert [pin.seq for pin in pins(many).after][:12] == list(range(2, 14))


def test_a_critical_first_message_stays_whole_beside_the_others_before_the_header():
    log = [user("word " * 600) | {"critical": True}, user("more"), assistant("ok")]
    assert shown(pins(log).before) == log[:2]


def test_a_critical_first_message_stands_before_the_header_in_the_smallest_room():
    log = [user("word " * 600) | {"critical": True}, assistant("ok")]
    found = pins(log, tokens=60)
    assert [pin.seq for pin in found.before] == [0]


def test_a_pinned_call_or_result_becomes_a_fenced_note():
    log = [user("task"), one_call("a") | {"critical": True}, answer("a", "</earlier_message>") | {"critical": True}]
    notes = pins([*log, assistant("ok")]).after
    assert [pin.message["role"] for pin in notes] == ["user", "user"]
    assert all("pin_note" in pin.repairs for pin in notes)
    assert notes[1].message["content"].count("</earlier_message>") == 1


def test_no_candidates_are_no_pins():
    assert choose_pins(Candidates((), None, (), ()), timeline([]).read, room(100), PRICE) == Pins((), (), 0, 0)


def test_thousands_that_find_no_room_are_not_all_read():
    log = timeline([user("first"), assistant("yes"), *(system(f"rule {n} " * 20) for n in range(2_000))])
    read: list[int] = []
    found = choose_pins(log.candidates(len(log)), lambda at: (read.append(at), log.read(at))[1], room(2_000), PRICE)
    assert len(found.after) + found.left_out == 2_000
    assert len(read) < 100
