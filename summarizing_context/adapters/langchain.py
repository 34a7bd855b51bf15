"""LangChain and LangGraph: a middleware that sends each model call a view of its history. Its state stays whole.

A row's key is a digest of what its message says, so that a history whose ids are new each time is still the same. What
a view shows as it was is the host's own object again. A context belongs to one event loop, and an agent may be called
from any, or from none; so the sessions have a loop of their own.
"""

from __future__ import annotations

import asyncio
import json
import threading
import weakref
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from contextvars import Context
from typing import Any, TypeVar

from summarizing_context.adapters import open_sessions as shared
from summarizing_context.errors import ContextClosedError, MessageError, MissingExtraError, SettingsError, briefly
from summarizing_context.messages.reading import Message, kind_of, shape_of
from summarizing_context.retrieval.tools import COMPACT_TOOL, answer_compact
from summarizing_context.sessions.session import Statistics
from summarizing_context.settings import Settings
from summarizing_context.summarizers.base import SummaryJob, SummaryReply

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.messages.tool import default_tool_parser
    from langchain_core.messages.utils import convert_to_messages
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError as error:
    raise MissingExtraError("langchain", "the adapter for LangChain needs langchain 1.3 or newer") from error

Result = TypeVar("Result")


def compact_tool() -> StructuredTool:
    """Return `context_compact` for the tools of an agent: a call says that a task is done, so views cover it."""
    name, about, schema = COMPACT_TOOL.schema().values()
    return StructuredTool.from_function(
        lambda **given: answer_compact(given), name=name, description=about, args_schema=schema
    )


class SummarizingMiddleware(AgentMiddleware, AbstractContextManager["SummarizingMiddleware"]):
    """A view of the history for each model call of an agent, within the budget. Nothing waits for a summary.

    `options` are those of `open_context` but `store`; `summarizer` may also be a chat model. At most `open_sessions`
    sessions stay open; the one that was not used for longest is closed.
    Raises `SettingsError`. What a call raises is what `open_context`, `follow` and `get_messages_for_request` raise.
    """

    def __init__(self, settings: Settings | None = None, *, open_sessions: int = 64, **options: Any) -> None:
        super().__init__()
        if isinstance(open_sessions, bool) or not isinstance(open_sessions, int) or open_sessions < 1:
            raise SettingsError(f"open_sessions is {briefly(open_sessions)}; it is a number of sessions, at least 1")
        if isinstance(options.get("summarizer"), BaseChatModel):
            options["summarizer"] = _ChatModelSummarizer(options["summarizer"])
        self._sessions = shared.Sessions(settings, most=open_sessions, **options)
        self._loop = _LoopThread(self._sessions.close)
        weakref.finalize(self, self._loop.end).atexit = False

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        session, shortened = self._loop.submit(lambda: self._shortened(request)).result()
        response = handler(shortened)
        self._loop.submit(lambda: self._observe(session, response)).result()
        return response

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        session, shortened = await asyncio.wrap_future(self._loop.submit(lambda: self._shortened(request)))
        response = await handler(shortened)
        await asyncio.wrap_future(self._loop.submit(lambda: self._observe(session, response)))
        return response

    async def _shortened(self, request: ModelRequest) -> tuple[str, ModelRequest]:
        """Return the session of a request, and the request with its view."""
        rows = list[Message]()
        for at, message in enumerate(request.messages):
            try:
                rows.append(_row_of(message))
            except MessageError as problem:
                raise MessageError(f"message {at}: {problem}") from problem
        keys = [row[shared.KEY] for row in rows]

        # the thread, with a child agent's path in the graph, of which only names count, as the ids behind them are new
        # with each run; then, or without a thread, what its history begins with
        run = getattr(request.runtime, "execution_info", None)
        thread = "" if run is None or run.thread_id is None else str(run.thread_id)
        path = [] if run is None else [step.partition(":")[0] for step in run.checkpoint_ns.split("|")[:-1]]
        own = self._sessions.settings.session_id
        parts = ["langchain" if own == "default" else own, thread, *path]
        session = shared.session_id_from(":".join(parts if thread and not path else [*parts, *(keys[:1] or [""])]))

        # what is sent beside the messages, and what is known of the model
        prompt: Any = None if request.system_message is None else request.system_message.content
        if prompt is not None and not isinstance(prompt, str):  # blocks that are objects
            prompt = [{"type": "text", "text": block} if isinstance(block, str) else block for block in _plain(prompt)]
        tools = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in request.tools]
        model, settings = request.model, request.model_settings or {}
        profile: Mapping[str, Any] = getattr(model, "profile", None) or {}
        limits = profile.get("max_input_tokens"), profile.get("max_output_tokens")
        cache = _cache_asked(prompt, rows, settings)
        provider = shared.model_of(type(model).__name__, _model_name(model), *limits, cache)
        bound = shared.bound_thinking(_model_name(model), settings.get("thinking") or getattr(model, "thinking", None))

        async with self._sessions.use(session) as context:
            await context.follow(rows, keys=keys)
            view = await context.next_view(provider=provider, system=prompt, tools=tools, bound_thinking=bound)
        shown = view.messages[bool(prompt) :]  # without the prompt, which the request carries
        return session, request.override(messages=_messages(shown, rows, request.messages))

    async def _observe(self, session: str, response: Any) -> None:
        found = [response] if isinstance(response, AIMessage) else getattr(response, "result", ())
        told = next((message.usage_metadata for message in found if isinstance(message, AIMessage)), None)
        if told:
            details: Mapping[str, Any] = told.get("input_token_details") or {}
            read, written = details.get("cache_read") or 0, details.get("cache_creation") or 0
            short, long = (details.get(f"ephemeral_{time}_input_tokens") or 0 for time in ("5m", "1h"))
            written = max(written, short + long)  # where both are told, their sum may not be
            counts = {"cache_read": read, "cache_write": written - long, "cache_write_long": long}
            fresh, counts["output_tokens"] = max(0, told["input_tokens"] - read - written), told["output_tokens"]
            async with self._sessions.use(session) as context:
                await context.observe_usage(fresh, **counts)

    def statistics(self) -> dict[str, Statistics]:
        """Return the figures of each open session since it was opened, by session id."""

        async def read() -> dict[str, Statistics]:
            return {name: context.statistics() for name, context in self._sessions.contexts().items()}

        return self._loop.submit(read).result()

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until no open session has a summary to make; return whether all are there. See the context's own."""

        async def wait() -> bool:
            contexts = self._sessions.contexts().values()
            return all(await asyncio.gather(*(context.wait_idle(timeout) for context in contexts)))

        return self._loop.submit(wait).result()

    def close(self) -> None:
        """Close every session, in at most two seconds each. The process may end without it: no message is lost."""
        self._loop.end(waits=True)

    def __exit__(self, *_: object) -> None:
        self.close()


class _LoopThread(threading.Thread):
    """An event loop in a thread, from the first call to `end`. `leave` runs on it at the end."""

    def __init__(self, leave: Callable[[], Awaitable[None]]) -> None:
        super().__init__(daemon=True)
        self._leave = leave
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = False

    def submit(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Future[Result]:
        """Run `work` on the loop. Raise `ContextClosedError`."""
        with self._starting:
            if self._ended or (self._loop is not None and not self.is_alive()):  # a fork leaves threads behind
                raise ContextClosedError("the middleware was closed, or made before a fork; make another one")
            # in an empty context: the caller's would hand the agent's callbacks on to summarizers
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                Context().run(self.start)
            return Context().run(asyncio.run_coroutine_threadsafe, work(), self._loop)

    def run(self) -> None:
        assert self._loop is not None
        self._loop.run_forever()
        self._loop.close()

    def end(self, *, waits: bool = False) -> None:
        """End the loop soon, from any thread. May be called twice."""

        async def stop(loop: asyncio.AbstractEventLoop) -> None:
            try:
                await self._leave()
            finally:
                loop.stop()

        with self._starting:
            if self._loop is not None and not self._ended:
                asyncio.run_coroutine_threadsafe(stop(self._loop), self._loop)
            self._ended = True
        if waits and self._loop is not None:
            self.join()


class _ChatModelSummarizer:
    """Asks the model for each job. Whatever it raises is a failed attempt."""

    def __init__(self, model: BaseChatModel) -> None:
        self._model = model
        self.recipe = f"langchain/{type(model).__name__}/{_model_name(model) or 'default'}"

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        reply = await self._model.ainvoke([SystemMessage(job.instructions), HumanMessage(job.content)])
        usage: Any = reply.usage_metadata or {}
        ended = reply.response_metadata.get("finish_reason") or reply.response_metadata.get("stop_reason")
        return SummaryReply(
            str(reply.text),
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            truncated=ended in ("length", "max_tokens", "MAX_TOKENS", "max_output_tokens"),
            cached_tokens=(usage.get("input_token_details") or {}).get("cache_read"),
        )


def _model_name(model: BaseChatModel) -> str:
    """Return the name that a provider knows the model by; empty where it has none."""
    return str(getattr(model, "model_name", None) or getattr(model, "model", None) or "")


def _cache_asked(prompt: Any, rows: Sequence[Message], settings: Mapping[str, Any]) -> str | None:
    """Return how long a request asks for its beginning to be kept: by OpenAI's fields, or Anthropic's last mark."""
    contents = [content for content in (prompt, *(row["content"] for row in rows)) if isinstance(content, list)]
    marks = [block.get("cache_control") for content in contents for block in content if isinstance(block, dict)]
    marks += [settings.get("cache_control"), settings.get("prompt_cache_options")]
    marks.append({"ttl": settings.get("prompt_cache_retention")})
    told = (mark.get("ttl") for mark in reversed(marks) if isinstance(mark, dict))
    return next((word for word in told if isinstance(word, str)), None)


def _row_of(message: BaseMessage) -> Message:
    """Return a message as a row. Raise `MessageError` for what cannot be one."""
    roles = {HumanMessage: "user", AIMessage: "assistant", ToolMessage: "tool", SystemMessage: "system"}
    role = str(getattr(message, "role", "")) if isinstance(message, ChatMessage) else ""
    if not (role := role or next((role for kind, role in roles.items() if isinstance(message, kind)), "")):
        raise MessageError(f"{type(message).__name__} cannot be sent; human, AI, system, tool and chat messages can")
    role = "developer" if role == "system" else role  # these stay behind the prompt that a request brings
    row: Message = {"role": role, "content": _plain(_said(message))}
    if message.name:
        row["name"] = message.name
    if isinstance(message, AIMessage):
        calls: list[Any] = [*message.tool_calls, *message.invalid_tool_calls]
        for call in calls:
            args = call["args"]  # of an invalid call: no JSON, and sent all the same
            text = args or "" if isinstance(args, str | None) else json.dumps(args, ensure_ascii=False, default=str)
            function = {"name": call["name"] or "", "arguments": text}
            row.setdefault("tool_calls", []).append({"id": call["id"] or "", "type": "function", "function": function})
    elif isinstance(message, ToolMessage):
        row["tool_call_id"] = message.tool_call_id
        if message.status == "error":
            row["status"] = "error"
    return shared.keyed(row, row)


def _plain(content: Any) -> Any:
    """Return a content as the log can hold it. Raise `MessageError` for what is nested too deep."""
    if isinstance(content, str):
        return content
    blocks = []
    for block in content:
        made = shared.as_json(block)
        if isinstance(made, dict) and "type" not in made and made != block:  # bytes, as Bedrock writes files
            made = {"type": next(iter(made)), **made}
        blocks.append(made)
    return blocks


def _said(message: BaseMessage) -> Any:
    """Return a message's content without the calls that stand in its `tool_calls` too."""
    if isinstance(message, AIMessage) and isinstance(message.content, list):
        return [block for block in message.content if not _is_call(block)]
    return message.content


def _is_call(block: object) -> bool:
    """Return whether a block says once more what stands in `tool_calls`."""
    shape = shape_of(block)
    return (shape.kind, shape.bound) == ("call", "host") or kind_of(block) == "invalid_tool_call"


def _messages(view: Sequence[Message], rows: Sequence[Message], given: Sequence[BaseMessage]) -> list[Any]:
    """Return a view's rows as messages; each is the newest message of its key that no later row stands for."""
    places: dict[str, list[int]] = defaultdict(list)
    own: dict[str, Any] = {}  # the host's own blocks, by how the log has them
    for at, (row, message) in enumerate(zip(rows, given, strict=True)):
        places[row[shared.KEY]].append(at)
        if isinstance(row["content"], list):
            pairs = zip(row["content"], _said(message), strict=True)
            own.update((json.dumps(block, sort_keys=True), each) for block, each in pairs if block != each)
    found: list[BaseMessage] = []
    for row in reversed(view):
        known = places.get(row.get(shared.KEY, ""), [-1])
        place = known.pop() if len(known) > 1 else known[0]
        if place >= 0 and row["role"] == rows[place]["role"]:
            found.append(given[place] if row == rows[place] else _changed(given[place], row, own))
        else:  # it is new, such as the header
            made = ("role", "content", "tool_calls", "tool_call_id", "status")
            found += convert_to_messages([{"content": ""} | {name: row[name] for name in made if name in row}])
    return found[::-1]


def _changed(message: BaseMessage, row: Message, own: Mapping[str, Any]) -> BaseMessage:
    """Return the host's message with what a view has changed in its row."""
    content = row.get("content") or ""
    if own and isinstance(content, list):
        content = [own.get(json.dumps(block, sort_keys=True), block) for block in content]
    if not isinstance(message, AIMessage):
        return message.model_copy(update={"content": content})
    valid, invalid = default_tool_parser(row.get("tool_calls") or [])
    if isinstance(message.content, list):  # and behind it the blocks of calls that have stayed
        args = {call["id"]: call["args"] for call in message.tool_calls}
        stayed = {call["id"] for call in valid if args.get(call["id"]) == call["args"]}
        said: list[Any] = [block for block in message.content if isinstance(block, dict) and _is_call(block)]
        if "reasoning" in set(map(kind_of, message.content)) - set(map(kind_of, content)):
            said, content = [], shared.text_of(content)  # what is bound by an id to reasoning goes with it
        blocks = [block for block in said if block.get("call_id", block.get("id")) in stayed]
        if blocks and isinstance(content, str):
            content = [{"type": "text", "text": content}] if content else []
        content = [*content, *blocks] if blocks else content
    as_written = ("tool_calls", "function_call")  # by a provider
    kept = {name: value for name, value in message.additional_kwargs.items() if name not in as_written}
    calls = {"tool_calls": valid, "invalid_tool_calls": invalid}
    return message.model_copy(update={"content": content, **calls, "additional_kwargs": kept})
