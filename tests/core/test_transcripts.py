"""A host's copy of a conversation beside the log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from summarizing_context.core.door import Message
from summarizing_context.core.entries import Facts, make_entry
from summarizing_context.core.transcripts import compare, may_be_left_out

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
    assert found.rest_of_log == any(not may_be_left_out(row) for row in log[found.logged :])


@given(ROWS, KEPT, ROWS)
def test_a_longer_copy_is_new_from_where_the_log_ends(
    rows: list[Message], kept: list[bool], more: list[Message]
) -> None:
    log, new = facts_of(rows), [replace(row, content=b"new" + row.content) for row in facts_of(more)]
    copy = copy_of(log, kept)
    found = compare(contents([*copy, *new]), log)
    assert (found.told, found.logged) == (len(copy), len(log))
    assert (found.rest_of_transcript, found.rest_of_log, found.differs) == (bool(new), False, False)


@given(ROWS, KEPT, ROWS, ROWS)
def test_where_a_copy_differs_both_are_known_up_to_there(
    rows: list[Message], kept: list[bool], ours: list[Message], theirs: list[Message]
) -> None:
    log, more = facts_of(rows), facts_of([{"role": "user", "content": "ours"}, *ours])
    new = [replace(row, content=b"new" + row.content) for row in facts_of([{"role": "user", "content": "x"}, *theirs])]
    copy = copy_of(log, kept)
    found = compare(contents([*copy, *new]), [*log, *more])
    assert (found.differs, found.told, found.logged) == (True, len(copy), len(log))
