"""OpenHands' LLMSummarizingCondenser over a view of events, as its agent does: condense, append the event, again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

os.environ.update(
    LITELLM_LOCAL_MODEL_COST_MAP="True", OPENHANDS_SUPPRESS_BANNER="1", ALLOW_SHORT_CONTEXT_WINDOWS="true"
)

from openhands.sdk import LLM
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.view import View
from openhands.sdk.event import ActionEvent, MessageEvent, ObservationEvent, SystemPromptEvent
from openhands.sdk.event.base import LLMConvertibleEvent
from openhands.sdk.event.condenser import Condensation
from openhands.sdk.llm import Message as LLMMessage
from openhands.sdk.llm import MessageToolCall, TextContent
from openhands.sdk.tool.schema import Action, Observation
from pydantic import PrivateAttr

from evals.performance.manager import TRIGGER, Manager, OneByOne, Setup
from evals.performance.tokens import Message, render, total_tokens

TRIES = 10  # condensations in one step


class ReadAction(Action):
    path: str = ""
    q: str = ""


class ReadObservation(Observation):
    @property
    def to_llm_content(self) -> Any:
        return self.content


class FakeLLM(LLM):
    """An LLM over the fake model, that counts as everybody here."""

    _fake: Any = PrivateAttr(default=None)

    def get_token_count(self, messages: Any, *_: Any, **__: Any) -> int:
        return total_tokens(_plain(messages))

    async def agenerate(self, messages: Any, *_: Any, **__: Any) -> Any:
        text = await self._fake.summarize(render(_plain(messages)))
        return SimpleNamespace(message=LLMMessage(role="assistant", content=[TextContent(text=text)]), id="reply")


class OpenHands(OneByOne):
    """The events of one conversation."""

    def __init__(self, llm: FakeLLM, condenser: LLMSummarizingCondenser) -> None:
        self.llm, self.condenser = llm, condenser
        self.seen = View()
        self.actions: dict[str, Any] = {}
        self.replies = 0

    def taken(self, message: Message) -> list[Any]:
        """The events of one message: one for each call."""
        text = TextContent(text=message["content"])
        if message["role"] == "system":
            return [SystemPromptEvent(source="agent", system_prompt=text, tools=[])]
        if message["role"] == "tool":
            return [self._observation(message["tool_call_id"], text)]
        if message.get("tool_calls"):
            self.replies += 1
            return [self._action(call, [] if at else [text]) for at, call in enumerate(message["tool_calls"])]
        said = LLMMessage(role=message["role"], content=[text])
        return [MessageEvent(source="user" if message["role"] == "user" else "agent", llm_message=said)]

    async def add(self, message: list[Any]) -> None:
        for event in message:
            self.seen.append_event(event)

    async def view(self) -> Sequence[Any]:
        for _ in range(TRIES):
            result = await self.condenser.acondense(self.seen, agent_llm=self.llm)
            if not isinstance(result, Condensation):
                return list(LLMConvertibleEvent.events_to_messages(result.events))
            self.seen.append_event(result)
        raise RuntimeError(f"still condensing after {TRIES} condensations")

    def shown(self, view: Any) -> list[Message]:
        return _plain(view)

    def _action(self, call: Message, thought: list[Any]) -> ActionEvent:
        arguments = call["function"]["arguments"]
        event = ActionEvent(
            source="agent",
            thought=thought,
            action=ReadAction(**json.loads(arguments)),
            tool_name="read_file",
            tool_call_id=call["id"],
            llm_response_id=f"reply{self.replies}",
            tool_call=MessageToolCall(id=call["id"], name="read_file", arguments=arguments, origin="completion"),
        )
        self.actions[call["id"]] = event
        return event

    def _observation(self, call: str, text: TextContent) -> ObservationEvent:
        return ObservationEvent(
            source="environment",
            tool_name="read_file",
            tool_call_id=call,
            action_id=self.actions.pop(call).id,
            observation=ReadObservation(content=[text]),
        )


async def open_manager(setup: Setup) -> Manager:
    llm = FakeLLM(model="fake/model", usage_id="agent", api_key=None, max_input_tokens=setup.budget)
    llm._fake = setup.model
    tokens = int(setup.keep or setup.budget * TRIGGER)
    return OpenHands(llm, LLMSummarizingCondenser(llm=llm, max_tokens=tokens))


def _plain(messages: Iterable[Any]) -> list[Message]:
    rows: list[Message] = []
    for message in messages:
        text = "".join(part.text for part in message.content if isinstance(part, TextContent))
        row: Message = {"role": message.role, "content": text}
        if message.tool_calls:
            row["tool_calls"] = [_plain_call(call) for call in message.tool_calls]
        if message.tool_call_id:
            row["tool_call_id"] = message.tool_call_id
        rows.append(row)
    return rows


def _plain_call(call: Any) -> Message:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
