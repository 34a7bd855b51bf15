"""A small Amplifier host for tests: an orchestrator after the contract, a strict provider, tools, in a real session;
and what a provider would refuse, repair or drop of a request."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from types import ModuleType
from typing import Any, ClassVar

from amplifier_core import AmplifierSession, ChatRequest, ChatResponse, Message, ProviderInfo, TextBlock, ToolResult
from amplifier_core.message_models import ToolCall, ToolCallBlock, Usage
from amplifier_core.testing import MockCoordinator

from evals.clients.rules import Seal, problem
from summarizing_context import message_text_parts, mount
from summarizing_context.messages.tokens import estimate_text

Row = dict[str, Any]
ACT = "tool:post"  # the event for which hooks inject
SMALL = {"segment_min": 200, "segment_target": 600, "segment_max": 1200, "summary_max_tokens": 60}


@dataclass(eq=False)
class Loop:
    """Asks the context for a view, the model for an answer, stores it, runs the tools, repeats."""

    cancel_in: tuple[str, ...] = ()  # prompts in the middle of whose tools the user cancels

    async def execute(
        self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any, coordinator: Any = None
    ) -> str:
        provider = next(iter(providers.values()))
        await context.add_message({"role": "user", "content": prompt})
        while True:
            rows = await context.get_messages_for_request(provider=provider)
            request = ChatRequest(messages=[Message(**row) for row in rows])
            rows.append({"role": "user", "content": "a loop appends what it likes"})
            response = await provider.complete(request)
            said: Row = {"role": "assistant", "metadata": response.metadata}
            if not (calls := response.tool_calls):
                text = "".join(block.text for block in response.content if block.type == "text")
                await context.add_message({**said, "content": text})
                return text
            listed = [{"id": call.id, "tool": call.name, "arguments": call.arguments} for call in calls]
            content = [block.model_dump() for block in response.content]
            await context.add_message({**said, "content": content, "tool_calls": listed})
            if prompt in self.cancel_in:
                for call in calls:  # as the host's loops do: results made up, and a last word
                    error = '{"error": "Tool execution was cancelled by user"}'
                    await context.add_message({"role": "tool", "tool_call_id": call.id, "content": error})
                await context.add_message({"role": "assistant", "content": "Cancelled."})
                return "Cancelled."
            results = await asyncio.gather(*(tools[call.name].execute(call.arguments) for call in calls))
            for call, result in zip(calls, results, strict=True):
                row = {"role": "tool", "name": call.name, "tool_call_id": call.id, "content": str(result.output)}
                await context.add_message(row)
            for call in calls:
                told = await hooks.emit(ACT, {"tool_name": call.name})
                await coordinator.process_hook_result(told, ACT, "reminder")


@dataclass(eq=False)
class Model:
    """A provider that calls two tools at once, then one, then answers; it refuses what a real one would."""

    name: ClassVar[str] = "strict"
    window: int = 6_000
    summarize: Callable[[Any], Awaitable[ChatResponse]] | None = None  # answers requests for summaries, kept apart
    factor: float = 1.0  # tokens that it counts for one of ours
    hooks: Any = None  # of the session
    requests: list[list[Row]] = field(default_factory=list)
    summaries: list[Row] = field(default_factory=list)  # the options of each
    calls = sent = largest = 0

    def get_info(self) -> ProviderInfo:
        limits = {"context_window": self.window, "max_output_tokens": 500}
        return ProviderInfo(id="strict", display_name="Strict", defaults=limits)

    async def complete(self, request: Any, **options: Any) -> ChatResponse:
        await self.hooks.emit("llm:request", {"provider": "strict", "message_count": len(request.messages)})
        if self.summarize is not None and "<session_record>" in str(request.messages[-1].content):
            self.summaries.append(options)
            self.sent = cost([message.model_dump() for message in request.messages])
            response = await self.summarize(request)
        else:
            response = self._answer(request)
        tokens = int(self.factor * self.sent)
        response.usage = Usage(input_tokens=tokens, output_tokens=20, total_tokens=tokens + 20)
        usage = {"input_tokens": tokens, "output_tokens": 20, "cache_read_tokens": tokens // 2}
        await self.hooks.emit("llm:response", {"provider": "strict", "status": "ok", "usage": usage})
        return response

    def _answer(self, request: Any) -> ChatResponse:
        read = [_row_of(message.model_dump_json()) for message in request.messages]
        rows = [row for row, _ in read]
        self.requests.append(rows)
        self.sent = sum(tokens for _, tokens in read)
        self.largest = max(self.largest, self.sent)
        assert refusals(rows) == []
        assert self.sent <= self.window - 500
        number = len(self.requests)
        if number % 3 == 0:
            return said(f"Answer {number}.")
        calls = [self._call() for _ in range(3 - number % 3)]
        blocks: list[Any] = [ToolCallBlock(id=call.id, name=call.name, input=call.arguments) for call in calls]
        blocks.insert(-1, TextBlock(text="Let me look."))
        metadata = {"model": "strict-1", "openai:response_id": f"resp_{number}"}
        return ChatResponse(content=blocks, tool_calls=calls, metadata=metadata)

    def _call(self) -> ToolCall:
        self.calls += 1
        return ToolCall(id=f"call_{self.calls}", name="read", arguments={"path": f"src/file_{self.calls}.py"})


def said(text: str, **more: Any) -> ChatResponse:
    return ChatResponse(content=[TextBlock(text=text)], **more)


async def summarized(request: Any) -> ChatResponse:
    """A summary, as a provider would make one; it finds no rules."""
    reads_rules = "### user [1]" in str(request.messages[-1].content)
    return said("none" if reads_rules else "- Files were read, and their lines were listed.")


def long_result(path: str) -> str:
    return "\n".join(f"line {n} of {path}: value_{n} = compute({n}) + offset" for n in range(20))


class Read:
    """A tool whose results are long, unless another function says them."""

    name = "read"
    description = "reads a file"
    input_schema: ClassVar[Row] = {"type": "object", "properties": {"path": {"type": "string"}}}

    def __init__(self, read: Callable[[str], str] = long_result) -> None:
        self.read = read

    async def execute(self, input: Row) -> ToolResult:
        return ToolResult(success=True, output=self.read(input["path"]))


def cost(rows: list[Row]) -> int:
    """Tokens of a request by the built-in estimate, which tests have sessions count by."""
    return sum(4 + sum(map(estimate_text, message_text_parts(row))) for row in rows)


@lru_cache(maxsize=10_000)
def _row_of(data: str) -> tuple[Row, int]:
    """A message of a request, and its cost."""
    row: Row = json.loads(data)
    return row, cost([row])


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what comes by itself."""
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110 - of tasks and threads that end
            await asyncio.sleep(0.01)


def unstamped(rows: list[Row]) -> list[Row]:
    """The rows without the time at which they were added."""
    plain = []
    for row in rows:
        metadata = {key: value for key, value in (row.get("metadata") or {}).items() if key != "timestamp"}
        rest = {key: value for key, value in row.items() if key != "metadata"}
        plain.append({**rest, "metadata": metadata} if metadata else rest)
    return plain


@asynccontextmanager
async def session_of(
    config: Row,
    *,
    model: Any = None,
    session_id: str = "amplifier-test",
    hooks: dict[str, Any] | None = None,
    loop: Loop | None = None,
    tool: Any = None,
    context: Any = "context-summarizing",
    resolver: Any = None,
) -> AsyncIterator[Any]:
    """A real session with our context mounted by its entry point, or as `context` says; cleaned up at the end."""
    provider = model or Model()
    mounts: dict[str, tuple[Any, ...]] = {
        "loop_small": ("orchestrator", loop or Loop()),
        "provider_strict": ("providers", provider, "strict"),
        "tool_read": ("tools", tool or Read(), "read"),
    }
    for name, mounting in mounts.items():
        register(f"amplifier_module_{name}", *mounting)
    plan = {
        "session": {"orchestrator": "loop-small", "context": context},
        "context": {"config": {"token_counter": "estimate", **config}},
        "providers": [{"module": "provider-strict"}],
        "tools": [{"module": "tool-read"}],
    }
    session = AmplifierSession(plan, session_id=session_id)
    provider.hooks = session.coordinator.hooks
    if resolver is not None:
        await session.coordinator.mount("module-source-resolver", resolver)
    for event, handler in (hooks or {}).items():
        session.coordinator.hooks.register(event, handler, 0, event)
    try:
        await session.initialize()
        yield session
    finally:
        await session.cleanup()
        for name in mounts:
            sys.modules.pop(f"amplifier_module_{name}", None)


async def use(session: Any, name: str, **arguments: Any) -> str:
    """What a mounted tool answers."""
    result = await session.coordinator.get("tools")[name].execute(arguments)
    assert isinstance(result, ToolResult)
    assert result.success
    return str(result.output)


@asynccontextmanager
async def mounted(config: Row | None = None, coordinator: Any = None) -> AsyncIterator[Any]:
    """Our context on the host's own test coordinator; cleaned up at the end."""
    coordinator = coordinator or MockCoordinator()
    cleanup = await mount(coordinator, config)
    yield coordinator.get("context")
    await cleanup()


def register(module: str, point: str, what: Any, name: str | None = None) -> None:
    """Let the host find a module under its own naming rule."""

    async def mount_it(coordinator: Any, config: Row | None = None) -> None:
        await coordinator.mount(point, what, name=name)

    sys.modules[module] = ModuleType(module)
    sys.modules[module].mount = mount_it


# What is wrong with a request ---------------------------------------------------------------------------------------

_FRONT = ("system", "developer")
_THINKING = ("thinking", "redacted_thinking", "reasoning")  # signed for the provider that gave it


def refusals(rows: Sequence[Row]) -> list[str]:
    """What the host's loop would raise for, what its two big providers would repair or drop of the rows of a request,
    and what Anthropic would refuse.

    Written from `amplifier-core`'s `Message` and what its providers make of rows; it shares no code with the adapter.
    """
    found = [f"row {at}: {words}" for at, row in enumerate(rows) for words, holds in _losses(row).items() if holds]
    body = {"max_tokens": 1, "tools": [{"name": "read"}], "messages": list(_messages(rows))}
    for check in (
        lambda: [Message(**row) for row in rows],
        lambda: json.dumps(rows, allow_nan=False, ensure_ascii=False).encode(),
    ):
        try:
            check()
        except (ValueError, TypeError) as error:
            found.append(f"no messages of the host: {error}")
    return found + [wrong for wrong in [problem("anthropic", body, Seal(b""))] if wrong]


def _losses(row: Row) -> dict[str, Any]:
    role, blocks = row["role"], _blocks(row)
    calls = [block["id"] for block in blocks if block["type"] == "tool_call"]
    listed = [call.get("id") for call in row.get("tool_calls") or ()]
    kinds = [block["type"] for block in blocks]
    thoughts = [block for block in blocks if block["type"] == "thinking"]
    return {
        f"a {role} row is dropped": role not in (*_FRONT, "user", "assistant", "tool"),
        f"an empty {role} row": not str(row["content"] or "").strip(),
        "calls that are no blocks": role == "assistant" and set(listed) - set(calls),
        f"calls of a {role} row": role != "assistant" and (calls or listed),
        f"a result inside a {role} row": role != "tool" and "tool_result" in kinds,
        "thinking without a signature": any(not (one.get("signature") or one.get("content")) for one in thoughts),
        "an image in an assistant row": role == "assistant" and "image" in kinds,
    }


def _messages(rows: Sequence[Row]) -> Iterator[Row]:
    """The rows as messages of Anthropic: system rows go in front, results of a turn's calls together."""
    talk = (row for row in rows if row["role"] not in _FRONT)
    for role, group in groupby(talk, lambda row: row["role"]):
        if role == "tool":
            said = [(row.get("tool_call_id"), row["content"]) for row in group]
            results = [{"type": "tool_result", "tool_use_id": id, "content": content} for id, content in said]
            yield {"role": "user", "content": results}
            continue
        for row in group:
            yield {"role": role, "content": [_block(one) for one in _blocks(row) if one["type"] not in _THINKING]}
    if rows and rows[-1]["role"] == "assistant":  # which a host goes on from
        yield {"role": "user", "content": "Go on."}


def _block(block: Row) -> Row:
    if block["type"] == "tool_call":
        return {"type": "tool_use", **{name: block[name] for name in ("id", "name", "input")}}
    return {"type": "text", "text": block["text"] if block["type"] == "text" else f"[{block['type']}]"}


def _blocks(row: Row) -> list[Row]:
    content = row["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
