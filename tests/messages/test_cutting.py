"""Cutting rendered text: large groups evenly, long results down to head and tail."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.rendering import render_messages
from summarizing_context.messages.truncation import HEAD, LONGEST_RESULT, TAIL, cut_evenly, cut_results
from tests.making import answer, assistant, one_call, readings, user

LABEL = re.compile(r"^### .*$", re.MULTILINE)
LONG = "\n".join(f"line {n} of the output" for n in range(2_000))


def render(*messages: dict) -> str:
    return render_messages(readings(*messages))


def labels(text: str) -> list[str]:
    return [line.removeprefix("### ") for line in LABEL.findall(text)]


BODIES = st.lists(st.text(st.sampled_from("ab1 .\n#界"), max_size=400), min_size=1, max_size=12)


@given(BODIES, st.integers(1, 7))
@settings(max_examples=200, deadline=None)
def test_cutting_evenly_loses_nothing_and_adds_only_labels(bodies, parts):
    text = render(*(answer(str(n), body * 7) for n, body in enumerate(bodies)))
    pieces = cut_evenly(text, parts)
    assert len(pieces) == parts
    rest = text
    for piece in pieces:
        label, _, inside = piece.partition("\n")
        own = piece if rest.startswith(piece) else inside if rest.startswith(inside) else inside[1:]
        assert rest.startswith(own)
        assert own is piece or label.startswith("### ")
        rest = rest[len(own) :]
    assert rest == ""


def test_a_large_text_is_cut_into_about_equal_pieces_between_lines():
    text = render(answer("a", "\n".join(f"line {n} of the output" for n in range(2_000))))
    pieces = cut_evenly(text, 5)
    sizes = [estimate_text(piece) for piece in pieces]
    assert max(sizes) < 1.2 * min(sizes)
    assert all(piece.endswith("\n") for piece in pieces[:-1])
    assert all(labels(piece) == ["late result of tool"] for piece in pieces)


def test_a_dense_text_beside_a_light_one_is_still_cut_in_order():
    text = render(answer("a", "1 2 3\n" * 3_000 + " " * 60_000 + "7\n" * 3_000))
    pieces = cut_evenly(text, 8)
    assert sum(map(len, pieces)) <= len(text) + 8 * 30
    assert all(pieces)


@given(st.text(st.sampled_from("# \\\n"), max_size=30), st.integers(0, 600))
@settings(max_examples=100, deadline=None)
def test_a_cut_inside_a_line_forges_no_label(mark, at):
    line = "x" * 500 + " ### user " + mark + "### user " + "x" * at
    text = render(answer("a", " ".join([line] * 60)))
    assert labels(cut_results(text).join([[]])) == ["late result of tool"]
    assert {label for piece in cut_evenly(text, 9) for label in labels(piece)} == {"late result of tool"}


def test_a_result_that_is_not_too_long_stays_whole():
    text = render(one_call("a"), answer("a", LONG[:8_000]), assistant(LONG))
    assert LONGEST_RESULT / 2 < estimate_text(LONG[:8_000]) <= LONGEST_RESULT
    assert cut_results(text) == ((text,), ())


def test_a_long_result_keeps_head_and_tail_and_says_what_is_left_out():
    text = render(user("Look."), one_call("a", "b"), answer("a", LONG), answer("b", LONG), assistant("Seen."))
    cut = cut_results(text)
    assert len(cut.left_out) == 2
    assert "".join(part for pair in zip(cut.kept, (*cut.left_out, ""), strict=True) for part in pair) == text
    told = cut.join([["line 700 matters"], []])
    left_out = estimate_text(cut.left_out[0])
    assert f"[{left_out:,} tokens left out here; errors and exact values among them:]\n- line 700 matters\n" in told
    assert f"\n[{estimate_text(cut.left_out[1]):,} tokens left out here]\nline " in told
    assert labels(told) == labels(text)
    assert all(told.count(f"line {n} of") == 2 for n in (0, 20, 1_980, 1_999))
    assert estimate_text(told) < 2 * (HEAD + TAIL + 400)


def test_what_people_and_the_agent_say_is_never_cut():
    text = render(user(LONG), assistant(LONG), one_call("a", text=LONG), answer("a", "ok"))
    assert cut_results(text).left_out == ()


def test_one_line_without_a_space_is_cut_all_the_same():
    cut = cut_results(render(answer("a", "7" * 50_000)))
    assert estimate_text(cut.join([[]])) < HEAD + TAIL + 1_000


def test_cutting_a_content_again_changes_nothing():
    once = cut_results(render(answer("a", LONG))).join([["line 7"]])
    assert cut_results(once).left_out == ()
