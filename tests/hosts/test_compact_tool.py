"""`context_compact` as a tool of each framework's own: the view after a call shows summaries of what came before it."""

import json
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings
from tests.hosts.contract.script import PROMPT, SIZES

NAME, KEPT = "context_compact", "Port 6543."
PROMPTS = [f"Look at file {at}. " + "It is part of the cache of this module. " * 8 for at in range(8)]


def settings(folder: Path) -> Settings:
    """Settings under which a view of all prompts fits."""
    return Settings(store=folder / "a.db", session_id="done", **SIZES)


async def langchain(folder: Path) -> Any:
    pytest.importorskip("langchain")
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage

    from summarizing_context.adapters.langchain import SummarizingMiddleware, compact_tool
    from tests.hosts.contract.langchain_host import CONFIG, Model, row_of

    class Script:
        def reply(self, sent: list[Any]) -> Any:
            seen.append(" ".join(f"{row.text} {row.calls}" for row in sent))
            return next(said)

    seen, call = list[str](), {"name": NAME, "args": {"keep": KEPT}, "id": "c1"}
    said = map(row_of, [*(AIMessage("Done.") for _ in PROMPTS), AIMessage("", tool_calls=[call]), AIMessage("Next.")])
    with SummarizingMiddleware(settings(folder)) as middleware:
        agent: Any = create_agent(
            Model(conversation=Script()), [compact_tool()], system_prompt=PROMPT, middleware=[middleware]
        )
        history: list[Any] = []
        for prompt in [*PROMPTS, "Now the next task."]:
            history = (await agent.ainvoke({"messages": [*history, ("user", prompt)]}, CONFIG))["messages"]
        return seen, next(iter(middleware.statistics().values()))


async def pydantic_ai(folder: Path) -> Any:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from summarizing_context.adapters.pydantic_ai import SummarizingCapability, compact_tool

    def reply(messages: list[Any], info: Any) -> ModelResponse:
        seen.append(json.dumps(messages, default=str))
        return ModelResponse(parts=[next(said)])

    seen = list[str]()
    said = iter([*(TextPart("Done.") for _ in PROMPTS), ToolCallPart(NAME, {"keep": KEPT}, "c1"), TextPart("Next.")])
    async with SummarizingCapability(settings(folder)) as capability:
        agent, history = Agent(FunctionModel(reply), tools=[compact_tool()], capabilities=[capability]), []
        for prompt in [*PROMPTS, "Now the next task."]:
            run = await agent.run(prompt, message_history=history, conversation_id="done")
            history = run.all_messages()
        return seen, (await capability.context_of("done")).statistics()


async def openai_agents(folder: Path) -> Any:
    pytest.importorskip("agents")
    from agents import Agent, RunConfig, Runner, SQLiteSession
    from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

    from summarizing_context.adapters.openai_agents import SummarizingFilter, compact_tool

    def respond(call: Any) -> ModelStep:
        seen.append(json.dumps(call.input, default=str))
        return ModelStep(output=[next(said)])

    seen, call = list[str](), function_call(NAME, {"keep": KEPT}, call_id="c1")
    said = iter([*(assistant_message("Done.") for _ in PROMPTS), call, assistant_message("Next.")])
    async with SummarizingFilter(settings(folder)) as shorten:
        agent = Agent(name="coder", tools=[compact_tool()], model=ScriptedModel([ModelStep.respond(respond)] * 20))
        config: Any = {"run_config": RunConfig(call_model_input_filter=shorten, tracing_disabled=True)}
        config["session"] = SQLiteSession("done", folder / "session.db")
        for prompt in [*PROMPTS, "Now the next task."]:
            await Runner.run(agent, prompt, **config)
        return seen, (await shorten.context()).statistics()


@pytest.mark.parametrize("run", [langchain, pydantic_ai, openai_agents])
async def test_a_call_of_the_tool_ends_a_task(run: Any, tmp_path: Path):
    seen, statistics = await run(tmp_path)
    assert statistics.activations_by_reason == {"explicit": 1}
    before, after = seen[-2:]
    assert PROMPTS[4] in before.replace("\\n", "\n")
    assert PROMPTS[4] not in after
    assert "<history>" in after
    assert KEPT in after
