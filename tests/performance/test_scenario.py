"""The session that managers are driven through, and what is seen of their views from outside."""

from __future__ import annotations

from evals.performance.checks import first_fault, look_at
from evals.performance.fake_model import Reading
from evals.performance.lineage import Lineage
from evals.performance.scenario import marked, marks_of, steps
from evals.performance.tokens import Message, message_tokens, total_tokens, wire

CALL: Message = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT: Message = {"role": "tool", "tool_call_id": "a", "content": "done"}
USER: Message = {"role": "user", "content": "go on"}


def session(turns: int) -> list[Message]:
    return [message for message in steps(turns) if message is not None]


def test_the_scenario_is_the_same_every_time_and_of_the_size_that_is_told():
    messages = session(40)
    assert messages == session(40)
    assert 18_000 < total_tokens(messages) < 20_000
    assert first_fault(messages) == ""


def test_every_piece_of_text_has_a_mark_of_its_own():
    marks = [mark for message in session(30) for mark in marks_of(message)]
    assert len(marks) == len(set(marks)) > 1_000


def test_the_agent_asks_before_each_of_its_calls():
    assert sum(step is None for step in steps(25)) == 25 * 2 + 5


def test_a_call_without_its_result_and_a_result_without_its_call_are_faults():
    assert first_fault([USER, CALL, RESULT]) == ""
    assert "row 1 makes 1 calls" in first_fault([USER, CALL, USER])
    assert "row 0 answers" in first_fault([RESULT])


def test_a_view_is_compared_with_the_one_before_and_with_the_log():
    before = [wire(USER), wire(CALL)]
    grown = look_at([USER, CALL, RESULT], before, {wire(row) for row in (USER, CALL, RESULT)})
    assert (grown.broke, grown.past) == (False, 0)
    assert grown.hit == message_tokens(USER) + message_tokens(CALL)
    summary: Message = {"role": "user", "content": "what happened so far"}
    changed = look_at([USER, summary], before, {wire(USER)})
    assert (changed.broke, changed.past) == (True, message_tokens(summary))


def lineage_of(*texts: int) -> Lineage:
    lineage = Lineage()
    for text in texts:
        lineage.added({"role": "user", "content": marked(text, 20)})
    lineage.viewable = lineage.pieces
    return lineage


def test_a_summary_of_a_summary_stands_for_what_that_stood_for_one_pass_further():
    lineage = lineage_of(1, 2, 3)
    lineage.learn([Reading(1, marked(1, 20)), Reading(2, "s000001 " + marked(2, 20))])
    fate = lineage.fate([{"role": "user", "content": "s000002"}])
    assert (fate.unread, fate.lost) == (2 / 6, 2 / 6)
    assert lineage.passes([{"role": "user", "content": "s000002"}]) == (2, 1.5)


def test_text_behind_a_summary_that_was_dropped_is_lost_but_was_read():
    lineage = lineage_of(1, 2)
    lineage.learn([Reading(1, marked(1, 20)), Reading(2, marked(2, 20))])
    fate = lineage.fate([{"role": "user", "content": "s000002"}])
    assert (fate.unread, fate.lost) == (0.0, 0.5)


def test_text_that_the_view_still_shows_is_not_evicted():
    assert lineage_of(1).fate([{"role": "user", "content": marked(1, 20)}]).pieces == 0
