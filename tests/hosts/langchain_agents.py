"""Agents of LangChain's with a scripted model, and a judge of what that model was sent."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, convert_to_openai_messages
from langchain_core.tools import tool

from tests.laws.builders import count
from tests.laws.checkers import tool_safe_problems

BUDGET = 4_000
SMALL = {"max_tokens": BUDGET, "segment_min": 200, "segment_target": 400, "segment_max": 800}


class ScriptedModel(GenericFakeChatModel):
    """Says what the script says, and keeps each request."""

    requests: list[list[BaseMessage]] = []  # noqa: RUF012 - a field of pydantic's, copied for each model
    model_name: str = "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *rest: Any, **named: Any) -> Any:
        self.requests.append(messages)
        return super()._generate(messages, *rest, **named)


class SummaryModel(ScriptedModel):
    """Makes every summary alike, and finds no standing rule."""

    messages: Any = iter(())
    text: str = "- files were read"

    def _generate(self, messages: list[BaseMessage], *rest: Any, **named: Any) -> Any:
        reads_rules = str(messages[-1].content).startswith("### user [")
        self.messages = iter([AIMessage("none" if reads_rules else self.text)])
        return super()._generate(messages, *rest, **named)


class Sent(AgentMiddleware):
    """Stands behind ours, and keeps what the request and the state of each call hold."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[list[BaseMessage], list[BaseMessage]]] = []
        self.requests: list[Any] = []

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.requests.append(request)
        self.calls.append((list(request.messages), list(request.state["messages"])))
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.calls.append((list(request.messages), list(request.state["messages"])))
        return await handler(request)


@tool(response_format="content_and_artifact")
def read(path: str) -> tuple[str, dict[str, str]]:
    """Read a file."""
    return f"{path}: " + "a line of code; " * 40, {"path": path}


def calls(*paths: str, text: str = "I read on.") -> AIMessage:
    """A reply with signed thinking, usage, and one call a path, all at once."""
    made = [{"name": "read", "args": {"path": path}, "id": f"call_{path}"} for path in paths]
    blocks = [{"type": "tool_use", "id": call["id"], "name": "read", "input": call["args"]} for call in made]
    thinking = {"type": "thinking", "thinking": "Which one?", "signature": "c2lnbmVk"}
    return AIMessage(
        [thinking, {"type": "text", "text": text}, *blocks],
        tool_calls=made,
        usage_metadata={"input_tokens": 900, "output_tokens": 20, "total_tokens": 920},
    )


def always(text: str) -> Iterator[AIMessage]:
    while True:
        yield AIMessage(text)


def working(turns: int = 100, steps: int = 6) -> Iterator[AIMessage]:
    """In each turn so many replies with two parallel calls, then an answer."""
    for turn in range(turns):
        for step in range(steps):
            yield calls(f"src/a{turn}_{step}.py", f"src/b{turn}_{step}.py")
        yield AIMessage(f"Part {turn} is done.")


def problems(request: Sequence[BaseMessage], budget: int = BUDGET) -> list[str]:
    """What is wrong with a request, as LangChain itself would write it for OpenAI."""
    rows = convert_to_openai_messages([message for message in request if not isinstance(message, SystemMessage)])
    found = tool_safe_problems(rows)
    if rows[0]["role"] != "user":
        found.append(f"the first row is {rows[0]['role']}'s")
    if (size := sum(count(json.dumps(row["content"])) for row in rows)) > budget * 1.2:
        found.append(f"{size} tokens")
    return found
