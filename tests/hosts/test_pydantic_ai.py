"""Pydantic AI, through its own runtime and its own function model: views go out, the run's history stays whole."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from anthropic import AsyncAnthropic

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from summarizing_context import Settings, SummarizingContext
from summarizing_context.adapters.pydantic_ai import SummarizingCapability
from summarizing_context.testing import ScriptedSummarizer
from tests.behaviour.contexts import tiny
from tests.proxy.fake import Fake, served

Reply = Callable[[int], ModelResponse]


small = partial(tiny, max_tokens=3_000)


def steps(number: int) -> ModelResponse:
    """Two parallel calls, six times; then an answer."""
    if number % 7 == 0:
        return ModelResponse(parts=[TextPart(f"Part {number} is done.")])
    thinking = ThinkingPart("I look.", signature=f"s{number}", provider_name="anthropic")
    calls = [ToolCallPart("read", {"path": f"src/{name}{number}.py"}, f"call_{name}{number}") for name in "ab"]
    return ModelResponse(parts=[thinking, *calls])


class Scripted:
    """An agent whose model answers by a script and keeps each request."""

    def __init__(self, capability: SummarizingCapability, reply: Reply = steps, **options: Any) -> None:
        self.seen: list[list[ModelMessage]] = []
        self.reply, self.capability = reply, capability
        model = FunctionModel(self._answer, profile=options.pop("profile", None))
        self.agent = Agent(model, instructions="You fix code.", capabilities=[capability], **options)
        self.agent.tool_plain(read)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen.append(messages)
        return self.reply(len(self.seen))

    async def context_of(self, history: Sequence[ModelMessage]) -> SummarizingContext:
        return await self.capability.context_of(str(history[-1].conversation_id))

    async def turns(self, count: int, history: list[ModelMessage] | None = None) -> list[ModelMessage]:
        for turn in range(count):
            prompt = f"Fix part {turn}. Never push to main."
            history = (await self.agent.run(prompt, message_history=history)).all_messages()
        return history or []


def read(path: str) -> str:
    """Read a file."""
    return f"{path}: " + "a line of code; " * 20


@asynccontextmanager
async def scripted(settings: Settings | None = None, **options: Any) -> AsyncIterator[Scripted]:
    async with SummarizingCapability(settings or small()) as capability:
        yield Scripted(capability, **options)


def parts(messages: Sequence[ModelMessage], kind: type) -> list[Any]:
    return [part for message in messages for part in message.parts if isinstance(part, kind)]


async def test_each_conversation_has_a_context_of_its_own():
    async with scripted() as run:
        contexts = [await run.context_of(await run.turns(1)) for _ in range(2)]
        assert contexts[0] is not contexts[1]
        assert [len(await context.get_messages()) for context in contexts] == [1 + 6 * 3, 1 + 6 * 3]


async def tell(run: Scripted, number: int) -> None:
    texts = [f"run{number} says {text}. " + "word " * 20 for text in range(100)]
    history: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(text)]) for text in texts]
    await run.agent.run(message_history=history, conversation_id="shared")


@pytest.mark.parametrize("closed", [False, True])
async def test_runs_at_the_same_time_on_one_conversation_are_each_sent_their_own_history(closed):
    """A conversation that is closed meanwhile is not closed within a request."""
    never = ScriptedSummarizer(delay=float("inf"))
    async with SummarizingCapability(small(max_wait=0.05), summarizer=never) as capability:
        run = Scripted(capability, reply=lambda _: ModelResponse(parts=[TextPart("I see.")]))
        async with anyio.create_task_group() as group:
            for number in range(3 if closed else 8):
                group.start_soon(tell, run, number)
                if closed:
                    await anyio.sleep(0.03)
                    await capability.close()
    said = [set(re.findall(r"run\d", str(messages))) for messages in run.seen]
    assert sorted(map(sorted, said)) == [[f"run{number}"] for number in range(3 if closed else 8)]


async def test_the_window_of_the_models_profile_is_the_budget():
    settings = small(max_tokens=100_000, safety_margin=0, reserved_output=0)
    async with scripted(settings, profile={"context_window": 3_000}) as run:
        context = await run.context_of(await run.turns(3))
        assert context.budget().max_tokens <= 3_000
        assert context.statistics().activations >= 1
    async with scripted() as run:
        context = await run.context_of(await run.turns(1))
        assert context.budget().max_tokens == 3_000


async def test_files_go_out_as_they_came_and_their_bytes_stay_out_of_the_log():
    image = BinaryContent(b"\x89PNG" * 2_000, media_type="image/png")
    reply = ModelResponse(parts=[TextPart("A cat.")])
    settings = small(max_tokens=20_000)
    async with scripted(settings, reply=lambda _: reply) as run:
        result = await run.agent.run(["What is this?", image])
        (prompt,) = parts(run.seen[0], UserPromptPart)
        assert prompt.content[1] is image
        context = await run.context_of(result.all_messages())
        assert len(str(await context.get_messages())) < 1_000


async def test_a_model_that_binds_thinking_refuses_no_request_of_a_rewritten_beginning():
    fake = Fake()
    async with served(fake) as upstream, SummarizingCapability(small()) as capability:
        client = AsyncAnthropic(base_url=upstream, api_key="k", max_retries=0)
        model = AnthropicModel("claude-opus-5-5", provider=AnthropicProvider(anthropic_client=client))
        settings: Any = {"anthropic_thinking": {"type": "adaptive"}}
        agent = Agent(model, instructions="You fix code.", capabilities=[capability], model_settings=settings)
        agent.tool_plain(read)
        history: list[ModelMessage] = []
        for turn in range(8):
            history = (await agent.run(f"Fix part {turn}.", message_history=history)).all_messages()
        await client.close()
    assert fake.problems == []


async def test_system_prompts_stay():
    async with scripted(system_prompt="You are careful.") as run:
        await run.turns(4)
        for messages in run.seen:
            assert [part.content for part in parts(messages, SystemPromptPart)] == ["You are careful."]
            assert isinstance(messages[0].parts[0], SystemPromptPart)


@pytest.mark.parametrize(
    ("asked", "mark", "is_cold"),
    [
        ({}, [], True),
        ({"anthropic_cache": "1h"}, [], False),
        ({"anthropic_cache_messages": True}, [], True),
        ({"cache": {"retention": "1h"}}, [], False),
        ({}, [CachePoint(ttl="1h")], False),
    ],
)
async def test_a_cache_lives_as_long_as_the_request_asks_for(asked, mark, is_cold):
    now, said = [0.0], ModelResponse(parts=[TextPart("Yes.")])
    async with SummarizingCapability(small(), clock=lambda: now[0]) as capability:
        model = FunctionModel(lambda messages, info: said, model_name="claude-opus-5-5")
        agent = Agent(model, capabilities=[capability])
        history: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("word " * 60)]) for _ in range(30)]
        for at in (0.0, 1_000.0):
            now[0] = at
            ran = await agent.run(["Go on.", *mark], message_history=history, model_settings=asked, conversation_id="c")
            history = ran.all_messages()
        made = (await capability.context_of("c")).activations()
    assert [one.reason for one in made] == (["idle"] if is_cold else [])
