"""Calls without results: what a program learns of them, and what a provider is sent meanwhile."""

import json
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import OpenCall, Settings, open_context
from tests.behaviour.contexts import begun, fill, said
from tests.laws.builders import Message as Row
from tests.laws.builders import call, result, user
from tests.laws.checkers import refusals
from tests.laws.shapes import answered_ids, called_ids

SHAPES = ("openai", "anthropic", "amplifier")
NO_RESULT = "[no result of this call was recorded]"
TASK = user("Mend the parser.")


def calling(shape: str, *ids: str) -> Row:
    return call(shape, *((id, "run", {"n": id}) for id in ids))


def answering(shape: str, id: str) -> Row:
    return result(shape, id, f"the result of {id}")


def settings(folder: Path, **more: Any) -> Settings:
    return Settings(store=folder / "run.db", session_id="s1", max_tokens=8_000, token_counter="estimate", **more)


async def leave(folder: Path, *rows: Row) -> None:
    """A process that adds these rows and ends."""
    async with open_context(settings(folder)) as context:
        await fill(context, rows)


@pytest.mark.parametrize("shape", SHAPES)
async def test_open_calls_tell_all_that_is_needed_to_run_a_call_again(shape: str, tmp_path: Path):
    await leave(tmp_path, TASK, calling(shape, "a", "b", "c"), answering(shape, "b"))
    async with open_context(settings(tmp_path)) as context:
        found = context.open_calls()
        assert [(call.message, call.id, call.name, call.arguments) for call in found] == [
            (1, id, "run", {"n": id}) for id in "ac"
        ]
        for call in found:
            assert call.result(f"the result of {call.id}") == answering(shape, call.id)
            await context.add_message(call.result(f"the result of {call.id}"))
        assert context.open_calls() == []
        view = await context.get_messages_for_request()
        assert view == await context.get_messages()
        assert refusals(view) == []
        assert not context.statistics().repairs


async def test_arguments_that_are_no_json_are_given_as_the_model_wrote_them_and_to_look_changes_nothing(tmp_path):
    broken = calling("openai", "a")
    broken["tool_calls"][0]["function"]["arguments"] = '{"n": '
    await leave(tmp_path, TASK, broken)
    async with open_context(settings(tmp_path), read_only=True) as context:
        assert context.open_calls() == [OpenCall(1, "a", "run", '{"n": ')]
        assert refusals(await context.get_messages_for_request()) == []
    async with open_context(settings(tmp_path)) as context:
        await context.add_message(answering("openai", "a"))
        assert await context.get_messages_for_request() == await context.get_messages()


async def test_calls_that_this_process_made_last_stay_in_flight_until_something_else_follows():
    async with begun(of=Settings, max_tokens=8_000) as context:
        rows = [TASK, calling("openai", "a", "b"), answering("openai", "b"), answering("openai", "a")]
        rows.append(calling("openai", "c"))
        for at, (row, ids) in enumerate(zip(rows, ("", "ab", "a", "", "c"), strict=True), 1):
            await context.add_message(row)
            assert [call.id for call in context.open_calls()] == [*ids]
            assert await context.get_messages_for_request() == rows[:at]
        assert not context.statistics().repairs
        await context.add_message(user("Stop."))
        assert context.open_calls() == []


@pytest.mark.parametrize("answered", [[], ["b"], ["a"]])
@pytest.mark.parametrize("lines", [[["a", "b"]], [["a"], ["b"]], [["a", "b"], ["c"]], [["a"], ["b"], ["c"]]])
@pytest.mark.parametrize("shape", SHAPES)
async def test_no_view_of_a_reopened_session_ends_in_a_call(shape, lines, answered, tmp_path):
    rows = [TASK, *(calling(shape, *ids) for ids in lines), *(answering(shape, id) for id in answered)]
    await leave(tmp_path, *rows)
    async with open_context(settings(tmp_path)) as context:
        view = await context.get_messages_for_request()
        assert refusals(view) == []
        assert [called_ids(row) for row in view if called_ids(row)] == lines
        assert json.dumps(view).count(NO_RESULT) == context.statistics().repairs["stand_in_result"] > 0
        assert [
            id for row in view for id in answered_ids(row) if f"the result of {id}" in json.dumps([row])
        ] == answered
        await context.add_message(user("Go on."))
        later = await context.get_messages_for_request()
        assert later == [*view, user("Go on.")]
        assert refusals(later) == []


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_a_view_has_shown_stays_when_a_result_comes_after_its_stand_in(shape: str, tmp_path: Path):
    """Also in later processes, and where a restart falls between the stand-in and the result."""
    old = [said(number, "as before, " * 60) for number in range(80)]
    await leave(tmp_path, *old, TASK, calling(shape, "a", "b"))
    shown: list[Row] = []
    for late in ("", "a", "", "b", ""):
        async with open_context(settings(tmp_path)) as context:
            if not shown:
                await context.summarize(4)
            for _ in range(2):
                view = await context.get_messages_for_request()
                assert view[: len(shown)] == shown, late
                assert refusals(view) == []
                shown = view
                if late:
                    await context.add_message(answering(shape, late))
                    late = ""
    assert json.dumps(shown).count(NO_RESULT) == 2
    assert [row["content"].splitlines()[1] for row in shown[-2:]] == ["the result of a", "the result of b"]
