"""Which lines the extractive summarizer holds worth keeping: properties, whatever the weights are."""

from __future__ import annotations

import pytest

from .contents import FIXED_BUILD, rollup, section, summary

NARRATION = "Let me look at the next file now."
FINDING = "The checkpoint is lost: `loadState` returns nil for sessions of `billing/app.py`."


def requests(count: int) -> list[tuple[str, str]]:
    return [
        block
        for step in range(count)
        for block in (("user", f"Please edit module_{step}.py, step {step}."), ("assistant", "It is edited."))
    ]


def test_requests_that_differ_in_their_numbers_alone_stand_twice_at_most():
    asked = section(summary(("user", "Build a mill with four sails."), *requests(30)), "Intent")
    assert asked == [
        '"Build a mill with four sails."',
        '"Please edit module_28.py, step 28."',
        '"Please edit module_29.py, step 29."',
    ]


def test_merged_requests_that_differ_in_their_numbers_alone_stand_twice_at_most():
    children = [f'## Intent\n- "Please edit module_{step}.py, step {step}."' for step in range(12)]
    assert section(rollup('## Intent\n- "Build a mill."', *children), "Intent") == [
        '"Build a mill."',
        '"Please edit module_10.py, step 10."',
        '"Please edit module_11.py, step 11."',
    ]


def test_results_that_differ_in_their_numbers_alone_stand_once_and_are_counted():
    results = [("result of edit", f"The file part_{part}.py has {part} changed lines.") for part in range(20)]
    text = summary(("user", "Go."), *results, ("assistant", "I will go on with the mill."))
    assert section(text, "Facts") == ["The file part_19.py has 19 changed lines. (20 times)"]


def test_merged_results_that_differ_in_their_numbers_alone_are_added_up():
    children = [f"## Facts\n- part_{part}.py changed {part} lines (6 times)" for part in range(4)]
    assert section(rollup(*children), "Facts") == ["part_3.py changed 3 lines (24 times)"]


@pytest.mark.parametrize("row", ["{0} | {0} | kPa", "changed {0} lines in part_{0}.py"])
def test_few_results_and_rows_of_numbers_are_no_repeats(row: str):
    rows = [row.format(at) for at in (31, 42, 53)]
    text = summary(("user", "Go."), ("result of read", "\n".join(rows)), ("assistant", "I will go on with the mill."))
    assert section(text, "Facts") == rows


def test_a_line_said_again_stands_once():
    text = summary(("user", "Go."), *[("assistant", FINDING)] * 5, ("assistant", "It is done now, all of it."))
    assert text.count(FINDING) == 1


def test_of_a_value_that_changes_the_latest_wins():
    said = [("assistant", f"The retry limit of the billing service is {value} now.") for value in (3, 5, 7, 9)]
    text = summary(("user", "Go."), *said, ("assistant", "I will go on with the mill."))
    assert "is 9 now." in text
    assert "is 3 now." not in text


def test_of_a_merged_value_the_latest_wins():
    children = [f"## Facts\n- The retry limit of the service is {value}." for value in (3, 5, 7, 9)]
    text = rollup(*children, max_tokens=20)
    assert "is 9." in text
    assert "is 3." not in text


def test_findings_are_kept_before_narration():
    talk = [("assistant", f"{NARRATION} {FINDING}"), ("assistant", "I read on.")]
    text = summary(("user", "Go."), *talk, max_tokens=60)
    assert FINDING in text
    assert NARRATION not in text


def test_what_the_agent_says_is_kept_before_lines_of_files():
    source = "\n".join(f"   {at}\tif state.loadState == {at} || billing.app != nil {{" for at in range(40))
    text = summary(
        ("user", "Why is the checkpoint lost?"),
        ("assistant calls read_file", '{"path":"app.go"}'),
        ("result of read_file", source),
        ("assistant", FINDING),
        ("assistant", "I will mend it."),
        max_tokens=120,
    )
    assert FINDING in text


def test_words_before_every_line_of_a_log_count_for_nothing():
    log = [f"Release Set up job 2026-06-18T04:45:{at:02} Z" for at in range(40)]
    log[20] += " fetched mirror of the billing store"
    text = summary(
        ("user", "Which mirror of the billing store was fetched for the release?"),
        ("assistant calls run", '{"command":"gh run view"}'),
        ("result of run", "\n".join(log)),
        max_tokens=80,
    )
    assert "fetched mirror of the billing store" in text


def test_an_error_is_told_once_and_with_its_fix():
    text = summary(*FIXED_BUILD)
    assert text.count("Name 'total' is not defined") == 1
    assert text.count("The problem is a missing import in app.py.") == 1


def test_weights_are_learnt_from_what_notes_repeat():
    learning = pytest.importorskip("evals.salience", reason="needs numpy")
    content = f"### assistant\n{NARRATION}\n{FINDING}\n### assistant\nDone?"
    weights = learning.learn([{"log": "a", "user": content, "reply": f"## Decisions\n- {FINDING}"}] * 30)
    assert weights["quotes code"][1] > weights["quotes code"][0]
    assert not any(name.startswith("word ") for name in weights)  # of one log only


def test_what_a_turn_ended_with_is_not_lost_when_a_later_state_wins():
    children = [f"## State and next step\n- {text}" for text in (FINDING, "I go on with the mill.")]
    text = rollup(*children)
    assert section(text, "State and next step") == ["I go on with the mill."]
    assert section(text, "Facts") == [FINDING]


def test_sentences_that_differ_in_names_of_code_alone_stand_twice_at_most():
    names = ("load_state", "parse_clock", "open_file", "a/b.py")
    said = " ".join(f"I read {name} and the tests of it before I change anything." for name in names)
    assert summary(("user", "Go."), ("assistant", f"{said} {FINDING}")).count("and the tests of it") == 2
