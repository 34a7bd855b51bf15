"""The manager on the host's test coordinator: rows of a request, which the host and its providers take as they are,
whatever was logged; prompt, tools and usage; and `hooks: await`: the host acts before a compaction."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import anyio
import pytest
from amplifier_core import Message, TextBlock
from amplifier_core.testing import MockCoordinator
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context import MessageError, SettingsError
from summarizing_context.adapters.amplifier import SummarizingContextManager
from summarizing_context.adapters.amplifier import manager as amplifier_manager
from tests.adapters.host import SMALL, Row, mounted, refusals, unstamped
from tests.behaviour.contexts import TINY, Provider, fill
from tests.laws.builders import assistant, system, user

ASK, HELLO = user("Go."), user("Hello")
IMAGE: Row = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
THOUGHT: Row = {"type": "thinking", "thinking": "hm"}
STATE = {**THOUGHT, "content": ["encrypted", "id"]}
NO_TEXT, NOT_YET = "[no text]", "[no result of this call yet]"


def texts(*said: str) -> list[Row]:
    return [{"type": "text", "text": text} for text in said]


def use(*ids: Any) -> list[Row]:
    return [{"type": "tool_call", "id": id, "name": "read", "input": {"path": "a"}} for id in ids]


def result(id: Any, said: Any = "done", **more: Any) -> Row:
    return {"role": "tool", "tool_call_id": id, "content": said, **more}


async def sent(*rows: Row) -> list[Row]:
    """The request of a session that holds these rows, which the host and both providers take."""
    async with mounted({"token_counter": "estimate"}) as manager:
        await manager.set_messages(rows)
        found = await manager.get_messages_for_request()
    assert refusals(found) == []
    assert [Message(**row).role for row in found] == [row["role"] for row in found]
    return found


OWN = [{"id": "c1", "tool": "read", "arguments": {"path": "a"}}]


@pytest.mark.parametrize(
    "rows",
    [
        [system("Be kind."), ASK, user([IMAGE])],
        [ASK, {**assistant(use("c1")), "tool_calls": OWN}, result("c1", name="read", metadata=None)],
        [ASK, assistant([{**THOUGHT, "signature": None, "content": ["a", "b"]}, *texts("Yes.")]), ASK],
    ],
)
async def test_rows_of_the_hosts_own_shapes_go_out_as_they_are(rows):
    assert await sent(*rows) == rows


FUNCTION = {"name": "read", "arguments": '{"path": "a"}'}
LISTED = [{"id": "c1", "type": "function", "function": FUNCTION}]
INSIDE = {"type": "tool_result", "tool_use_id": "c1", "content": texts("x"), "is_error": True}
UNSIGNED = [{**THOUGHT, **more} for more in ({}, {"signature": None}, {"signature": "", "content": []})]
OTHER_SHAPES: dict[str, tuple[list[Row], list[Any]]] = {
    "an id again": (
        [assistant(use("c1")), result("c1")] * 2,
        [use("c1"), ("c1", "done"), use("c1_2"), ("c1_2", "done")],
    ),
    "an id twice": ([assistant(use("x", "x")), *[result("x")] * 2], [use("x", "x_2"), ("x", "done"), ("x_2", "done")]),
    "an odd id": ([assistant(use("a.b:c")), result("a.b:c")], [use("a_b_c"), ("a_b_c", "done")]),
    "unsigned thinking": ([assistant([*UNSIGNED, STATE, *texts("Well.")]), ASK], [[STATE, *texts("Well.")], "Go."]),
    "unsigned thinking alone": ([assistant([THOUGHT]), ASK], [NO_TEXT, "Go."]),
    "unsigned thinking of a call": ([assistant([THOUGHT, *use("c1")]), result("c1")], [use("c1"), ("c1", "done")]),
    "results inside a user's row": (
        [assistant(use("c1")), user([INSIDE, *texts("And?")])],
        [use("c1"), ("c1", texts("x"), True), texts("And?")],
    ),
    "listed calls": (
        [{**assistant("See."), "tool_calls": LISTED}, result("c1")],
        [[*texts("See."), *use("c1")], ("c1", "done")],
    ),
    "the host's listed calls": ([{**assistant(""), "tool_calls": OWN}, result("c1")], [use("c1"), ("c1", "done")]),
    "no list of calls": ([{**ASK, "tool_calls": 5}], ["Go."]),
    "half a character": ([user("a\ud83d")], ["a\ufffd"]),
    "an image's address": (
        [user([{"type": "input_image", "image_url": "u://x"}])],
        [[{"type": "image", "source": {"type": "url", "url": "u://x"}}]],
    ),
    "an image": ([user([{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}])], [[IMAGE]]),
    "input text": ([user([{"type": "input_text", "text": "t"}])], [texts("t")]),
    "other fields": ([user([{"type": "text", "text": "t", "visibility": "all"}])], [texts("t")]),
    "another block": ([user([{"type": "mystery", "word": "kept"}])], [texts('{"type":"mystery","word":"kept"}')]),
    "hidden thinking": ([user([{"type": "redacted_thinking"}])], [texts("[redacted_thinking]")]),
}


@pytest.mark.parametrize(("rows", "expected"), OTHER_SHAPES.values(), ids=OTHER_SHAPES)
async def test_rows_of_other_shapes_go_out_as_the_host_has_them(rows, expected):
    asked, *found = await sent(ASK, *rows)
    fields = ("tool_call_id", "content", "is_error")
    said = [tuple(row[name] for name in fields if name in row) for row in found]
    assert (asked, [one[0] if len(one) == 1 else one for one in said]) == (ASK, expected)


@pytest.mark.parametrize("content", ["", "  \n", None, [], texts(" ")])
async def test_no_text_is_empty(content):
    for role in ("user", "assistant"):
        assert (await sent(ASK, {"role": role, "content": content}, ASK))[1]["content"] == NO_TEXT
    assert await sent({"role": "system", "content": content}, ASK) == [ASK]


async def test_the_first_row_is_a_users_an_answers_image_is_named_and_half_a_character_and_a_users_calls_are_written():
    rows = await sent(system("\ud83d"), assistant([IMAGE]), ASK)
    said = ["\ufffd", "[the conversation begins with the assistant]", texts("[image]"), "Go."]
    assert [row["content"] for row in rows] == said
    rows = await sent(ASK, assistant(use("\ud83d")), result("\ud83d"))
    assert rows[2] == result(rows[1]["content"][0]["id"])
    python = [{**LISTED[0], "function": {**FUNCTION, "arguments": '{"path": "a.py"}'}}]
    of_user = (await sent(ASK, {**user(""), "tool_calls": python}, ASK))[1]
    assert ("a.py" in str(of_user["content"]), NO_TEXT in of_user["content"]) == (True, False)


async def test_tools_of_the_server_that_only_the_exact_copy_has_are_counted_and_come_back_as_given():
    asked = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "words " * 600}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "a"}]}
    call = {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}
    copy = {"anthropic": {"wire_content": [*texts("I look."), asked, found, call], "model": "m"}, "timestamp": "t"}
    rows = [ASK, {**assistant([*texts("I look."), *use("c1")]), "metadata": copy}, result("c1")]
    async with mounted({"token_counter": "estimate"}) as manager:
        await manager.set_messages(rows)
        assert await manager.get_messages() == rows == await manager.get_messages_for_request()
        assert manager.statistics().history_tokens > 600


async def test_a_call_in_flight_is_shown_with_a_result_that_says_so_until_it_comes():
    async with mounted() as manager:
        await fill(manager, [ASK, assistant(use("c1"))])
        assert (await manager.get_messages_for_request())[-1] == result("c1", NOT_YET)
        await manager.add_message(result("c1"))
        assert (await manager.get_messages_for_request())[-1]["content"] == "done"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KINDS = "text thinking redacted_thinking tool_call tool_use tool_result image image_url reasoning".split()  # noqa: SIM905
NAMES = ["text", "thinking", "signature", "data", "id", "name", "input", "tool_call_id", "tool_use_id", "output",
         "source", "content", "summary", "visibility", "arguments", "image_url"]  # fmt: skip
BLOCKS = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(KINDS) | JSON,
    st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(BLOCKS | JSON, max_size=4) | JSON, st.sampled_from(["user", "assistant", "tool", "system"]))
def test_whatever_was_logged_the_host_accepts_it(content, role):
    async def shown() -> None:
        async with mounted({"token_counter": "estimate"}) as manager:
            with suppress(MessageError):
                await manager.set_messages([ASK, {"role": role, "content": content, "tool_call_id": "c"}])
            rows = await manager.get_messages_for_request() if len(await manager.get_messages()) else []
        assert [Message(**row).role for row in rows] == [row["role"] for row in rows]

    asyncio.run(shown())


async def test_values_that_are_no_json_are_written_down():
    arguments = {"by": float("nan"), "icon": "\ud83d\ude00", "most": [float("inf")], "of": {"b", "a", "c"}}
    async with mounted() as manager:
        await manager.add_message({**assistant([TextBlock(text="hello")]), "odd": {3: (1, {...}), Path("a"): 1}})
        await manager.set_messages(iter([*(await manager.get_messages()), Message(role="user", content="typed")]))
        await manager.add_message({**assistant(""), "tool_calls": [{"id": "c", "arguments": arguments}]})
        first, second, third = await manager.get_messages()
        assert (first["content"][0]["text"], first["odd"]) == ("hello", {"3": [1, ["Ellipsis"]], "a": 1})
        assert second["content"] == "typed"
        written = {"by": "nan", "icon": "\U0001f600", "most": ["inf"], "of": ["a", "b", "c"]}
        assert third["tool_calls"][0]["arguments"] == written
        endless: list[Any] = []
        endless.append(endless)
        with pytest.raises(MessageError):
            await manager.add_message(user(endless))


@pytest.mark.parametrize(("model", "stays"), [("claude-opus-4-8", True), ("claude-opus-5-5", False)])
async def test_thinking_of_the_open_turn_goes_where_the_model_refuses_it(model, stays):
    provider = Provider("anthropic", model, context_window=6_000, max_output_tokens=1_000)
    thinking, rows = {"type": "thinking", "thinking": "Which one?", "signature": "c2ln"}, list[Row]()
    async with mounted(SMALL) as context:
        await context.add_message(ASK)
        for step in range(20):
            await fill(context, [assistant([thinking, *use(f"c{step}")]), result(f"c{step}", "a line of code; " * 80)])
            rows = await context.get_messages_for_request(provider=provider)
            if context.statistics().activations:
                break
    assert len(rows) < 2 * step
    assert any("Which one?" in str(row["content"]) for row in rows if row["role"] == "assistant") == stays


async def test_a_hook_may_wrap_the_factory_as_the_hosts_own_hooks_do_and_one_that_fails_fails_its_request_alone():
    def broken() -> str:
        raise LookupError("a file that is gone")

    async with mounted() as manager:
        await manager.set_system_prompt_factory(lambda: "You are kind.")
        base = manager._system_prompt_factory
        await manager.set_system_prompt_factory(lambda: f"{base()} It is a git repository.")
        await manager.add_message(HELLO)
        assert (await manager.get_messages_for_request())[0]["content"] == "You are kind. It is a git repository."
        with pytest.raises(SettingsError, match="it is a function, or None"):
            await manager.set_system_prompt_factory("You are kind.")
        await manager.set_system_prompt_factory(broken)
        with pytest.raises(LookupError):
            await manager.get_messages_for_request()
        await manager.set_system_prompt_factory(None)
        assert unstamped(await manager.get_messages_for_request()) == [HELLO]


async def test_the_time_is_stamped_and_nothing_else_is_touched():
    async with mounted() as manager:
        beside = (None, {"source": "hook"}, {"timestamp": "then"}, "odd")
        rows = [HELLO, *({**HELLO, "metadata": metadata} for metadata in beside)]
        await fill(manager, rows)
        kept = await manager.get_messages()
        assert user("Hello") == HELLO, "the caller's own is left alone"
        for row in kept[:3]:
            assert datetime.fromisoformat(row["metadata"].pop("timestamp")).utcoffset() is not None
        assert kept == [{**HELLO, "metadata": {}}] * 2 + rows[2:]


async def test_only_the_answer_to_its_own_newest_view_teaches_a_session():
    coordinator, note = MockCoordinator(), AsyncMock(return_value=None)
    hooks = coordinator.hooks
    hooks.register("context:usage_calibrated", note, 0, "note")
    child = SummarizingContextManager({"token_counter": "estimate"})
    child.use_host(SimpleNamespace(hooks=hooks, session_id="child"))  # as a child's session shares them

    async def answered(manager: Any, factor: float, asked: str = "a", told: str = "a") -> None:
        """The manager's next view is sent, and counted at so much of what it takes."""
        await fill(manager, (user(f"{number}: " + "plain words " * 50) for number in range(20)))
        await manager.get_messages_for_request()
        tokens = int(factor * (await manager.opened()).last_view.tokens)
        await hooks.emit("llm:request", {"request_id": asked})
        await hooks.emit("llm:response", {"request_id": told, "usage": {"input_tokens": tokens}})
        await hooks.emit("llm:response", {"request_id": told, "usage": {"input_tokens": 9 * tokens}})

    async with mounted({"token_counter": "estimate"}, coordinator) as parent:
        await parent.add_message(HELLO)
        await parent.get_messages_for_request()
        await asyncio.create_task(answered(child, 2.0))
        await answered(parent, 1.5, "b", "z")
        await answered(parent, 1.5)
    await child.close()
    assert [round(call.args[1]["ratio"], 1) for call in note.await_args_list] == [2.0, 1.5]


@pytest.mark.parametrize(
    ("options", "tools"),
    [({}, 0), ({"recall_tool": True}, 1), ({"compact_tool": True}, 1), ({"memory_tools": True}, 3)],
)
async def test_tools_are_mounted_on_demand_only_and_those_of_others_stay(options, tools):
    coordinator, other = MockCoordinator(), object()
    async with mounted(options, coordinator):
        names = list(coordinator.get("tools") or {})
        assert len(names) == tools
        for name in names[:1]:
            await coordinator.mount("tools", other, name=name)
    assert list((coordinator.get("tools") or {}).values()) == [other] * bool(tools)


async def test_the_tools_that_the_host_has_mounted_take_their_part_of_the_budget():
    wide = SimpleNamespace(name="wide", description="reads and writes " * 200, input_schema={"type": "object"})
    coordinator = MockCoordinator()
    async with mounted({**SMALL, "max_tokens": 2_000}, coordinator) as context:
        await fill(context, [HELLO])
        await context.get_messages_for_request()
        inner = await context.opened()
        assert inner.last_view.fixed_tokens == 0
        for tool in (wide, SimpleNamespace(name="without a description")):
            await coordinator.mount("tools", tool, name=tool.name)
        for turn in range(30):
            await context.add_message(user(f"{turn}: " + "go on and on " * 10))
            await context.get_messages_for_request()
            assert inner.last_view.fixed_tokens > 400
            assert inner.last_view.tokens + inner.last_view.fixed_tokens <= 2_000
        assert inner.statistics().activations > 0


# `hooks: await`: the host acts before a compaction, as long as it does not take too long -----------------------------

FIRST = Provider("first", context_window=2_100, max_output_tokens=200)
SECOND = Provider("second", context_window=2_000, max_output_tokens=200)
THIRD = Provider("third", context_window=1_900, max_output_tokens=200)


@asynccontextmanager
async def filled(hook: Any, hooks: str = "await") -> AsyncIterator[Any]:
    """A manager whose next view compacts, with a hook of `context:pre_compact`."""
    coordinator = MockCoordinator()
    coordinator.hooks.register("context:pre_compact", hook, 0, "hook")
    async with mounted({**TINY, "max_tokens": 1_000, "idle_after": "never", "hooks": hooks}, coordinator) as manager:
        await fill(manager, (user(f"{number} " + "plain words " * 12) for number in range(80)))
        yield manager


async def test_a_hook_has_acted_before_the_view_and_may_use_the_context():
    acted: list[int] = []

    async def hook(event: str, data: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        await (await manager.opened()).checkpoint("before the compaction")
        await manager.get_messages_for_request()
        await manager.add_message(user("said by the hook"))
        acted.append(data["message_count"])

    async with filled(hook) as manager:
        view = await manager.get_messages_for_request()
        assert acted == [80], "once, although the hook asked for a view"
        assert view[-1]["content"] == "said by the hook"
        assert [mark.seq for mark in await (await manager.opened()).list_checkpoints()] == [80]


@pytest.mark.parametrize("hooks", ["await", "background"])
async def test_a_hook_that_fails_or_hangs_costs_no_view(monkeypatch, hooks):
    if hooks == "await":
        monkeypatch.setattr(amplifier_manager, "_SEND_WITHIN", 0.5)
    ended: list[str] = []

    async def hang(event: str, data: dict[str, Any]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hang")

    async def fail(event: str, data: dict[str, Any]) -> None:
        ended.append("fail")
        raise RuntimeError("a hook")

    for hook in (hang, fail):
        async with filled(hook, hooks) as manager:
            assert len(await manager.get_messages_for_request()) < 80
            assert bool(ended) == (hooks == "await" or hook is fail), "a view waits where the options say so"
            await fill(manager, [ASK] * 150)  # of which no event need wait
    assert ended == ["hang", "fail"]


async def activated(manager: Any) -> int:
    return sum((await manager.opened()).statistics().activations_by_reason.values())


@pytest.mark.parametrize("other", [FIRST, SECOND], ids=["same provider", "another provider"])
@pytest.mark.parametrize("together", [True, False])
async def test_other_requests_that_would_compact_wait_until_hooks_have_acted(other, together):
    seen: list[int] = []
    acts, may_act = asyncio.Event(), asyncio.Event()

    async def hook(event: str, data: dict[str, Any]) -> None:
        seen.append(await activated(manager))
        acts.set()
        await may_act.wait()

    async with filled(hook) as manager:
        first = asyncio.create_task(manager.get_messages_for_request(provider=FIRST))
        if not together:
            await acts.wait()
        second = asyncio.create_task(manager.get_messages_for_request(provider=other))
        await acts.wait()
        await anyio.wait_all_tasks_blocked()
        assert (len(seen), await activated(manager), first.done(), second.done()) == (1, 0, False, False)
        may_act.set()
        view = await first
        assert max(len(view), len(await second)) < 80
        assert seen == list(range(await activated(manager))), "each is announced once, and before it"
        assert len(seen) == len({FIRST, other})
        may_act.clear()  # a request that would not compact does not wait
        waiting = asyncio.create_task(manager.get_messages_for_request(provider=THIRD))
        await anyio.wait_all_tasks_blocked()
        assert await manager.get_messages_for_request(provider=FIRST) == view
        assert not waiting.done()
        may_act.set()
        await waiting


async def test_a_hook_that_always_compacts_comes_to_an_end():
    seen: list[int] = []

    async def hook(event: str, data: dict[str, Any]) -> None:
        seen.append(data["message_count"])
        for _ in range(2):
            await (await manager.opened()).compact(focus=f"the plain words {len(seen)} {await activated(manager)}")

    async with filled(hook) as manager:
        await manager.get_messages_for_request(provider=FIRST)
        assert len(await manager.get_messages_for_request(provider=SECOND)) < 80
        assert len(seen) < 100
