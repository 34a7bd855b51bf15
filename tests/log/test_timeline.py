"""The session in memory: grown, replaced, read."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.segments import Limits
from summarizing_context.messages.reading import Reading
from summarizing_context.messages.rendering import render_messages
from tests.laws.shapes import once
from tests.making import (
    LOGS,
    PRICE,
    SMALL,
    answer,
    assistant,
    entries,
    entry,
    one_call,
    session,
    system,
    timeline,
    user,
)


def facts(log: MessageLog) -> dict[str, object]:
    """All that is derived from the log."""
    return {
        "messages": [entry.message() for entry in log.in_order()],
        "tokens": list(log.tokens),
        "history": log.history_tokens,
        "segments": log.segments,
        "hashes": log.hashes,
        "repeated": log.repeated,
        "groups": list(log.group_starts),
        "closed": log.closed_groups_stop,
        "leading": log.leading_count,
        "digests": [entry.digest for entry in log.entries],
        "candidates": [log.candidates(cut) for cut in range(log.leading_count, len(log) + 1)],
    }


def edited(log: list[dict], rng: random.Random) -> tuple[list[dict], int]:
    """A log with one message changed, inserted or deleted somewhere, and the place."""
    at = rng.randrange(len(log))
    fresh = user(f"changed {rng.random()}")
    return rng.choice(([*log[:at], fresh, *log[at + 1 :]], [*log[:at], fresh, *log[at:]], log[:at] + log[at + 1 :])), at


def test_leading_system_rows_stand_in_no_segment():
    log = timeline([system("a"), system("b", role="developer"), *session(messages=60)[1:]])
    assert log.leading_count == 2
    assert log.segments[0].start == 2
    assert log.tokens[2] == PRICE.message(system("a")) + PRICE.message(system("b"))


def test_a_later_system_row_is_like_any_message():
    log = timeline([user("a"), system("b"), assistant("c")])
    assert (log.leading_count, list(log.group_starts)) == (0, [0, 1, 2])


def test_tokens_count_the_whole_log_ephemeral_messages_included():
    messages = [user("a"), user("passing") | {"ephemeral": True}, assistant("b")]
    log = timeline(messages)
    assert log.history_tokens == sum(map(PRICE.message, messages))
    assert (len(log), [entry.message() for entry in log.in_order()]) == (2, messages)


def test_messages_come_out_as_fresh_copies():
    log = timeline([user([{"type": "text", "text": "a"}])])
    log.in_order()[0].message()["content"].clear()
    assert [entry.message() for entry in log.in_order()] == [user([{"type": "text", "text": "a"}])]


def test_a_group_too_large_for_one_leaf_is_read_in_parts_that_hold_all_of_it():
    text = "\n".join(f"line {n} of it" for n in range(300))
    log = timeline([one_call("a"), answer("a", text)])
    parts = [log.content(leaf) for leaf in range(len(log.segments))]
    assert len(parts) > 1
    assert len(set(log.hashes)) == len(parts)
    assert all(any(f"line {n} of it\n" in part + "\n" for part in parts) for n in range(300))


def test_equal_ranges_have_equal_hashes_and_are_known_to_be_repeated():
    turn = [user("word " * 90), assistant("word " * 90), user("other " * 95), assistant("other " * 95)] * 12
    log = timeline(turn)
    assert len(set(log.hashes)) < len(log.hashes)
    assert log.repeated == {hash for hash in log.hashes if log.hashes.count(hash) > 1}


def test_the_common_prefix_is_byte_for_byte():
    log = timeline([user("a"), user("b")])
    assert log.common_prefix(entries([user("a"), user("c")])) == 1
    assert log.common_prefix(entries([user("a"), user("x") | {"ephemeral": True}, user("b"), user("c")])) == 2
    assert log.common_prefix(entries([{"content": "a", "role": "user"}])) == 0


def test_what_stands_before_the_first_difference_is_not_worked_out_again():
    messages = session(messages=200)
    log = timeline(messages)
    kept = log.entries[:100]
    log.replace(entries([*messages[:150], user("new")]))
    assert all(one is other for one, other in zip(kept, log.entries, strict=False))


MESSAGES = session(seed=5, messages=90)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_replaced_log_is_as_one_made_afresh(data):
    log = timeline(MESSAGES[: data.draw(st.integers(0, 90))])
    for _ in range(data.draw(st.integers(1, 3))):
        keep = data.draw(st.integers(0, len(MESSAGES)))
        odd = data.draw(LOGS)
        riders = [user("passing") | {"ephemeral": True}] if data.draw(st.booleans()) else []
        new = [*riders, *MESSAGES[:keep], *riders, *odd, *MESSAGES[data.draw(st.integers(keep, len(MESSAGES))) :]]
        log.replace(entries(new))
        assert facts(log) == facts(timeline(new))


def test_a_replaced_log_grows_on_as_one_made_afresh():
    log = timeline(MESSAGES)
    log.replace(entries(MESSAGES[:60]))
    for each in entries(MESSAGES[60:]):
        log.extend(each)
    assert facts(log) == facts(timeline(MESSAGES))


@given(LOGS, st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_groups_and_segments_of_a_prefix_are_a_prefix(odd, length):
    log = [*odd, *MESSAGES[1:40], *odd]
    part, whole = timeline(log[:length]), timeline(log)
    assert list(whole.group_starts)[: len(part.group_starts)] == list(part.group_starts)
    assert whole.segments[: len(part.segments)] == part.segments
    assert whole.hashes[: len(part.hashes)] == part.hashes


def test_a_random_edit_changes_a_segment_or_two():
    limits = Limits(400, 800, 1_600)
    log = session(seed=11, messages=2_000, size=40)
    plain = timeline(log, limits)
    known, rng = set(plain.hashes), random.Random(7)
    changed = []
    for _ in range(40):
        other, _ = edited(log, rng)
        plain.replace([entry_of(message) for message in other])
        changed.append(len(set(plain.hashes) - known))
    assert len(known) > 80
    assert statistics.median(changed) <= 1
    assert max(changed) <= 10


@once
def entry_of(message: dict):
    """The entry of a message; that of one dict is made once, since an edit changes a single one."""
    return entry(message)


def test_an_open_group_is_not_closed_by_time():
    log = timeline([user("a"), one_call("x")])
    assert log.closed_groups_stop == 1
    assert log.covered_by_segments == 0


def test_limits_shape_the_segments():
    log = session(messages=120)
    assert len(timeline(log, SMALL).segments) > 2 * len(timeline(log, Limits(800, 1_600, 3_200)).segments)


@pytest.mark.parametrize("lines", [300, 600, 1_200])
def test_a_large_group_is_written_down_once_for_all_of_its_parts(lines, monkeypatch):
    written: list[int] = []

    def render(readings: list[Reading], **how: bool) -> str:
        text = render_messages(readings, **how)
        written.append(len(text))
        return text

    monkeypatch.setattr("summarizing_context.log.segments.render_messages", render)
    text = "\n".join(f"line {n} of it" for n in range(lines))
    log = timeline([one_call("a"), answer("a", text), user("next")])
    leaves = [leaf for leaf, segment in enumerate(log.segments) if segment.parts > 1]
    assert len(leaves) > lines / 100
    assert sum(len(log.content(leaf)) for leaf in leaves) >= len(text)
    assert len(written) == 1
    assert written[0] < 1.2 * len(text)


def test_the_source_of_a_segment_outlasts_its_log():
    messages = session(messages=60)
    log = timeline(messages)
    contents = [log.content(leaf) for leaf in range(len(log.segments))]
    sources = [log.source(leaf) for leaf in range(len(log.segments))]
    log.replace(entries([user("Something else.")]))
    assert [source() for source in sources] == contents
