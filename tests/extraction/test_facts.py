"""Facts: what holds, what is superseded, and that ledgers add up however a log is parted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from summarizing_context.extraction.ledger import KINDS, Fact, Ledger, Touch


def facts(*touches: Touch) -> list[Fact]:
    return Ledger(touches).facts()


def holding(*touches: Touch) -> dict[str, str]:
    return {fact.value: fact.operation for fact in facts(*touches) if not fact.superseded}


@st.composite
def parted_touches(draw: st.DrawFn) -> list[list[Touch]]:
    """Touches of a log in order, cut into parts at its messages."""
    parts = []
    at = 0
    for _ in range(draw(st.integers(1, 3))):
        part = []
        for _ in range(draw(st.integers(0, 3))):
            at += draw(st.integers(1, 2))
            for order in range(draw(st.integers(1, 2))):
                kind = draw(st.sampled_from(KINDS))
                value, done = draw(st.sampled_from("abc")), draw(st.sampled_from(("read", "edited", "exit 1")))
                about, well = draw(st.sampled_from(("make", "go"))), draw(st.booleans())
                part.append(Touch(kind, value, done, at, at + 2, order, about, well))
        parts.append(part)
    return parts


@given(parted_touches())
def test_the_ledger_of_a_range_is_the_sum_of_those_of_its_parts(parts: list[list[Touch]]):
    whole = Ledger(touch for part in parts for touch in part)
    left, right = Ledger(), Ledger()
    for part in parts:
        left = left + Ledger(part)
    for part in reversed(parts):
        right = Ledger(part) + right
    for summed in (left, right):
        assert summed.facts() == whole.facts()
        assert sorted(summed.touches()) == sorted(whole.touches())


@given(parted_touches())
def test_exactly_one_fact_of_each_thing_holds(parts: list[list[Touch]]):
    found = facts(*(touch for part in parts for touch in part))
    things = {(fact.kind, fact.value) for fact in found if fact.kind in ("path", "command", "url", "identifier")}
    for kind, value in things:
        assert sum(fact[:2] == (kind, value) and not fact.superseded for fact in found) == 1


def test_the_last_change_of_a_path_holds_and_looking_at_it_changes_nothing():
    created, edited = Touch("path", "a.py", "created", 1, 3), Touch("path", "a.py", "edited", 5, 7)
    read = Touch("path", "a.py", "read", 9, 11)
    assert holding(created, edited, read) == {"a.py": "edited"}
    assert [fact.superseded for fact in facts(created, edited, read)] == [True, False, True]
    assert holding(read) == {"a.py": "read"}


def test_an_error_is_fixed_once_the_same_thing_goes_well():
    error = Touch("error", "E  1 != 2", "seen", 1, 3, 1, "pytest")
    other = Touch("command", "ls", "ran", 5, 7, 0, "ls", True)
    again = Touch("command", "pytest -q", "exit 0", 9, 11, 0, "pytest", True)
    assert facts(error, other)[0][2:5] == ("open", 1, 3)
    assert facts(error, other, again)[0][2:5] == ("fixed", 1, 11)
    assert facts(again, error._replace(start=12, stop=13))[1].operation == "open"


def test_an_error_is_fixed_by_more_going_well_but_not_by_less():
    error = Touch("error", "FAIL TestA", "seen", 1, 3, 1, "go test ./pkg TestA")
    wider = Touch("command", "go test ./pkg", "ran", 5, 7, 0, "go test ./pkg", True)
    other = Touch("command", "go vet", "ran", 5, 7, 0, "go", True)
    assert facts(error, wider)[0].operation == "fixed"
    assert facts(error, other)[0].operation == "open"
    assert (
        facts(error._replace(about="go test ./pkg"), wider._replace(about="go test ./pkg TestA"))[0].operation == "open"
    )
