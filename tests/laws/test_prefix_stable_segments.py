"""prefix_stable_segments: segments of a prefix are a prefix of the segments; one change touches a handful near it."""

from __future__ import annotations

import random
from statistics import median

import pytest

from summarizing_context.log.entries import Entry, make_entry
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.segments import Limits

from .amounts import EDITS
from .builders import DIALECTS, Message, assistant, count, session, user, words
from .shapes import once

SMALL_LIMITS = Limits(200, 400, 800)


@once
def entry_of(message: Message) -> Entry:
    return make_entry(message, count, "quarter")


def keys(log: list[Message], limits: Limits = SMALL_LIMITS) -> list[str]:
    """The range hashes of the log's closed segments."""
    timeline = MessageLog(limits, 1_600)
    for message in log:
        timeline.extend(entry_of(message))
    return list(timeline.hashes)


class Cutter:
    """Cuts edited copies of one log; unchanged messages are read once."""

    def __init__(self, log: list[Message]) -> None:
        self.entries = [make_entry(message, count, "quarter") for message in log]
        self.wanted = set(self.keys(self.entries))

    def keys(self, entries: list[object]) -> list[str]:
        timeline = MessageLog(SMALL_LIMITS, 1_600)
        for entry in entries:
            timeline.extend(entry)
        return list(timeline.hashes)

    def changed(self, rng: random.Random) -> int:
        """How many segments one random change makes new."""
        edited, place = list(self.entries), rng.randrange(len(self.entries))
        make = rng.choice((user, assistant))
        fresh = make_entry(make(words(rng, rng.randint(1, 80))), count, "quarter")
        kind = rng.choice(("edit", "insert", "delete"))
        edited[place : place + (kind != "insert")] = [] if kind == "delete" else [fresh]
        return len(set(self.keys(edited)) - self.wanted)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_segments_of_a_prefix_are_a_prefix_of_the_segments(dialect: str) -> None:
    log = session(53, 400, dialect=dialect)
    whole = keys(log)
    assert len(whole) > 20
    for stop in range(0, len(log), 7):
        part = keys(log[:stop])
        assert part == whole[: len(part)]
    assert keys(session(53, 400, dialect=dialect)) == whole


def test_random_edits_change_a_handful_of_segments_each() -> None:
    rng = random.Random(54)
    changes: list[int] = []
    for seed in range(4):
        cutter = Cutter(session(seed, 400))
        assert len(cutter.wanted) > 25
        changes += [cutter.changed(rng) for _ in range(EDITS // 4)]
    assert len(changes) == EDITS
    assert median(changes) <= 1
    assert max(changes) <= 10
    assert sum(changes) > EDITS // 2


def test_default_sizes_hold_the_law_too() -> None:
    log = session(55, 1_500, size=250)
    whole = keys(log, Limits())
    assert len(whole) > 20
    rng = random.Random(56)
    for _ in range(20):
        place = rng.randrange(len(log))
        edited = [*log[:place], user("Something new."), *log[place:]]
        assert len(set(keys(edited, Limits())) - set(whole)) <= 10
