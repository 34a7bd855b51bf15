"""OpenAI's own compaction, through the SDK of its agents and its client: the window goes out as it came back."""

from itertools import count
from typing import Any

import pytest

pytest.importorskip("agents")

from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, SQLiteSession, function_tool
from openai import AsyncOpenAI

from summarizing_context.adapters.openai_agents import SummarizingFilter
from tests.behaviour.contexts import tiny
from tests.providers.compacting import Compacting
from tests.providers.server import serving

NUMBERS = count()


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
            session, config = SQLiteSession("s1"), RunConfig(call_model_input_filter=shorten, tracing_disabled=True)
            for turn in range(14):
                prompt = f"Fix part {turn}. Never push to main."
                await Runner.run(agent, prompt, max_turns=30, run_config=config, session=session)
                await (await shorten.context()).wait_idle(5)
            nodes = (await shorten.context()).explain()
    assert provider.refused == []
    assert len(provider.asked) >= 2
    assert provider.carried > 4
    assert any(item.get("type") == "compaction" for asked in provider.asked for item in asked["input"])
    assert all("<summary messages=" in asked["instructions"] for asked in provider.asked)
    assert [node.made_by for node in nodes].count("provider") == 1
