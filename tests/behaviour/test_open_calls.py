"""Calls and results: what a program learns of open calls, what a provider is sent, and which call a result answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import begun, said
from tests.laws.builders import Message, assistant, call, result, results, user
from tests.laws.checkers import refusals
from tests.laws.shapes import answered_ids

SHAPES = ("openai", "anthropic", "amplifier")
NO_RESULT = "[no result of this call was recorded]"
TASK = user("Mend the parser.")


def calling(shape: str, *ids: str) -> Message:
    return call(shape, *((id, "run", {"n": id}) for id in ids))


def answering(shape: str, id: str) -> Message:
    return result(shape, id, f"the result of {id}")


def opened(folder: Path, *rows: Message, **given: Any) -> Any:
    """A process that adds these rows to the session of a folder."""
    return begun(rows, of=Settings, store=folder / "run.db", max_tokens=8_000, count_tokens=None, **given)


@pytest.mark.parametrize(("shape", "arguments"), [*((shape, None) for shape in SHAPES), ("openai", '{"n": ')])
async def test_open_calls_tell_all_that_is_needed_to_run_a_call_again(shape, arguments, tmp_path: Path):
    """Also where arguments are no JSON, and who only looks changes nothing."""
    made = calling(shape, "a", "b", "c")
    for called in made["tool_calls"] if arguments else ():
        called["function"]["arguments"] = arguments
    async with opened(tmp_path, TASK, made, answering(shape, "b")):
        pass
    async with opened(tmp_path, read_only=True) as context:
        found = context.open_calls()
        told = [(called.message, called.id, called.name, called.arguments) for called in found]
        assert told == [(1, id, "run", arguments or {"n": id}) for id in "ac"]
        assert refusals(await context.get_messages_for_request()) == []
    async with opened(tmp_path) as context:
        assert context.open_calls() == found
        for called in found:
            assert called.result(f"the result of {called.id}") == answering(shape, called.id)
            await context.add_message(called.result(f"the result of {called.id}"))
        assert context.open_calls() == []
        view = await context.get_messages_for_request()
        assert view == await context.get_messages()
        assert refusals(view) == []
        assert not context.statistics().repairs


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_a_view_has_shown_stays_when_a_result_comes_after_its_stand_in(shape: str, tmp_path: Path):
    """Also in later processes, and where a restart falls between the stand-in and the result."""
    old = [said(number, "as before, " * 60) for number in range(80)]
    async with opened(tmp_path, *old) as context:  # an activation and the end of its segment are kept before the calls
        await context.summarize(4)
        await context.wait_idle()
    async with opened(tmp_path, TASK, calling(shape, "a", "b")):
        pass
    shown: list[Message] = []
    for late in ("", "a", "", "b", ""):
        async with opened(tmp_path, start_at=1.0) as context:  # without background work, which keeps the state as well
            assert context.activations()
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


# Some servers use one id for several calls: a result belongs to the nearest call that waits for it.


async def view_of(*rows: Message, budget: int | None = None) -> list[Message]:
    """The view of a session with these rows."""
    async with begun([user("Look."), *rows, user("Go on.")], of=Settings, count_tokens=None) as context:
        return await context.get_messages_for_request(token_budget=budget)


LONG = json.dumps({"to": "bob and alice " * 3_000})


@pytest.mark.parametrize(
    ("named", "spelling", "value", "is_other"),
    [
        *((named, LONG, {}, True) for named in ({"id": "c1"}, {})),
        *(({"id": "c1"}, *same, False) for same in (("{ }", {}), ('{"a": 1.0}', {"a": 1}), ("[]\n", []))),
    ],
)
async def test_a_listed_call_that_differs_from_the_block_of_its_id_is_shown_and_counted(
    named, spelling, value, is_other
):
    listed = {"type": "function", "function": {"name": "look", "arguments": spelling}, **named}
    row = assistant([{"type": "tool_use", "name": "look", "input": value, **named}]) | {"tool_calls": [listed]}
    assert len(json.dumps(await view_of(row, budget=3_000))) < 12_000
    async with begun([row], of=Settings) as context:
        assert (await context.expand(0)).text.count("[message 0: ") == 1 + is_other


async def test_of_two_calls_with_one_id_the_later_one_has_the_result_and_a_result_of_no_call_is_a_note():
    first, second = (call("openai", ("call_0", "run", {"command": command})) for command in ("ls", "pwd"))
    view = await view_of(first, second, answer := result("openai", "call_0", "/home/me"))
    at = view.index(second)
    assert view[at + 1] == answer
    assert view.index(first) == at - 2
    assert view[at - 1]["tool_call_id"] == "call_0"
    assert view[at - 1]["content"] != "/home/me"
    # of one message
    look = {"type": "tool_use", "name": "look", "input": {}}
    view = await view_of(assistant([look | {"id": "a"}] * 2), results(("a", "of a"), ("b", "of b")))
    assert [id for row in view for id in answered_ids(row)] == ["a", "a"]
    assert ["of b" in str(row) for row in view if not answered_ids(row)].count(True) == 1
    # nothing stands between a call and its result, though an empty row came there
    made = assistant([look | {"id": "srv", "type": "server_tool_use"}, look | {"id": "b"}])
    view = await view_of(made, assistant(""), results(("b", "of b")))
    at = next(at for at, row in enumerate(view) if look | {"id": "b"} in list(row["content"]))
    assert view[at + 1] == results(("b", "of b"))


async def test_results_that_change_places_are_paid_again_and_nothing_else_is(tmp_path: Path):
    calls = [(id, "deploy", {"to": id}) for id in ("staging", "production")]
    texts = ["It went well. " * 40, "It failed, and nothing was changed. " * 20]
    talk = [row(f"{at}: go on. " * 60) for at in range(12) for row in (assistant, user)]

    async def calls_for(session_id: str, *answered: str) -> int:
        answers = [result("openai", id, text) for id, text in zip(answered, texts, strict=True)]
        given = {"session_id": session_id, "max_tokens": 4_000, "start_at": 0.0, "count_tokens": None}
        sizes = {"segment_min": 200, "segment_target": 400, "segment_max": 800, "store": tmp_path / "a.db"}
        summarizer = ScriptedSummarizer(recipe="mine/1")
        async with begun(of=Settings, summarizer=summarizer, **sizes, **given) as context:
            await context.set_messages([user("Deploy to both."), call("openai", *calls), *answers, *talk])
            await context.get_messages_for_request()
            await context.wait_idle(60)
        return len(summarizer.jobs)

    first = await calls_for("one", "staging", "production")
    assert first > 2
    assert await calls_for("two", "staging", "production") == 0
    assert 0 < await calls_for("three", "production", "staging") < first
