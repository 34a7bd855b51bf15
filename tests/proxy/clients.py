"""Sessions of many steps through the providers' own SDKs, as agents have them, and what is said of their requests."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai

from evals.clients.upstream import canonical, kept_items
from summarizing_context import Settings
from summarizing_context.contrib.proxy.server import ProxySettings, serving
from summarizing_context.contrib.serving import bound_socket
from tests.proxy.fake import Fake, served

RESULT = "line of a file: def parse(tokens): return [token for token in tokens if token.kind != 'space']\n" * 12
TOOL = {"name": "read", "description": "Read a file.", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {"name": "read", "description": "Read a file.", "parameters": {"type": "object", "properties": {}}}
OPEN: list[Any] = []  # clients of the SDKs; closed with the proxy


@asynccontextmanager
async def proxied(
    upstream: str, store: Path | str = ":memory:", settings: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[str]:
    """A proxy in front of the provider, by its address."""
    with bound_socket("127.0.0.1", 0) as listening:
        own = Settings(store=str(store), **(settings or {}))
        proxy = ProxySettings(own, anthropic=upstream, openai=upstream, **options)
        async with serving(proxy, listening) as address:
            try:
                yield address
            finally:
                while OPEN:
                    await OPEN.pop().close()


@asynccontextmanager
async def between(fake: Fake | None = None, **options: Any) -> AsyncIterator[tuple[Fake, str]]:
    """A fake provider, and the address of a proxy in front of it."""
    fake = fake or Fake()
    async with served(fake) as fake.address, proxied(fake.address, **options) as address:
        yield fake, address


async def status(address: str) -> dict[str, Any]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{address}/_status")).json()


class Agent:
    """An agent by a provider's SDK: it says something, or gives the results of the calls that wait for them."""

    def __init__(self, sdk: Any, address: str, headers: Mapping[str, str], **options: Any) -> None:
        self.client: Any = sdk(base_url=address, api_key="sk-secret", max_retries=0, default_headers=headers)
        OPEN.append(self.client)
        self.history: list[dict[str, Any]] = []
        self.options = options

    async def step(self, text: str) -> None:
        raise NotImplementedError

    async def steps(self, count: int) -> None:
        for number in range(count):
            await self.step(f"step {number}")


class AnthropicAgent(Agent):
    """It streams, thinks, calls tools, and marks its newest message for the cache."""

    def __init__(self, address: str, session: str | None = "s-1", **options: Any) -> None:
        named = {} if session is None else {"x-claude-code-session-id": session}
        own = {"model": "claude-x", "max_tokens": 1_000, "tools": [TOOL], "system": "You fix code."}
        super().__init__(anthropic.AsyncAnthropic, address, named, **{**own, **options})
        self.interrupts = False  # a person speaks behind the results of each call
        self.reminder = ""  # that stands in the newest message only, as long as it is the newest

    async def step(self, text: str) -> None:
        calls = [b for b in self.history[-1]["content"] if b["type"] == "tool_use"] if self.history else []
        blocks: list[Any] = [{"type": "tool_result", "tool_use_id": call["id"], "content": RESULT} for call in calls]
        blocks += [] if blocks and not self.interrupts else [{"type": "text", "text": text}]
        self.history.append({"role": "user", "content": blocks})
        marked = [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]
        reminded = [{"type": "text", "text": self.reminder}] if self.reminder else []
        sent = [*self.history[:-1], {"role": "user", "content": [*marked, *reminded]}]
        async with self.client.messages.stream(messages=sent, **self.options) as stream:
            message = await stream.get_final_message()
        fields = {"text": ("text",), "thinking": ("thinking", "signature"), "tool_use": ("id", "name", "input")}
        said = [{"type": b.type, **{name: getattr(b, name) for name in fields[b.type]}} for b in message.content]
        self.history.append({"role": "assistant", "content": said})


class ChatAgent(Agent):
    """By Chat Completions. It sends no id of its session."""

    def __init__(self, address: str, **options: Any) -> None:
        own = {"model": "gpt-x", "tools": [{"type": "function", "function": FUNCTION}]}
        super().__init__(openai.AsyncOpenAI, f"{address}/v1", {}, **{**own, **options})
        self.history = [{"role": "system", "content": "You fix code."}]

    async def step(self, text: str) -> None:
        calls = self.history[-1].get("tool_calls") or ()
        rows = [{"role": "tool", "tool_call_id": call["id"], "content": RESULT} for call in calls]
        self.history += rows or [{"role": "user", "content": text}]
        said = (await self.client.chat.completions.create(messages=self.history, **self.options)).choices[0].message
        self.history.append(said.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))


class ResponsesAgent(Agent):
    """By Responses, with encrypted reasoning and no state on the server."""

    def __init__(self, address: str, session: str = "t-1", **options: Any) -> None:
        own = {"model": "gpt-5-codex", "tools": [{"type": "function", **FUNCTION}], "store": False}
        super().__init__(openai.AsyncOpenAI, f"{address}/v1", {"thread-id": session}, **{**own, **options})

    async def step(self, text: str) -> None:
        answered = {item["call_id"] for item in self.history if item["type"].endswith("_output")}
        calls = [item for item in self.history if item["type"] == "function_call" and item["call_id"] not in answered]
        rows = [{"type": "function_call_output", "call_id": call["call_id"], "output": RESULT} for call in calls]
        said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        self.history += rows or [said]
        create = self.client.responses.create
        # as it is: the SDK would walk through all items and their types for each request, for most of the test's time
        reply = await create(extra_body={"input": self.history}, instructions="You fix code.", **self.options)
        self.history += [item.model_dump(exclude_none=True) for item in reply.output]


AGENTS = [AnthropicAgent, ChatAgent, ResponsesAgent]


def begins_with(now: Sequence[Any], before: Sequence[Any]) -> bool:
    return kept_items(list(map(canonical, before)), list(map(canonical, now))) == len(before)


def histories(seen: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """What the provider was sent as history, request by request."""
    return [each["body"].get("messages") or each["body"].get("input") for each in seen]
