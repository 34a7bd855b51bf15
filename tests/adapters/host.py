"""A small Amplifier host for tests: an orchestrator after the contract, a strict provider, tools, in a real session."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, ClassVar

from amplifier_core import AmplifierSession, ChatRequest, ChatResponse, Message, ProviderInfo, TextBlock, ToolResult
from amplifier_core.message_models import ToolCall, ToolCallBlock

from summarizing_context import message_text_parts
from summarizing_context.core.estimate import estimate_text

Row = dict[str, Any]


class Loop:
    """Asks the context for a view, the model for an answer, stores it, runs the tools, repeats."""

    async def execute(
        self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any, coordinator: Any = None
    ) -> str:
        provider = next(iter(providers.values()))
        await context.add_message({"role": "user", "content": prompt})
        while True:
            rows = await context.get_messages_for_request(provider=provider)
            response = await provider.complete(ChatRequest(messages=[Message(**row) for row in rows]))
            content = [block.model_dump() for block in response.content]
            if not response.tool_calls:
                text = "".join(block["text"] for block in content)
                await context.add_message({"role": "assistant", "content": text, "metadata": response.metadata})
                return text
            calls = response.tool_calls
            listed = [{"id": call.id, "tool": call.name, "arguments": call.arguments} for call in calls]
            await context.add_message(
                {"role": "assistant", "content": content, "tool_calls": listed, "metadata": response.metadata}
            )
            results = await asyncio.gather(*(tools[call.name].execute(call.arguments) for call in calls))
            for call, result in zip(calls, results, strict=True):
                await context.add_message({"role": "tool", "tool_call_id": call.id, "content": str(result.output)})


class Model:
    """A provider that calls two tools at once, then one, then answers; it refuses what a real one would."""

    name = "strict"

    def __init__(self, window: int = 6_000, output: int = 500) -> None:
        self.window, self.output = window, output
        self.requests: list[list[Row]] = []
        self.calls = self.step = 0

    def get_info(self) -> ProviderInfo:
        limits = {"context_window": self.window, "max_output_tokens": self.output}
        return ProviderInfo(id="strict", display_name="Strict", defaults=limits)

    async def complete(self, request: Any, **_: Any) -> ChatResponse:
        rows = [message.model_dump() for message in request.messages]
        self.requests.append(rows)
        problems = list(refusals(rows, self.window - self.output))
        assert problems == [], problems
        self.step = (self.step + 1) % 3
        if self.step == 0:
            return ChatResponse(content=[TextBlock(text=f"Answer {len(self.requests)}.")])
        calls = [self._call() for _ in range(3 - self.step)]
        blocks = [ToolCallBlock(id=call.id, name=call.name, input=call.arguments) for call in calls]
        said = TextBlock(text="Let me look.")
        return ChatResponse(content=[said, *blocks], tool_calls=calls, metadata={"model": "strict-1"})

    def _call(self) -> ToolCall:
        self.calls += 1
        return ToolCall(id=f"call_{self.calls}", name="read", arguments={"path": f"src/file_{self.calls}.py"})


class Read:
    """A tool whose results are long."""

    name = "read"
    description = "reads a file"
    input_schema: ClassVar[Row] = {"type": "object", "properties": {"path": {"type": "string"}}}

    async def execute(self, input: Row) -> ToolResult:
        lines = [f"line {n} of {input['path']}: value_{n} = compute({n}) + offset" for n in range(20)]
        return ToolResult(success=True, output="\n".join(lines))


def refusals(rows: list[Row], window: int) -> list[str]:
    """Why a real provider would refuse these messages."""
    found = []
    tokens = sum(4 + sum(map(estimate_text, message_text_parts(row))) for row in rows)
    if tokens > window:
        found.append(f"{tokens} tokens do not fit {window}")
    open_calls: set[str] = set()
    for row in rows:
        if row["role"] == "tool":
            if row["tool_call_id"] not in open_calls:
                found.append(f"a result without its call: {row['tool_call_id']}")
            open_calls.discard(row["tool_call_id"])
            continue
        if open_calls:
            found.append(f"calls without results: {sorted(open_calls)}")
        content = row["content"] if isinstance(row["content"], list) else []
        open_calls = {block["id"] for block in content if block["type"] == "tool_call"}
    return found + ([f"calls without results: {sorted(open_calls)}"] if open_calls else [])


@asynccontextmanager
async def session_of(
    config: Row, *, model: Model | None = None, session_id: str = "amplifier-test", hooks: dict[str, Any] | None = None
) -> AsyncIterator[Any]:
    """A real session with our context mounted by its entry point; cleaned up at the end."""
    provider = model or Model()
    mounts = {
        "loop_small": lambda coordinator: coordinator.mount("orchestrator", Loop()),
        "provider_strict": lambda coordinator: coordinator.mount("providers", provider, name="strict"),
        "tool_read": lambda coordinator: coordinator.mount("tools", Read(), name="read"),
    }
    names = [_register(name, mounting) for name, mounting in mounts.items()]
    plan = {
        "session": {"orchestrator": "loop-small", "context": "context-summarizing"},
        "context": {"config": config},
        "providers": [{"module": "provider-strict"}],
        "tools": [{"module": "tool-read"}],
    }
    session = AmplifierSession(plan, session_id=session_id)
    for event, handler in (hooks or {}).items():
        session.coordinator.hooks.register(event, handler, 0, event)
    try:
        await session.initialize()
        yield session
    finally:
        await session.cleanup()
        for name in names:
            sys.modules.pop(name, None)


def _register(name: str, mounting: Callable[[Any], Any]) -> str:
    """Let the host find a module under its own naming rule."""

    async def mount(coordinator: Any, config: Row | None = None) -> None:
        await mounting(coordinator)

    module = ModuleType(f"amplifier_module_{name}")
    module.mount = mount  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    return module.__name__
