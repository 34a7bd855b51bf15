"""strands' SummarizingConversationManager, compressing proactively in the agent's hook before a model call."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from strands import Agent
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.hooks.events import BeforeModelCallEvent
from strands.models.model import Model

from evals.performance.fake_model import FakeModel
from evals.performance.manager import Manager, OneByOne, Setup
from evals.performance.tokens import Message, render, total_tokens

TUNED_THRESHOLD = 0.85  # of the window


class FakeProvider(Model):
    """A provider over the fake model, with a context window."""

    def __init__(self, fake: FakeModel, window: int) -> None:
        self.fake, self.told = fake, {"context_window_limit": window}

    def update_config(self, **told: Any) -> None:
        self.told.update(told)

    def get_config(self) -> dict[str, Any]:
        return self.told

    async def structured_output(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("summaries are plain text")
        yield

    async def stream(
        self, messages: Sequence[Any], tool_specs: Any = None, system_prompt: str | None = None, **_: Any
    ) -> AsyncIterator[dict[str, Any]]:
        text = await self.fake.summarize(f"{system_prompt or ''}\n{render(_plain(messages))}")
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


class Strands(OneByOne):
    """The agent's own list of messages. Tokens of a message are counted once, as a provider's usage would tell."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.system: list[Message] = []

    def taken(self, message: Message) -> Any:
        if message["role"] == "system":
            return message
        if message["role"] == "tool":
            result = {"toolUseId": message["tool_call_id"], "status": "success"}
            return {"toolResult": {**result, "content": [{"text": message["content"]}]}}
        uses = [{"toolUse": _use(call)} for call in message.get("tool_calls") or ()]
        return {"role": message["role"], "content": [{"text": message["content"]}, *uses]}

    async def add(self, message: Any) -> None:
        rows = self.agent.messages
        if message.get("role") == "system":
            self.system.append(message)
        elif "toolResult" not in message:
            rows.append(message)
        elif rows[-1]["role"] == "user" and "toolResult" in rows[-1]["content"][0]:
            rows[-1]["content"].append(message)
        else:
            rows.append({"role": "user", "content": [message]})

    async def view(self) -> list[Any]:
        tokens = total_tokens([*self.system, *_plain(self.agent.messages)])
        event = BeforeModelCallEvent(agent=self.agent, projected_input_tokens=tokens)
        await self.agent.hooks.invoke_callbacks_async(event)
        return list(self.agent.messages)

    def shown(self, view: Any) -> list[Message]:
        return [*self.system, *_plain(view)]


async def open_manager(setup: Setup) -> Manager:
    if setup.keep is None:
        conversation = SummarizingConversationManager(proactive_compression=True)
    else:
        conversation = SummarizingConversationManager(
            1 - setup.keep, proactive_compression={"compression_threshold": TUNED_THRESHOLD}
        )
    model = FakeProvider(setup.model, setup.budget)
    return Strands(Agent(model=model, callback_handler=None, conversation_manager=conversation))


def _use(call: Message) -> dict[str, Any]:
    function = call["function"]
    return {"toolUseId": call["id"], "name": function["name"], "input": json.loads(function["arguments"])}


def _plain(rows: Sequence[Any]) -> Iterator[Message]:
    for row in rows:
        text = "".join(block["text"] for block in row["content"] if "text" in block)
        if row["role"] == "assistant":
            calls = [_plain_call(block["toolUse"]) for block in row["content"] if "toolUse" in block]
            yield {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {})
            continue
        for block in row["content"]:
            if "toolResult" in block:
                result = block["toolResult"]
                content = "".join(part.get("text", "") for part in result["content"])
                yield {"role": "tool", "tool_call_id": result["toolUseId"], "content": content}
        if text:
            yield {"role": "user", "content": text}


def _plain_call(use: Any) -> Message:
    function = {"name": use["name"], "arguments": json.dumps(use["input"])}
    return {"id": use["toolUseId"], "type": "function", "function": function}
