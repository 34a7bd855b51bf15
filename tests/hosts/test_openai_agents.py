"""The OpenAI Agents SDK, through its own runner, session and scripted model: views go out, the session stays whole."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

pytest.importorskip("agents")

from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
from agents.run_config import CallModelData, ModelInputData
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai.types.responses.response_reasoning_item import ResponseReasoningItem, Summary

from summarizing_context import SettingsError
from summarizing_context.adapters.openai_agents import SummarizingFilter, summarizing_filter
from tests.behaviour.contexts import tiny

Item = dict[str, Any]


small = partial(tiny, max_tokens=3_000)


@function_tool
def read(path: str) -> str:
    """Read a file."""
    return f"{path}: " + "a line of code; " * 20


def steps(turns: int, mark: str = "") -> Iterator[ModelStep]:
    """Six times reasoning and two parallel calls; then an answer."""
    for turn in range(turns):
        for at in range(6):
            n = f"{mark}{turn}_{at}"
            summary = [Summary(text="I look.", type="summary_text")]
            thought = ResponseReasoningItem(id=f"rs_{n}", type="reasoning", summary=summary, encrypted_content="gA")
            calls = [function_call("read", {"path": f"src/{one}{n}.py"}, call_id=f"call_{one}{n}") for one in "ab"]
            yield ModelStep(output=[thought, *calls])
        yield ModelStep(output=[assistant_message(f"Part {turn} is done.")])


class Scripted:
    """An agent whose model follows a script, and a session of the SDK."""

    def __init__(self, shorten: SummarizingFilter, script: Iterable[ModelStep], tools: Sequence[Any] = (read,)) -> None:
        self.model = ScriptedModel(list(script))
        self.agent = Agent(name="coder", instructions="You fix code.", tools=list(tools), model=self.model)
        self.session = SQLiteSession("s1")
        self.config = RunConfig(call_model_input_filter=shorten, tracing_disabled=True)

    async def turns(self, count: int, **options: Any) -> None:
        options = {"session": self.session, **options}
        for turn in range(count):
            prompt = f"Fix part {turn}. Never push to main."
            await Runner.run(self.agent, prompt, max_turns=30, run_config=self.config, **options)

    @property
    def seen(self) -> list[list[Item]]:
        return [list(call.input) for call in self.model.calls]


def call(call_id: str, **more: Any) -> Item:
    return {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}", **more}


def output(call_id: str, text: str = "It is there.") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


async def filtered(shorten: SummarizingFilter, items: list[Any]) -> list[Any]:
    agent: Agent[Any] = Agent(name="coder")
    data = ModelInputData(input=items, instructions=None)
    return list((await shorten(CallModelData(model_data=data, agent=agent, context=None))).input)


async def in_a_stream(agent: Agent[Any], asked: str, **options: Any) -> None:
    async for _ in Runner.run_streamed(agent, asked, **options).stream_events():
        pass


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


async def test_what_the_server_has_compacted_goes_on_and_tools_that_it_found_stay_found():
    search = {"type": "tool_search_call", "id": "ts_1", "call_id": None, "execution": "server", "arguments": {}}
    late = {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": [{"name": "late"}]}
    async with summarizing_filter(small()) as shorten:
        await filtered(shorten, [{"role": "user", "content": "Begin."}, call("c0"), output("c0")])
        items: list[Any] = [{"type": "compaction", "encrypted_content": "gAAA"}, {"role": "user", "content": "Go on."}]
        items += [search, late, {"type": "message", "role": "assistant", "content": "Found."}]
        for number in range(1, 40):
            items += [call(f"c{number}"), output(f"c{number}", "word " * 80)]
            sent = await filtered(shorten, items)
            assert (sent[0], late in sent) == (items[0], True)
        assert (await shorten.context()).statistics().activations >= 1


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_conversation_that_the_server_keeps_is_refused_with_the_reason(streamed):
    for managed in ({"conversation_id": "c"}, {"previous_response_id": "r"}, {"auto_previous_response_id": True}):
        async with summarizing_filter(small()) as shorten:
            run = Scripted(shorten, steps(1))
            options = {"run_config": run.config, **managed}
            with pytest.raises(SettingsError, match="no view can shorten what the server keeps"):
                await (in_a_stream if streamed else Runner.run)(run.agent, "Go.", **options)
            assert run.model.calls == ()
            assert await (await shorten.context()).get_messages() == []


async def test_another_conversation_takes_the_place_of_the_log_and_what_is_no_whole_history_is_refused(tmp_path):
    other = [{"role": "user", "content": "Something else."}]
    async with summarizing_filter(small(store=tmp_path / "run.db")) as shorten:
        with pytest.raises(SettingsError, match="output of 'c1' without its call"):
            await filtered(shorten, [output("c1")])
        await filtered(shorten, [{"role": "user", "content": "Fix it."}])
        corrected = [{"role": "user", "content": "Fix it well."}, call("c1"), output("c1")]
        assert await filtered(shorten, corrected[:1]) == corrected[:1]
        assert await filtered(shorten, corrected) == corrected
        assert await filtered(shorten, other) == other
        context = await shorten.context()
        await context.restore("before the log was replaced")
        assert [row["role"] for row in await context.get_messages()] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("own", [None, RunConfig(tracing_disabled=True)])
async def test_an_agent_used_as_a_tool_has_its_own_history(own):
    inner = Agent(name="helper", model=ScriptedModel([ModelStep(output=[assistant_message("Found.")])]))
    tool = inner.as_tool("help", "Helps.", run_config=own, failure_error_function=None)
    said = function_call("help", {"input": "Find it."}, call_id="c1"), assistant_message("Done.")
    async with summarizing_filter(small()) as shorten:
        run = Scripted(shorten, [ModelStep(output=[one]) for one in said], tools=[tool])
        await run.turns(1)
        assert "Found." in json.dumps(run.seen[-1])
        assert "Never push to main." in json.dumps(run.seen[-1])
        assert [call.input for call in inner.model.calls] == [[{"role": "user", "content": "Find it."}]]


async def test_a_history_that_a_handoff_has_nested_is_the_same_conversation(tmp_path):
    settings = small(store=str(tmp_path / "s.db"))
    session = SQLiteSession("s1")

    async def turn(shorten: SummarizingFilter, number: int) -> list[list[Item]]:
        second = ScriptedModel([ModelStep(output=[assistant_message(f"Done {number}.")])])
        helper = Agent(name="helper", model=second)
        hand_over = ModelStep(output=[function_call("transfer_to_helper", {}, call_id=f"t{number}")])
        agent = Agent(name="coder", model=ScriptedModel([hand_over]), handoffs=[helper])
        config = RunConfig(call_model_input_filter=shorten, tracing_disabled=True, nest_handoff_history=True)
        result = await Runner.run(agent, f"Fix part {number}.", session=session, run_config=config)
        assert result.final_output == f"Done {number}."
        return [list(call.input) for call in second.calls]

    async with summarizing_filter(settings) as shorten:
        for number in range(2):
            (sent,) = await turn(shorten, number)
            assert f"Fix part {number}." in str(sent[0]["content"])
    async with summarizing_filter(settings) as shorten:
        assert "Fix part 2." in str(await turn(shorten, 2))
