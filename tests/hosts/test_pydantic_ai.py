"""Pydantic AI, through its own runtime and its own function model: what the contract of all hosts does not ask for."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from anthropic import AsyncAnthropic

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai import messages as ai
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from summarizing_context.adapters.pydantic_ai import SummarizingCapability
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import tiny
from tests.proxy.fake import Fake, served

small = partial(tiny, max_tokens=3_000)
WIDE = {"max_tokens": 100_000, "safety_margin": 0, "reserved_output": 0}


def read(path: str) -> str:
    """Read a file."""
    return f"{path}: " + "a line of code; " * 20


class Scripted:
    """An agent whose model reads a number of times, two files at once, before it answers, and keeps each request."""

    def __init__(self, capability: SummarizingCapability, reads: int = 6, **options: Any) -> None:
        self.seen: list[list[ai.ModelMessage]] = []
        self.reads, self.capability = reads, capability
        function = FunctionModel(self._answer, profile=options.pop("profile", None), model_name="claude-opus-5-5")
        model = FallbackModel(FunctionModel(self._answer), function) if options.pop("falls_back", False) else function
        given: Any = {"model": model, "instructions": "You fix code.", "capabilities": [capability], **options}
        self.agent = Agent(**given)
        self.agent.tool_plain(read)

    def _answer(self, messages: list[ai.ModelMessage], info: AgentInfo) -> ai.ModelResponse:
        self.seen.append(messages)
        if (number := len(self.seen)) % (self.reads + 1) == 0:
            return ai.ModelResponse(parts=[ai.TextPart(f"Part {number} is done.")])
        calls = [ai.ToolCallPart("read", {"path": f"src/{name}{number}.py"}, f"call_{name}{number}") for name in "ab"]
        return ai.ModelResponse(parts=calls)

    async def turns(self, count: int) -> Any:
        """Run so many turns; the conversation's context."""
        history: list[ai.ModelMessage] = []
        for turn in range(count):
            history = (await self.agent.run(f"Fix part {turn}.", message_history=history)).all_messages()
        return await self.capability.context_of(str(history[-1].conversation_id))


@asynccontextmanager
async def scripted(*, reads: int = 6, agent: Any = None, **settings: Any) -> AsyncIterator[Scripted]:
    async with SummarizingCapability(small(**settings)) as capability:
        yield Scripted(capability, reads, **(agent or {}))


def prompts(*texts: str) -> list[ai.ModelMessage]:
    return [ai.ModelRequest(parts=[ai.UserPromptPart(text)]) for text in texts]


def parts(messages: Sequence[ai.ModelMessage], kind: type) -> list[Any]:
    return [part for message in messages for part in message.parts if isinstance(part, kind)]


@pytest.mark.parametrize("closed", [False, True])
async def test_runs_at_the_same_time_on_one_conversation_are_each_sent_their_own_history(closed):
    """A conversation that is closed meanwhile is not closed within a request."""
    never = ScriptedSummarizer(delay=float("inf"))
    async with SummarizingCapability(small(max_wait=0.05), summarizer=never) as capability:
        run = Scripted(capability, reads=0)

        async def tell(number: int) -> None:
            history = prompts(*(f"run{number} says {text}. " + "word " * 20 for text in range(100)))
            await run.agent.run(message_history=history, conversation_id="shared")

        async with anyio.create_task_group() as group:
            for number in range(3 if closed else 8):
                group.start_soon(tell, number)
                if closed:
                    await anyio.sleep(0.03)
                    await capability.close()
    said = [set(re.findall(r"run\d", str(messages))) for messages in run.seen]
    assert sorted(map(sorted, said)) == [[f"run{number}"] for number in range(3 if closed else 8)]


@pytest.mark.parametrize(
    ("settings", "agent"),
    [*((WIDE, {"profile": {"context_window": 3_000}, "falls_back": each}) for each in (False, True)), ({}, {})],
)
async def test_the_window_of_the_models_profile_is_the_budget_and_system_prompts_stay(settings, agent):
    async with scripted(agent={**agent, "system_prompt": "You are careful."}, **settings) as run:
        context, other = await run.turns(4), await run.turns(1)  # each conversation has its own
        assert [len(await each.get_messages()) for each in (context, other)] == [4 * 20, 20]
        assert context.budget().max_tokens == 3_000
        assert context.statistics().activations >= 1
        for messages in run.seen:
            assert [part.content for part in parts(messages, ai.SystemPromptPart)] == ["You are careful."]
            assert isinstance(messages[0].parts[0], ai.SystemPromptPart)


async def test_files_go_out_as_they_came_and_their_bytes_stay_out_of_the_log():
    image = ai.BinaryContent(b"\x89PNG" * 2_000, media_type="image/png")
    async with scripted(reads=0, max_tokens=20_000) as run:
        await run.agent.run(["What is this?", image], conversation_id="c")
        (prompt,) = parts(run.seen[0], ai.UserPromptPart)
        assert prompt.content[1] is image
        context = await run.capability.context_of("c")
        assert len(str(await context.get_messages())) < 1_000
        shot = ai.ToolReturnPart("shot", ["a line of the page; " * 9_000, image], "c1", outcome="failed")
        call = ai.ModelResponse(parts=[ai.ToolCallPart("shot", {}, "c1")])
        await run.agent.run(message_history=[*prompts("Look."), call, ai.ModelRequest(parts=[shot])])
    (shown,) = parts(run.seen[1], ai.ToolReturnPart)
    assert (len(shown.content[0]) < 90_000, shown.content[1:]) == (True, [image]), "only its text is shortened"
    assert shown.outcome == "failed"


async def test_what_is_bound_to_reasoning_that_a_view_leaves_out_goes_without_its_ids():
    thought = ai.ThinkingPart("Hm.", id="rs_1", signature="gA", provider_name="openai")
    search = ai.NativeToolCallPart("web_search", {}, "ws_1", id="ws_1")
    said = [thought, search, ai.TextPart("I see. " * 3_000, id="msg_1"), ai.ToolCallPart("read", {}, "c1", id="fc_1")]
    result = ai.ModelRequest(parts=[ai.ToolReturnPart("read", "Here.", "c1")])
    async with scripted(reads=0, max_tokens=4_000) as run:
        await run.agent.run(message_history=[*prompts("Look."), ai.ModelResponse(parts=said), result])
    (text, call) = next(message.parts for message in run.seen[0] if isinstance(message, ai.ModelResponse))
    assert (len(text.content) < 20_000, text.id, call.tool_call_id, call.id) == (True, None, "c1", None)


async def test_a_model_that_binds_thinking_refuses_no_request_of_a_rewritten_beginning():
    fake = Fake()
    async with served(fake) as upstream, SummarizingCapability(small()) as capability:
        client = AsyncAnthropic(base_url=upstream, api_key="k", max_retries=0)
        model = AnthropicModel("claude-opus-5-5", provider=AnthropicProvider(anthropic_client=client))
        asked: Any = {"anthropic_thinking": {"type": "adaptive"}}
        await Scripted(capability, model=model, model_settings=asked).turns(8)
        await client.close()
    assert fake.problems == []


@pytest.mark.parametrize(
    ("asked", "mark", "is_cold"),
    [
        ({}, [], True),
        ({"anthropic_cache": "1h"}, [], False),
        ({"anthropic_cache_messages": True}, [], True),
        ({"cache": {"retention": "1h"}}, [], False),
        ({}, [ai.CachePoint(ttl="1h")], False),
    ],
)
async def test_a_cache_lives_as_long_as_the_request_asks_for(asked, mark, is_cold):
    now, history = [0.0], prompts(*["word " * 60] * 30)
    async with SummarizingCapability(small(), clock=lambda: now[0]) as capability:
        agent = Scripted(capability, reads=0).agent
        for now[0] in (0.0, 1_000.0):
            ran = await agent.run(["Go on.", *mark], message_history=history, model_settings=asked, conversation_id="c")
            history = ran.all_messages()
        made = (await capability.context_of("c")).activations()
    assert [one.reason for one in made] == (["idle"] if is_cold else [])
