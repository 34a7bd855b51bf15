"""Rows of a request: nothing that a provider would repair, drop or refuse, and a function of what stands before."""

from __future__ import annotations

from typing import Any

import pytest

from summarizing_context.adapters.amplifier.messages import LEAD_IN, NO_TEXT, NOT_YET, fit_rows
from tests.adapters.converting import read_rows
from tests.adapters.host import Row
from tests.adapters.test_amplifier_transcripts import FILES
from tests.adapters.validity import refusals

ASK: Row = {"role": "user", "content": "Go."}


def call(id: Any, **more: Any) -> Row:
    block = {"type": "tool_call", "id": id, "name": "read", "input": {"path": "a"}, **more}
    return {"role": "assistant", "content": [block]}


def result(id: Any, text: str = "done") -> Row:
    return {"role": "tool", "tool_call_id": id, "content": text}


def fitted(*rows: Row) -> list[Row]:
    """The rows of a view, which both providers take."""
    found = fit_rows(rows).rows
    assert refusals(found) == []
    return found


def test_rows_of_the_hosts_own_loop_go_out_as_they_are() -> None:
    loop = {**call("c1"), "tool_calls": [{"id": "c1", "tool": "read", "arguments": {"path": "a"}}]}
    rows = [{"role": "system", "content": "Be kind."}, ASK, loop, result("c1"), ASK]
    fit = fit_rows(rows)
    assert all(out is row for out, row in zip(fit.rows, rows, strict=True))
    assert fit.extra == 0


def test_an_id_that_was_used_before_gets_a_name_of_its_own() -> None:
    rows = fitted(ASK, call("c1"), result("c1", "one"), call("c1"), result("c1", "two"), call("a.b:c"), result("a.b:c"))
    assert [row["tool_call_id"] for row in rows if row["role"] == "tool"] == ["c1", "c1_2", "a_b_c"]
    assert [row["content"] for row in rows if row["role"] == "tool"] == ["one", "two", "done"]
    twice = {"role": "assistant", "content": [*call("x")["content"], *call("x")["content"]]}
    rows = fitted(ASK, twice, result("x", "one"), result("x", "two"))
    assert [row["tool_call_id"] for row in rows[2:]] == ["x", "x_2"]


@pytest.mark.parametrize("unsigned", [{}, {"signature": None}, {"signature": "", "content": []}])
def test_thinking_that_nobody_takes_back_is_left_out(unsigned: Row) -> None:
    thought = {"type": "thinking", "thinking": "hm", **unsigned}
    signed, state = {**thought, "signature": "s"}, {**thought, "content": ["encrypted", "id"]}
    said = {"type": "text", "text": "Well."}
    rows = fitted(ASK, {"role": "assistant", "content": [signed, thought, state, said]}, ASK)
    assert rows[1]["content"] == [signed, state, said]
    assert fitted(ASK, {"role": "assistant", "content": [thought]}, ASK)[1]["content"] == NO_TEXT
    called = {"role": "assistant", "content": [thought, *call("c1")["content"]]}
    assert fitted(ASK, called, result("c1"))[1]["content"] == call("c1")["content"]


def test_halves_of_characters_are_replaced_where_they_stand() -> None:
    half = "\ud83d"
    rows = fitted(
        {"role": "system", "content": half}, {"role": "user", "content": f"a{half}"}, call(half), result(half)
    )
    assert [row["content"] for row in rows[:2]] == ["\ufffd", "a\ufffd"]
    assert rows[3] == result(rows[2]["content"][0]["id"])


def test_a_call_in_flight_is_shown_with_a_result_that_says_so() -> None:
    rows = fitted(ASK, call("c1"))
    assert rows[-1] == result("c1", NOT_YET)
    assert fit_rows([ASK, call("c1")]).extra > 0
    assert fitted(ASK, call("c1"), result("c1"))[-1] == result("c1")


def test_results_inside_a_users_row_become_rows_behind_their_calls() -> None:
    block = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "x"}], "is_error": True}
    rows = fitted(ASK, call("c1"), {"role": "user", "content": [block, {"type": "text", "text": "And?"}]})
    assert rows[2] == {**result("c1"), "content": [{"type": "text", "text": "x"}], "is_error": True}
    assert rows[3] == {"role": "user", "content": [{"type": "text", "text": "And?"}]}


def test_calls_that_are_only_listed_become_blocks() -> None:
    chat = {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}],
    }
    loop = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c2", "tool": "read", "arguments": {"path": "a"}}],
    }
    rows = fitted(ASK, chat, result("c1"), loop, result("c2"))
    assert rows[1]["content"] == [{"type": "text", "text": "Let me see."}, *call("c1")["content"]]
    assert rows[1]["tool_calls"] == [{"id": "c1", "tool": "read", "name": "read", "arguments": {"path": "a"}}]
    assert rows[3]["content"] == call("c2")["content"]


def test_a_users_own_calls_and_their_results_are_notes() -> None:
    user = {**call("c1"), "role": "user"}
    rows = fitted(ASK, user, result("c1", "It rains."))
    assert [row["role"] for row in rows] == ["user"] * 3
    assert '{"path":"a"}' in rows[1]["content"][0]["text"]
    assert "It rains." in rows[2]["content"]
    assert fitted(ASK, result("nobody", "Alone."))[1]["role"] == "user"


@pytest.mark.parametrize("content", ["", "  \n", None, [], [{"type": "text", "text": " "}]])
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_no_text_is_empty(content: Any, role: str) -> None:
    rows = fitted(ASK, {"role": role, "content": content}, ASK)
    assert rows[1]["content"] == NO_TEXT
    assert fitted({"role": "system", "content": content}, ASK) == [ASK]


def test_thinking_alone_gets_a_word_and_an_answers_image_is_named() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    rows = fitted(ASK, {"role": "assistant", "content": [thinking]}, {"role": "assistant", "content": [image]}, ASK)
    assert rows[1]["content"] == [thinking, {"type": "text", "text": NO_TEXT}]
    assert rows[2]["content"] == [{"type": "text", "text": "[image]"}]
    assert fitted({"role": "user", "content": [image]})[0]["content"] == [image]


def test_the_first_row_is_a_users() -> None:
    rows = fitted({"role": "system", "content": "Be kind."}, {"role": "assistant", "content": "Hi."}, ASK)
    assert [row["content"] for row in rows] == ["Be kind.", LEAD_IN, "Hi.", "Go."]
    assert [row["role"] for row in fitted({"role": "function", "name": "f", "content": "x"})] == ["user"]


@pytest.mark.parametrize("path", FILES[::4], ids=lambda path: path.name.split(".")[0])
def test_a_longer_view_begins_with_the_rows_of_the_shorter(path: Any) -> None:
    rows = read_rows(path)[:60]
    whole = fit_rows(rows).rows
    for stop in range(1, len(rows)):
        shorter = fit_rows(rows[:stop]).rows
        settled = [row for row in shorter if row["content"] != NOT_YET]
        assert whole[: len(settled)] == settled
