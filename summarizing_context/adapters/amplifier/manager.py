"""Microsoft Amplifier's contracts for context managers and tools. The host may mount twice, once to validate, so no
file, task or thread comes before the first message."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from summarizing_context.adapters.amplifier import plan as plans
from summarizing_context.adapters.amplifier.events import ANNOUNCED, HostEvents, UsageMeter, as_host_error
from summarizing_context.adapters.amplifier.messages import as_given, as_logged, fit_rows
from summarizing_context.adapters.open_sessions import as_json, bound_thinking, session_id_from
from summarizing_context.assembly import Options
from summarizing_context.commands import CommandResult
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import BudgetError, ContextClosedError, MessageError, SettingsError
from summarizing_context.messages.reading import Message
from summarizing_context.models import read_provider
from summarizing_context.retrieval.tools import compact_tool_schema, memory_tool_schemas, recall_tool_schema
from summarizing_context.sessions.session import Statistics
from summarizing_context.summarizers.host import HostSummarizer
from summarizing_context.summarizers.providers import make_model
from summarizing_context.views.view import ActivationReport

logger = logging.getLogger(__name__)


class AmplifierTool:
    """The host's protocol for tools over one session's context. `schema` is the tool in Anthropic's shape."""

    def __init__(self, schema: dict[str, Any], call: Callable[[object], Awaitable[str]]) -> None:
        self.name: str = schema["name"]
        self.description: str = schema["description"]
        self.input_schema: dict[str, Any] = schema["input_schema"]
        self._call = call

    async def execute(self, input: dict[str, Any]) -> Any:
        """Return the host's `ToolResult`; a failure, such as a closed session, is an error in it and ends no turn."""
        from amplifier_core import ToolResult

        try:
            return ToolResult(success=True, output=await self._call(input))
        except Exception as error:
            return ToolResult(success=False, error={"message": str(error), "type": type(error).__name__})


__amplifier_module_type__ = "context"

_NAME = "context-summarizing"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], Awaitable[None]]:
    """Attach a context manager to the host; returns the cleanup function. `SettingsError` for options refused."""
    manager = SummarizingContextManager(config)
    manager.use_host(coordinator)
    if callable(announce := getattr(coordinator, "register_contributor", None)):
        announce("observability.events", _NAME, lambda: ANNOUNCED)
    await coordinator.mount("context", manager)
    tools = manager.tools()
    for tool in tools:
        await coordinator.mount("tools", tool, name=tool.name)

    async def clean_up() -> None:
        """Unmount the tools that still are what is mounted under their names, and close the manager."""
        for tool in tools:
            if (coordinator.get("tools") or {}).get(tool.name) is tool:
                await coordinator.unmount("tools", name=tool.name)
        await manager.close()

    return clean_up


async def on_session_ready(coordinator: Any) -> None:
    """All modules are mounted: from now on the providers can be asked for their windows."""
    manager = coordinator.get("context")
    if isinstance(manager, SummarizingContextManager):
        manager._providers = lambda: coordinator.get("providers")


class SummarizingContextManager:
    """The host's context manager: our settings by name, and those of Amplifier's own documents.

    `config` is what a mount plan holds; the same options may be given by name. Used by one event loop.
    """

    def __init__(
        self, config: Mapping[str, Any] | None = None, options: Options | None = None, /, **named: Any
    ) -> None:
        self._plan = plans.read_options({**(config or {}), **named} if named else config)
        self._options = options or Options()
        if self._plan.settings.summarizer not in ("extractive", "host"):
            make_model(self._plan.settings, read_only=True)  # told now that none is named, and not at each message
        self._events: HostEvents | None = None
        self._meter = UsageMeter(self._observe)
        self._providers: Callable[[], Any] = dict  # for requests that name none, and for summaries
        self._tools: Callable[[], Any] = dict  # mounted in the host
        self._system_prompt_factory: Callable[[], Any] | None = None  # hooks of the host wrap it under this name
        self._context: SummarizingContext | None = None
        self._turn = asyncio.Lock()  # of who opens or closes it
        self._closing: asyncio.Task[None] | None = None
        self._degraded: str | None = None
        self._loaded = self._resuming = False  # the log was in a file; the host has added nothing to it yet

    @property
    def session_id(self) -> str:
        """The name of the session in its store."""
        return self._plan.settings.session_id

    def tools(self) -> list[AmplifierTool]:
        """Return the tools that the options ask for."""

        async def call(tool: Callable[..., Awaitable[str]], *arguments: Any) -> str:
            return await tool(await self.opened(), *arguments)

        of, plan = SummarizingContext, self._plan
        tools = [AmplifierTool(recall_tool_schema(), partial(call, of.call_recall_tool))] if plan.recall_tool else []
        if plan.compact_tool:
            tools.append(AmplifierTool(compact_tool_schema(), partial(call, of.call_compact_tool)))
        schemas = memory_tool_schemas() if plan.memory_tools else []
        return tools + [AmplifierTool(schema, partial(call, of.call_memory_tool, schema["name"])) for schema in schemas]

    def use_host(self, coordinator: Any) -> None:
        """Take the host's session id, unless the options name one, and its hooks. Before the first use only."""
        host_id = getattr(coordinator, "session_id", None)
        if isinstance(host_id, str) and host_id and not self._plan.names_session:
            settings = replace(self._plan.settings, session_id=session_id_from(host_id))
            self._plan = replace(self._plan, settings=settings)
        if callable(get := getattr(coordinator, "get", None)):
            self._tools = lambda: get("tools")
        hooks = getattr(coordinator, "hooks", None)
        if callable(emit := getattr(hooks, "emit", None)) and self._options.events is None:
            self._events = HostEvents(emit)
            announce = self._events.announce if self._plan.hooks == "await" else self._options.announce
            self._options = replace(self._options, events=self._events, announce=announce)
        if callable(register := getattr(hooks, "register", None)):
            self._meter.listen(register)
        if self._plan.settings.summarizer == "host" and self._options.summarizer is None:
            cancellation = getattr(coordinator, "cancellation", None)
            summarizer = HostSummarizer(
                self._provider,
                model=self._plan.settings.model,
                is_cancelled=lambda: getattr(cancellation, "is_immediate", False) is True,
            )
            if callable(on_cancel := getattr(cancellation, "on_cancel", None)):
                on_cancel(summarizer.cancel)
            self._options = replace(self._options, summarizer=summarizer)

    async def set_system_prompt_factory(self, factory: Callable[[], Any] | None) -> None:
        """Set a function, which may be async, that makes the system prompt of each request; None removes it."""
        if factory is not None and not callable(factory):
            raise SettingsError(f"the system prompt's factory is {type(factory).__name__}; it is a function, or None")
        self._system_prompt_factory = factory

    async def add_message(self, message: Message) -> None:
        """Add a message, with the time in its metadata; values that are no JSON are written down as text first."""
        context = await self.opened()
        metadata = (message.get("metadata") or {}) if isinstance(message, Mapping) else None
        if isinstance(metadata, Mapping) and metadata.get("timestamp") is None:
            moment = datetime.now(UTC).isoformat(timespec="milliseconds")
            message = {**message, "metadata": {**metadata, "timestamp": moment}}
        try:
            await context.add_message(as_logged(message))
        except MessageError:
            message = as_json(message)
            await context.add_message(as_logged(message))
        self._resuming = self._resuming and plans.may_be_missing(message)
        if self._options.events is not None:
            told = {"role": message["role"], "content_length": len(str(message.get("content") or ""))}
            self._options.events.emit("message_added:debug", {**told, "total_messages": len(context)})

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[Message]:
        """The messages of the next request, within the budget, as the host's `Message` and its providers take them.

        Where the host is installed, `BudgetError` is its `ContextLengthError` too.
        """
        context = await self.opened()
        system: Any = None if self._system_prompt_factory is None else self._system_prompt_factory()
        system = await system if inspect.isawaitable(system) else system
        system = None if system is None else str(system)
        if provider is None and token_budget is None:
            provider = self._provider()

        tools: list[dict[str, Any]] = []
        mounted = self._tools()
        for tool in mounted.values() if isinstance(mounted, Mapping) else ():
            try:  # foreign code; the host sends no tool whose definition raises
                schema = getattr(tool, "input_schema", None) or {}
                definition = {"name": tool.name, "description": tool.description, "parameters": schema}
                tools.append(json.loads(json.dumps(definition, allow_nan=False)))
            except Exception as error:
                logger.warning("a mounted tool cannot be counted", extra={"cause": type(error).__name__})
        bound = bound_thinking(read_provider(provider or self._provider()).model)  # the host's providers set the fields

        async def fitted_to(budget: int | None) -> tuple[list[Message], int, int]:
            view = await context.next_view(budget, provider, system=system, tools=tools, bound_thinking=bound)
            rows, extra = fit_rows(view.messages)
            return rows, extra, view.tokens + view.fixed_tokens + extra

        # What fitting adds to a view is small, but for very many calls in flight; where it has no room, the view gets
        # less, until both fit.
        with as_host_error():
            rows, extra, needed = await fitted_to(token_budget)
            budget = room = context.budget().max_tokens
            while extra and needed > budget:
                room = max(room - extra, room // 2)
                try:
                    rows, extra, needed = await fitted_to(room)
                except BudgetError as error:  # the least that is shown at all
                    rows, _, _ = await fitted_to(error.required_tokens)
                    break
        self._meter.note_view()
        if self._plan.preserve_system or not context.explain():
            return rows
        # without the log's leading system rows; a prompt made for this request stays
        first = next((at for at, row in enumerate(rows) if row["role"] not in ("system", "developer")), len(rows))
        return [*rows[: bool(system)], *rows[first:]]

    async def get_messages(self) -> list[Message]:
        """The whole log, as received."""
        return [as_given(row) for row in await (await self.opened()).get_messages()]

    async def set_messages(self, messages: Iterable[Message]) -> None:
        """Replace the log, or follow a transcript of it, as `take_transcript` says."""
        context = await self.opened()
        await plans.take_transcript(context, messages, loaded=self._loaded, resuming=self._resuming)

    async def clear(self) -> None:
        """Empty the log; what it held stays as a checkpoint."""
        context = await self.opened()
        self._resuming = False
        await context.clear()

    async def should_compact(self) -> bool:
        """Whether the next view would begin differently, in nearly all cases because it compacts."""
        context = await self.opened()
        context.expect_provider(self._provider())
        return await context.should_compact()

    async def compact(self, *, focus: str | None = None) -> ActivationReport:
        """Compact now, if that frees anything. The log stays as it is."""
        context = await self.opened()
        context.expect_provider(self._provider())
        with as_host_error():
            return await context.compact(focus=focus)

    async def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until no summary is being made or could be; return whether all are there. See the context's own."""
        return await (await self.opened()).wait_idle(timeout)

    async def handle_command(self, text: str) -> CommandResult:
        """Run a `/context` command; what is wrong with it is told in the result."""
        return await (await self.opened()).handle_command(text)

    def statistics(self) -> Statistics | None:
        """The figures of the session; None before its first use. `store` says so where the file cannot be used."""
        if self._context is None:
            return None
        figures = self._context.statistics()
        return figures if self._degraded is None else replace(figures, store=f"{figures.store} ({self._degraded})")

    async def close(self) -> None:
        """End every task and give up the session, even if the caller is cancelled. May be called twice, or unused."""
        if self._context is not None and self._closing is None:
            self._context.statistics()  # raises in another event loop, where nothing can be closed
        self._meter.close()

        async def end() -> None:
            async with self._turn:
                context, self._context = self._context, None
                try:
                    if context is not None:
                        await context.close()
                finally:
                    if self._events is not None:
                        await self._events.close()

        if self._closing is None:
            self._closing = asyncio.create_task(end())
        await asyncio.shield(self._closing)

    async def opened(self) -> SummarizingContext:
        """The session itself, for all that the host's contract has no name for: pins, ledger, checkpoints, search."""
        if self._context is None:
            async with self._turn:
                if self._closing is not None:
                    raise ContextClosedError("the context manager was cleaned up with its session; mount it again")
                if self._context is None:
                    self._context = await plans.open_session(self._plan, self._options, self._degrade)
                    self._loaded = self._resuming = len(self._context) > 0
        return self._context

    def _degrade(self, reason: str) -> None:
        self._degraded = f"in memory only: {reason}"
        if self._options.events is not None:
            self._options.events.emit("degraded", {"reason": reason})

    async def _observe(self, fresh: int, read: int, written: int, output: int) -> None:
        if self._context is not None:
            await self._context.observe_usage(fresh, cache_read=read, cache_write=written, output_tokens=output)

    def _provider(self) -> Any:
        return plans.choose_provider(self._providers())
