"""Covered messages that stay in the view."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.log.entries import PlacedMessage
from summarizing_context.log.pins import Candidates
from summarizing_context.views.pins import Pinned, Staying, choose_pins, choose_staying
from tests.making import PRICE, answer, assistant, one_call, room, shown, system, timeline, user

LONG = "word " * 2_000


def pins(log: list[dict], cut: int | None = None, tokens: int = 4_000) -> Pinned:
    made = timeline(log)
    return chosen(made.candidates(len(log) if cut is None else cut), made, tokens)


def chosen(candidates: Candidates, source: Any, tokens: int) -> Pinned:
    staying = choose_staying(candidates, source, room(tokens), 0, PRICE)
    return choose_pins(candidates, staying, source, room(tokens).setting_aside(staying.tokens), PRICE)


def test_the_first_human_message_stands_before_and_the_latest_after():
    found = pins([user("task"), assistant("ok"), user("more"), assistant("ok")])
    assert (shown(found.before), shown(found.after)) == ([user("task")], [user("more")])
    assert [pin.tokens for pin in (*found.before, *found.after)] == [
        PRICE.message(user("task")),
        PRICE.message(user("more")),
    ]


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


def test_more_than_fits_is_left_out_the_newest_stay_whole():
    log = [user("task"), *(assistant(f"{n} " + "word " * 600) | {"critical": True} for n in range(9)), assistant("ok")]
    found = pins(log)
    assert shown(found.after) == log[5:10]
    assert found.unshown == (1, 2, 3, 4)


def test_one_that_is_larger_than_all_of_them_may_be_is_cut_and_leaves_room_for_others():
    log = [user("task"), assistant("small") | {"critical": True}, system(3 * LONG), assistant("ok")]
    found = pins(log)
    small, large = found.after
    assert found.unshown == (2,)
    assert (small.message, small.repairs) == (log[1], ())
    assert (large.repairs, large.tokens <= room(4_000).message_cap(0)) == (("shrunk",), True)


def test_no_number_of_opening_rows_is_left_out_unless_the_room_is_full():
    log = [*(user(f"fact {n}") | {"critical": True} for n in range(60)), assistant("ok")]
    assert shown(pins(log).before) == log[:60]
    full = pins([user(f"fact {n} " * 20) | {"critical": True} for n in range(60)], tokens=2_000)
    whole = [pin.seq for pin in full.before if not pin.left_out]
    assert 10 < len(whole) < 60
    assert whole == list(range(60 - len(whole), 60))
    assert full.unshown == tuple(range(60 - len(whole)))


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
    assert chosen(Candidates((), (), (), ()), timeline([]), 100) == Pinned((), ())


class Counted:
    """A log that tells which entries were read."""

    def __init__(self, log: list[dict]) -> None:
        self.log, self.reads = timeline(log), list[int]()

    def read(self, index: int) -> tuple[PlacedMessage, int]:
        self.reads.append(index)
        return self.log.read(index)

    def cost(self, index: int) -> int:
        return self.log.cost(index)


def test_thousands_that_find_no_room_are_not_all_read():
    source = Counted([user("first"), assistant("yes"), *(system(f"rule {n} " * 20) for n in range(2_000))])
    found = chosen(source.log.candidates(2_002), source, 2_000)
    assert len(found.after) + len(found.unshown) == 2_000
    assert len(source.reads) < 100


ROWS = st.tuples(st.sampled_from([user, assistant, system]), st.booleans(), st.integers(0, 400))


@settings(deadline=None, max_examples=25)
@given(st.lists(ROWS, max_size=30), st.integers(200, 20_000))
def test_whatever_is_left_out_would_not_have_fitted_beside_what_goes_before_it(rows, tokens):
    log = [user("task"), assistant("ok")]
    for at, (make, critical, size) in enumerate(rows):
        log.append({**make(f"{at} " + "word " * size), "critical": critical})
    made, cap = timeline([*log, assistant("ok")]), room(tokens).staying_cap
    candidates = made.candidates(len(log))
    staying = choose_staying(candidates, made, room(tokens), 0, PRICE)
    cost = {pin.seq: pin.tokens for pin in staying.items}
    whole = [pin.message == log[pin.seq] for pin in staying.items if PRICE.message(log[pin.seq]) <= cap]
    assert all(whole)
    assert staying.tokens <= cap
    order = [*candidates.critical, *(index for index in candidates.system if not log[index]["critical"])]
    assert sorted([*cost, *staying.left_out]) == sorted(order)
    for at, index in enumerate(order):
        if index in staying.left_out:
            assert sum(cost.get(one, 0) for one in order[:at]) + PRICE.message(log[index]) > cap


def test_nothing_stays_where_nothing_is_to_stay():
    assert choose_staying(Candidates((0,), (0,), (), ()), timeline([user("a")]), room(100), 0, PRICE) == Staying()


def test_what_the_opening_says_twice_is_shown_once():
    log = timeline([*[user("Light the lamp.")] * 26, user("Then rest."), user("Then rest."), assistant("yes")])
    found = chosen(log.candidates(29), log, 2_000)
    assert shown(found.before) == [user("Light the lamp."), user("Then rest.")]
    assert not found.after
