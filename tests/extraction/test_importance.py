"""How important a group is, and in which order groups are kept."""

from __future__ import annotations

import random

import pytest

from summarizing_context.extraction.importance import (
    DECISION,
    ERROR,
    WRITE,
    ImportanceIndex,
    Member,
    Traits,
    read_traits,
    score,
)
from summarizing_context.messages.reading import read_message
from tests.laws.builders import DIALECTS, assistant, call, result, user

NOTHING = Member(Traits(), False)


def traits_of(message: dict) -> Traits:
    reading = read_message(message)
    return read_traits(reading, reading.typed)


def flags(message: dict) -> int:
    return traits_of(message).flags


def book(*groups: Member | str) -> ImportanceIndex:
    """Groups of one message each; a name stands for a message that states a rule as strict as that."""
    made = ImportanceIndex()
    for group in groups:
        made.add([NOTHING], {group}) if isinstance(group, str) else made.add([group])
    return made


@pytest.mark.parametrize(
    ("message", "trait"),
    [
        (assistant("I decided to use SQLite."), DECISION),
        (user("Let's go with Postgres."), DECISION),
        (user([{"type": "tool_result", "tool_use_id": "a", "content": "We decided to leave."}]), 0),
        (user("<system-reminder>We decided to leave.</system-reminder>"), 0),
        (result("openai", "a", "Traceback (most recent call last):\nValueError: no"), ERROR),
        (result("openai", "a", "all good"), 0),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "is_error": True}]}, ERROR),
        (call("openai", ("a", "write_file", {"path": "a.py"})), WRITE),
        (call("anthropic", ("a", "bash", {"command": "git commit -m x"})), WRITE),
        (call("anthropic", ("a", "edit_tool", {"command": "create", "path": "a.py"})), WRITE),
        (call("openai", ("a", "read_file", {"path": "a.py"})), 0),
        (call("amplifier", ("a", "bash", {"command": "ls -l src"})), 0),
    ],
)
def test_traits_are_told_from_the_message_alone(message: dict, trait: int):
    assert flags(message) == trait


def test_names_are_those_of_the_files_in_calls():
    first, second = (traits_of(call("openai", ("a", "read", {"path": p}))).names for p in ("src/a.py", "b.py"))
    assert len(first) == len(second) == 1
    assert first != second
    assert traits_of(assistant("see src/a.py")).names == ()


def test_a_score_is_from_zero_to_one_and_grows_with_every_factor():
    assert score(0, 0, 0.0) == 0
    for trait in (1, 2, 4, 8, 16, 32):
        for rest in range(64):
            for uses in range(4):
                assert 0 <= score(rest & ~trait, uses, 0.5) <= score(rest | trait, uses, 0.5) <= 1
                assert score(rest, uses, 0.5) <= score(rest, uses + 1, 0.5)
                assert score(rest, uses, 0.2) <= score(rest, uses, 0.9)
    assert score(8, 0, 0.0) == 1
    assert score(16, 0, 0.0) >= 0.6 > score(WRITE, 0, 1.0)
    assert score(WRITE | ERROR, 0, 0.0) >= 0.6
    assert score(DECISION, 0, 1.0) >= 0.6 > score(DECISION, 0, 0.9)
    assert score(WRITE, 3, 0.0) >= 0.6


def test_the_most_important_come_first_and_the_rest_not_at_all():
    made = book(NOTHING, "must", Member(Traits(WRITE), True), "must", "prefer")
    assert [one.group for one in made.ranked(5, 0.6)] == [2, 3, 1]
    assert [one.group for one in made.ranked(3, 0.6)] == [2, 1]
    assert [one.group for one in made.ranked(5, 0.0)] == [2, 3, 1, 4, 0]
    assert [one.group for one in made.ranked(5, 1.0)] == [2]


def test_what_later_groups_use_again_counts_more():
    writes = Member(Traits(WRITE, (7,)), False)
    reads = Member(Traits(0, (7, 8)), False)
    made = book(writes, *[NOTHING] * 20)
    before = made.score_of(0)
    made.add([reads])
    made.add([reads])
    assert made.score_of(0) > before
    assert [one.group for one in book(writes, *[reads] * 9, *[NOTHING] * 9).ranked(19, 0.6)] == [0]


def test_going_back_is_as_if_the_rest_had_never_been():
    rng = random.Random(1)
    groups = [Member(Traits(rng.randrange(8), (rng.randrange(4),)), rng.random() < 0.1) for _ in range(60)]
    for keep in (0, 1, 30, 60):
        made = book(*groups)
        made.forget(keep)
        assert list(made.ranked(60, 0.0)) == list(book(*groups[:keep]).ranked(60, 0.0))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_dialects_tell_the_same(dialect: str):
    assert flags(call(dialect, ("a", "edit_file", {"path": "src/a.py"}))) == WRITE
