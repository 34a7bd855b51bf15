"""The OpenAI Agents SDK, through its own runner and session: what the contract does not ask for."""

import json
from contextlib import nullcontext
from functools import partial
from itertools import count
from typing import Any

import pytest

pytest.importorskip("agents")

from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, SQLiteSession, function_tool
from agents.exceptions import UserError
from agents.run_config import CallModelData, ModelInputData
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI

from summarizing_context import SettingsError
from summarizing_context.adapters.openai_agents import SummarizingFilter, summarizing_filter
from tests.behaviour.contexts import tiny
from tests.providers.compacting import Compacting
from tests.providers.server import serving

Item = dict[str, Any]
NUMBERS = count()
small = partial(tiny, max_tokens=3_000)


def scripted(*said: Any) -> ScriptedModel:
    return ScriptedModel([ModelStep(output=[one]) for one in said])


def config(shorten: SummarizingFilter, **more: Any) -> RunConfig:
    return RunConfig(call_model_input_filter=shorten, tracing_disabled=True, **more)


def pair(call_id: str, text: str = "It is there.") -> list[Item]:
    """A call and its output."""
    call = {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}"}
    return [call, {"type": "function_call_output", "call_id": call_id, "output": text}]


async def filtered(shorten: SummarizingFilter, items: list[Any]) -> list[Any]:
    agent: Agent[Any] = Agent(name="coder")
    data = ModelInputData(input=items, instructions=None)
    return list((await shorten(CallModelData(model_data=data, agent=agent, context=None))).input)


async def test_unknown_items_go_out_as_they_came_and_in_their_places():
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "anyio"}}
    shell = {"type": "shell_call", "call_id": "sh_1", "action": {"commands": ["ls"]}}
    listed = {"type": "shell_call_output", "call_id": "sh_1", "output": [{"stdout": "a.py", "stderr": ""}]}
    new = {"type": "of_tomorrow", "payload": {"any": [1, None]}}
    picture = {"type": "input_image", "image_url": "data:image/png;base64," + "iVBO" * 2_000}
    asked = {"role": "user", "content": [{"type": "input_text", "text": "Look."}, picture]}
    items = [asked, search, new, shell, listed, {"type": "compaction", "encrypted_content": "gAAA"}]
    items.append({**asked, "id": "m2"})
    async with summarizing_filter(small(max_tokens=20_000)) as shorten:
        assert await filtered(shorten, items) == items
        assert len(str(await (await shorten.context()).get_messages())) < 3_000, "no bytes of pictures are in the log"


async def in_a_stream(agent: Agent[Any], asked: str, **options: Any) -> None:
    _ = [event async for event in Runner.run_streamed(agent, asked, **options).stream_events()]


@pytest.mark.parametrize("run", [Runner.run, in_a_stream])
@pytest.mark.parametrize(
    "managed", [{"conversation_id": "c"}, {"previous_response_id": "r"}, {"auto_previous_response_id": True}]
)
async def test_a_conversation_that_the_server_keeps_is_refused_with_the_reason(run, managed):
    async with summarizing_filter(small()) as shorten:
        model = scripted()
        with pytest.raises(SettingsError, match="no view can shorten what the server keeps"):
            await run(Agent(name="coder", model=model), "Go.", run_config=config(shorten), **managed)
        assert model.calls == ()
        assert await (await shorten.context()).get_messages() == []


async def test_another_conversation_is_refused_until_the_log_is_cleared_but_a_first_message_may_be_corrected(tmp_path):
    other = [{"role": "user", "content": "Something else."}]
    settings = small(store=tmp_path / "run.db")
    async with summarizing_filter(settings) as shorten:
        with pytest.raises(SettingsError, match="output of 'c1' without its call"):
            await filtered(shorten, pair("c1")[1:])
        await filtered(shorten, [{"role": "user", "content": "Fix it."}])
        corrected = [{"role": "user", "content": "Fix it well."}, *pair("c1")]
        assert await filtered(shorten, corrected[:1]) == corrected[:1]
        assert await filtered(shorten, corrected) == corrected
        with pytest.raises(SettingsError, match="no message in common"):
            await filtered(shorten, other)
    async with summarizing_filter(settings) as again:
        with pytest.raises(SettingsError, match="no message in common"):
            await filtered(again, other)
        await (await again.context()).clear()
        assert await filtered(again, other) == other


@pytest.mark.parametrize("own", [None, RunConfig(tracing_disabled=True)])
async def test_an_agent_used_as_a_tool_needs_a_run_config_of_its_own(own):
    inner = Agent(name="helper", model=scripted(assistant_message("Found.")))
    tool = inner.as_tool("help", "Helps.", run_config=own, failure_error_function=None)
    model = scripted(function_call("help", {"input": "Find it."}, call_id="c1"), assistant_message("Done."))
    async with summarizing_filter(small()) as shorten:
        with nullcontext() if own else pytest.raises(UserError, match="as_tool"):
            await Runner.run(Agent(name="coder", tools=[tool], model=model), "Fix it.", run_config=config(shorten))
    assert ("Found." in json.dumps(model.calls[-1].input)) == (own is not None)


async def test_a_history_that_a_handoff_has_nested_is_the_same_conversation(tmp_path):
    session = SQLiteSession("s1")
    for numbers in ((0, 1), (2,)):
        async with summarizing_filter(small(store=str(tmp_path / "s.db"))) as shorten:
            for number in numbers:
                helper = Agent(name="helper", model=scripted(assistant_message(f"Done {number}.")))
                model = scripted(function_call("transfer_to_helper", {}, call_id=f"t{number}"))
                agent = Agent(name="coder", model=model, handoffs=[helper])
                options = config(shorten, nest_handoff_history=True)
                ran = await Runner.run(agent, f"Fix part {number}.", session=session, run_config=options)
                assert ran.final_output == f"Done {number}."
                (call,) = helper.model.calls
                assert f"Fix part {number}." in str(call.input[0]["content"])


@function_tool
def read(path: str) -> str:
    """Read a file."""
    return f"{path}: " + "a line of code; " * 20


def says(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Six parallel calls, a pair at a time, then an answer."""
    items, number = body["input"], next(NUMBERS)
    asked = max(at for at, item in enumerate(items) if str(item.get("content")).startswith("Fix part"))
    if sum(item.get("type") == "function_call_output" for item in items[asked:]) >= 6:
        said = [{"type": "output_text", "text": "This part is done.", "annotations": []}]
        head = {"id": f"msg_{number}x", "type": "message", "role": "assistant", "status": "completed"}
        return [{**head, "content": said}]
    names, call = (f"{number}_a", f"{number}_b"), {"type": "function_call", "name": "read", "status": "completed"}
    return [{**call, "call_id": f"call_{n}", "arguments": f'{{"path": "{n}.py"}}'} for n in names]


async def test_the_compacted_window_leads_each_request_and_none_is_refused(tmp_path):
    provider, name = Compacting(items=says), "gpt-6-astra"
    async with serving(provider) as server:
        account = {"base_url": f"{server.root}/v1", "api_key": "sk-test"}
        given = {"store": tmp_path / "s.db", "max_tokens": 3_000, "native": "prefer"}
        client = AsyncOpenAI(**account, max_retries=0)
        model = OpenAIResponsesModel(model=name, openai_client=client)
        agent = Agent(name="coder", instructions="You fix code.", tools=[read], model=model)
        settings = tiny(summarizer="openai", model=name, **account, **given)
        async with client, SummarizingFilter(settings) as shorten:
            options: Any = {"session": SQLiteSession("s1"), "run_config": config(shorten), "max_turns": 30}
            for turn in range(40):
                if turn > 13 and len(provider.asked) > 1:
                    break
                await Runner.run(agent, f"Fix part {turn}. Never push to main.", **options)
                await (await shorten.context()).wait_idle(5)
            nodes = (await shorten.context()).explain()
    assert provider.refused == []
    assert len(provider.asked) >= 2
    assert provider.carried > 4
    assert any(item.get("type") == "compaction" for asked in provider.asked for item in asked["input"])
    assert all("<summary messages=" in asked["instructions"] for asked in provider.asked)
    assert [node.made_by for node in nodes].count("provider") == 1
