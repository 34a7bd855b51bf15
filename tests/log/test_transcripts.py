"""A host's copy of a conversation beside the log."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from summarizing_context.log.entries import Facts, make_entry
from summarizing_context.log.host_history import (
    HostRow,
    MergedRows,
    align,
    compare,
    find_new,
    may_be_left_out,
    merge_rows,
)
from summarizing_context.messages.validation import Message

ROLES = ("user", "assistant", "system", "developer")
ROWS = st.lists(
    st.builds(lambda role, text: {"role": role, "content": text}, st.sampled_from(ROLES), st.sampled_from("abc")),
    max_size=8,
)
KEPT = st.lists(st.booleans(), min_size=8, max_size=8)


def facts_of(rows: list[Message]) -> list[Facts]:
    return [make_entry(row, len, "length").facts for row in rows]


def contents(rows: list[Facts]) -> list[bytes]:
    return [row.content for row in rows]


def copy_of(log: list[Facts], kept: list[bool]) -> list[Facts]:
    """A host's copy, without some of the rows that it may leave out."""
    return [row for row, keep in zip(log, kept, strict=False) if keep or not may_be_left_out(row)]


@given(ROWS, KEPT)
def test_a_copy_is_known_whichever_of_the_hosts_own_rows_it_leaves_out(rows: list[Message], kept: list[bool]) -> None:
    log = facts_of(rows)
    assert compare(contents(copy_of(log, kept)), log).is_known


@given(ROWS, KEPT, st.integers(0, 8))
def test_a_shorter_copy_never_differs_and_nothing_of_it_is_new(rows: list[Message], kept: list[bool], cut: int) -> None:
    log = facts_of(rows)
    found = compare(contents(copy_of(log[:cut], kept)), log)
    assert (found.differs, found.rest_of_transcript) == (False, False)
    assert found.rest_of_log == any(not may_be_left_out(row) for row in log[found.log_stop :])


@given(ROWS, KEPT, ROWS)
def test_a_longer_copy_is_new_from_where_the_log_ends(
    rows: list[Message], kept: list[bool], more: list[Message]
) -> None:
    log, new = facts_of(rows), [replace(row, content=b"new" + row.content) for row in facts_of(more)]
    copy = copy_of(log, kept)
    found = compare(contents([*copy, *new]), log)
    assert (found.transcript_stop, found.log_stop) == (len(copy), len(log))
    assert (found.rest_of_transcript, found.rest_of_log, found.differs) == (bool(new), False, False)


@given(ROWS, KEPT, ROWS, ROWS)
def test_where_a_copy_differs_both_are_known_up_to_there(
    rows: list[Message], kept: list[bool], ours: list[Message], theirs: list[Message]
) -> None:
    log, more = facts_of(rows), facts_of([{"role": "user", "content": "ours"}, *ours])
    new = [replace(row, content=b"new" + row.content) for row in facts_of([{"role": "user", "content": "x"}, *theirs])]
    copy = copy_of(log, kept)
    found = compare(contents([*copy, *new]), [*log, *more])
    assert (found.differs, found.transcript_stop, found.log_stop) == (True, len(copy), len(log))


def told_of(rows: list[Facts]) -> list[HostRow]:
    return [HostRow(row.content, row.calls, row.answers, row.ephemeral) for row in rows]


@given(ROWS, ROWS)
def test_what_is_aligned_is_alike_and_in_order(rows: list[Message], others: list[Message]) -> None:
    log, copy = contents(facts_of(rows)), contents(facts_of(others))
    found = [(at, place) for at, place in enumerate(align(copy, log)) if place is not None]
    assert all(copy[at] == log[place] for at, place in found)
    assert all(before[1] < behind[1] for before, behind in pairwise(found))


@given(st.lists(st.integers(0, 30), unique=True), st.lists(st.integers(0, 30), unique=True))
def test_of_contents_said_once_as_many_are_aligned_as_stand_in_the_same_order(log: list[int], copy: list[int]) -> None:
    found = align([bytes([number]) for number in copy], [bytes([number]) for number in log])
    longest = [0] * (len(log) + 1)
    for number in copy:
        if number in log:
            at = log.index(number)
            longest[at] = 1 + max(longest[:at], default=0)
    assert sum(place is not None for place in found) == max(longest)


@given(ROWS, st.integers(0, 8), ROWS, ROWS)
def test_what_only_the_copy_holds_is_new_wherever_it_stands(
    rows: list[Message], at: int, more: list[Message], last: list[Message]
) -> None:
    log = facts_of(rows)
    own = [replace(row, content=b"new%d" % number + row.content) for number, row in enumerate(facts_of([*more, *last]))]
    copy = told_of([*log[:at], *own[: len(more)], *log[at:], *own[len(more) :]])
    assert [copy[place].content for place in find_new(copy, log)] == contents(own)
    if at or not more:  # else it does not begin as the log does
        assert find_new(copy, [*log, *own]) == [], "giving it twice makes it new once"


@given(ROWS, st.integers(0, 8), st.integers(0, 8))
def test_nothing_of_a_part_of_the_log_is_new(rows: list[Message], start: int, stop: int) -> None:
    log = facts_of(rows)
    assert find_new(told_of(log[start:stop]), log) == []


def test_what_the_log_held_before_the_copy_begins_may_be_said_again() -> None:
    log = facts_of([{"role": "user", "content": text} for text in ("go on", "one", "two", "three")])
    assert find_new(told_of([*log[1:], log[0]]), log) == [3]


@given(ROWS, KEPT)
def test_weaving_brings_back_what_a_copy_leaves_out(rows: list[Message], kept: list[bool]) -> None:
    for at, row in enumerate(rows):
        row["content"] = f"{at}"  # each is said once
    log = facts_of(rows)
    copy = copy_of(log, kept)
    merged = [log[row.at] if row.of_log else copy[row.at] for row in merge_rows(told_of(copy), log)]
    assert merged == (log if copy else [])


def test_a_row_between_two_that_go_goes_with_them() -> None:
    roles = ("user", "system", "user", "system", "user", "system")
    log = facts_of([{"role": role, "content": f"{at}"} for at, role in enumerate(roles)])
    other = replace(log[2], content=b"other")
    assert merge_rows(told_of([log[0], other]), log) == [
        MergedRows(False, 0),
        MergedRows(True, 1),
        MergedRows(False, 1),
    ]
    assert merge_rows(told_of([other, log[4]]), log) == [
        *(MergedRows(False, 0), MergedRows(True, 3)),
        *(MergedRows(False, 1), MergedRows(True, 5)),
    ]
