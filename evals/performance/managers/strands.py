"""Strands' SummarizingConversationManager, asked before the request by the hook of the agent loop."""

from typing import Any

from strands import Agent
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.hooks.events import BeforeModelCallEvent
from strands.models.model import Model

from evals.performance.managers import TRIGGER, Manager
from evals.performance.tokens import Message, calls_of, message_tokens, render, rows_of


class ChatModel(Model):
    """A model whose answers are the fake summarizer's."""

    def __init__(self, manager: Manager) -> None:
        self.manager, self.config = manager, {"context_window_limit": manager.budget}

    def update_config(self, **_: Any) -> None:
        return None

    def get_config(self) -> Any:
        return self.config

    async def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, tool_specs: Any = None, system_prompt: str | None = None, **_: Any) -> Any:
        text = await self.manager.model.summarize(f"{system_prompt}\n{render(self.manager.rows(messages))}")
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


class Adapter(Manager):
    """The messages of an agent."""

    async def open(self) -> None:
        manager = SummarizingConversationManager(proactive_compression={"compression_threshold": TRIGGER})
        self.agent = Agent(model=ChatModel(self), callback_handler=None, conversation_manager=manager)

    async def append(self, message: Message) -> None:
        messages, role, text = self.agent.messages, message["role"], {"text": message["content"]}
        if role == "tool":
            result = {"toolUseId": message["tool_call_id"], "status": "success", "content": [text]}
            if "toolResult" not in messages[-1]["content"][0]:
                messages.append({"role": "user", "content": []})
            messages[-1]["content"].append({"toolResult": result})
        else:
            calls: Any = ({"toolUseId": id, "name": name, "input": given} for id, name, given in calls_of(message))
            messages.append({"role": role, "content": [text, *({"toolUse": call} for call in calls)]})

    async def view(self) -> list[Any]:
        tokens = sum(map(message_tokens, self.shown(self.agent.messages)))
        event = BeforeModelCallEvent(agent=self.agent, projected_input_tokens=tokens)
        await self.agent.hooks.invoke_callbacks_async(event)
        return list(self.agent.messages)

    def plain(self, message: Any) -> list[Message]:
        content = message["content"]
        results = [block["toolResult"] for block in content if "toolResult" in block]
        answers = [(one["toolUseId"], "".join(part.get("text", "") for part in one["content"])) for one in results]
        text = "".join(block["text"] for block in content if "text" in block)
        calls = [block["toolUse"] for block in content if "toolUse" in block]
        asked = [(call["toolUseId"], call["name"], call["input"]) for call in calls]
        return rows_of(message["role"], text, asked, answers)
