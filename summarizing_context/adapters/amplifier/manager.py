"""Microsoft Amplifier's contracts for context managers and tools. The host may mount twice, once to validate, so no
file, task or thread comes before the first message.

Behind the manager: what a mount plan asks for, the session that it opens, its log in step with the lists that a host
sets, and events. The session is in its file, or in memory. A damaged file, or one that another process writes, is an
error: a log exists, and going on without it would lose it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import stat
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from summarizing_context import settings as rules
from summarizing_context.adapters.amplifier.messages import as_given, as_logged, fit_rows
from summarizing_context.adapters.open_sessions import as_json, bound_thinking, opened_store, session_id_from
from summarizing_context.assembly import Options, start_context
from summarizing_context.commands import CommandResult
from summarizing_context.concurrency import in_turns
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import (
    BudgetError,
    ContextClosedError,
    MessageError,
    SettingsError,
    StoreCorruptError,
    StoreError,
    StoreReadOnlyError,
)
from summarizing_context.log.entries import content_digest
from summarizing_context.messages.reading import Message, decode_message, listed, parse_messages, read_message
from summarizing_context.models import field_of, read_provider
from summarizing_context.retrieval.tools import compact_tool_schema, memory_tool_schemas, recall_tool_schema
from summarizing_context.sessions.session import Statistics
from summarizing_context.settings import Settings, is_address
from summarizing_context.summarizers.host import HostSummarizer, in_summary
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
_sent: ContextVar[object] = ContextVar("view_that_is_sent", default=None)


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
        self._plan = read_options({**(config or {}), **named} if named else config)
        self._options = options or Options()
        if self._plan.settings.summarizer not in ("extractive", "host"):
            make_model(self._plan.settings, read_only=True)  # told now that none is named, and not at each message
        self._events: HostEvents | None = None
        self._view: object = None  # stands for the newest that was handed out, until its answer has come
        self._request_id: Any = None  # of the call that sends it
        self._listening: list[Callable[[], Any]] = []  # ends it
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
            heard = [register(event, self._hear, 0, f"{_NAME} {event}") for event in ("llm:request", "llm:response")]
            self._listening = list(filter(callable, heard))
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
        self._resuming = self._resuming and may_be_missing(message)
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
        next_view = partial(context.next_view, provider=provider, system=system, tools=tools, bound_thinking=bound)

        # What fitting adds to a view is small, but for very many calls in flight; where it has no room, the view gets
        # less, as far as it can.
        with as_host_error():
            view = await next_view(token_budget)
            rows, extra = fit_rows(view.messages)
            budget = context.budget().max_tokens
            if extra and view.tokens + view.fixed_tokens + extra > budget:
                with suppress(BudgetError):
                    rows, _ = fit_rows((await next_view(max(budget - extra, budget // 2))).messages)
        self._view, self._request_id = object(), None  # the caller will send it
        _sent.set(self._view)
        if self._plan.preserve_system or not context.explain():
            return rows
        # without the log's leading system rows; a prompt made for this request stays
        return [*rows[: bool(system)], *dropwhile(may_be_missing, rows)]

    async def get_messages(self) -> list[Message]:
        """The whole log, as received."""
        return [as_given(row) for row in await (await self.opened()).get_messages()]

    async def set_messages(self, messages: Iterable[Message]) -> None:
        """Bring the log in step with `messages`.

        Nothing changes where nothing but system, developer, hook and ephemeral rows is missing. A log from a file stays
        until the host has added a message: the host gives back what it has saved, perhaps less than the log holds, so
        only what it lacks at its end is appended. Else the messages replace what differs; a loaded log keeps its
        leading system rows, unless the messages lead with some. Raises `MessageError`; then nothing has changed.
        """
        context, rows = await self.opened(), list(map(as_logged, listed(messages)))
        log = await context.get_messages()
        try:
            is_same, _ = await _compare(rows, log)
        except MessageError:
            rows = list(map(as_logged, as_json(rows)))
            is_same, _ = await _compare(rows, log)
        if is_same and rows:
            return
        if not self._resuming:
            if self._loaded and not (rows and may_be_missing(rows[0])):
                rows = [*takewhile(may_be_missing, log), *rows]
            await context.follow(rows)
            return

        rows = list(dropwhile(may_be_missing, rows))  # the leading rows of the log stay in front
        _, stop = await _compare(rows, log)
        if stop is None:
            logger.warning("the host's transcript differs from the log of the session, which stays; clear() empties it")
        elif stop < len(rows):
            logger.info("the host's transcript holds more than the log")
            for row in rows[stop:]:
                await context.add_message(row)

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
        while self._listening:
            self._listening.pop()()

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
                    self._context = await self._open()
                    self._loaded = self._resuming = len(self._context) > 0
        return self._context

    async def _open(self) -> SummarizingContext:
        """Return an open context, in memory only where its file cannot be used.

        Where the file is a JSON list of messages, the session is in a store next to it, which imports them once.
        """
        plan, options = self._plan, replace(self._options, keep_system=self._plan.preserve_system)
        if plan.settings.store == _MEMORY or is_address(plan.settings.store) or options.read_only:
            return await start_context(plan.settings, options)
        place, messages = Path(plan.settings.store), list[Any]()
        try:
            if (imported := _read_list(place)) is not None:
                place, messages = place.with_name(f"{place.name}.db"), list(map(as_logged, as_json(imported)))
                async with opened_store(place) as opened:
                    if any(session.messages for session in await opened.sessions()):
                        messages = []
            context = await start_context(replace(plan.settings, store=place), options)
        except StoreReadOnlyError as error:
            if plan.required:
                raise
            self._degraded = f"in memory only: {error}"
            if options.events is not None:
                options.events.emit("degraded", {"reason": str(error)})
            logger.warning("the session is kept in memory only and ends with the process: %s", error)
            with suppress(StoreError):  # there is none, or it cannot be read either; the warning has said so
                async with opened_store(place, read_only=True) as opened:
                    if session := await opened.load(plan.settings.session_id):
                        messages = [decode_message(entry.message) for entry in session.entries]
            context = await start_context(replace(plan.settings, store=_MEMORY), options)
        try:
            if messages:
                await context.set_messages(messages)
        except BaseException:
            await context.close()
            raise
        return context

    async def _hear(self, event: str, data: Mapping[str, Any]) -> None:
        """Take the usage of each view that was sent: fresh, cached and newly cached tokens, and those of the answer."""
        if self._view is None or _sent.get() is not self._view or in_summary.get():
            return  # this flow of calls does not send the newest view, or that has its answer
        usage, known = data.get("usage"), self._request_id
        if event == "llm:request":
            self._request_id = data.get("request_id") if known is None else known
            return
        if known not in (None, data.get("request_id", known)) or not isinstance(usage, Mapping):
            return

        def count(*names: str) -> int:
            return max(0, next((usage[name] for name in names if isinstance(usage.get(name), int)), 0))

        gross = count("input_tokens", "input")
        if gross > 0 and self._context is not None:
            self._view = None
            read = count("cache_read_tokens", "cache_read", "cache_read_input_tokens")
            written = count("cache_write_tokens", "cache_write", "cache_creation_input_tokens")
            counts = {"cache_read": read, "cache_write": written, "output_tokens": count("output_tokens", "output")}
            await self._context.observe_usage(max(0, gross - read), **counts)

    def _provider(self) -> Any:
        return choose_provider(self._providers())


# What a mount plan asks for, and the session that it opens

_MEMORY = ":memory:"

_SAME_AS = {"compact_threshold": "high_water", "compaction_threshold": "high_water", "storage_path": "store"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """The options that are no settings."""

    preserve_system: bool = True  # else leading system rows are left out of views that stand on summaries
    recall_tool: bool = False  # mount the tool `context_recall`
    compact_tool: bool = False  # mount the tool `context_compact`
    memory_tools: bool = False  # mount the tools that remember, search and forget
    hooks: Literal["background", "await"] = "background"  # of a compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class _Persistence:
    """Those in the mapping `persistence`."""

    enabled: bool = True
    path: Annotated[str | Path, Meta(title="a path to a file")] | None = None
    required: bool = False  # no falling back to memory when the file cannot be used


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPlan(_Own):
    settings: Settings
    required: bool = False  # no falling back to memory when the file cannot be used
    names_session: bool = False  # otherwise the host's session gives the name


def read_options(config: Mapping[str, Any] | None) -> MountPlan:
    """Return the options in `config`. Raise `SettingsError` that tells everything that is wrong with them."""
    if config is not None and not isinstance(config, Mapping):
        raise SettingsError(f"the options of a mount plan are a mapping, not {type(config).__name__}")
    flat, problems = rules.flattened(config or {}), list[str]()

    def kept(cls: type, given: Mapping[Any, rules.Given], also: Iterable[str] = ()) -> dict[str, Any]:
        try:
            return rules.accepted(cls, given, also)
        except SettingsError as error:
            problems.extend(error.problems)
            return {}

    # options that are empty, as the host's documents have them, are not said
    known = {*rules.declared(Settings), *_SAME_AS, *rules.declared(_Own), *rules.declared(_Persistence), "persistence"}

    def is_said(key: Any, value: Any) -> bool:
        return key not in known or (value is not None and (key, value) not in (("storage_path", ""), ("path", "")))

    given = {key: one for key, one in flat.items() if is_said(key, one.value)}
    persistence = given.pop("persistence", rules.Given(None, "persistence"))
    inside = {} if persistence.value is None else persistence.value
    if not isinstance(inside, Mapping):
        allowed = f"allowed: a mapping of {', '.join(rules.declared(_Persistence))}"
        problems.append(f"persistence = {rules.shown(inside)} is refused; {allowed}")
        inside = {}
    said = {key: rules.Given(value, f"persistence.{key}") for key, value in inside.items() if is_said(key, value)}
    place = _Persistence(**kept(_Persistence, said))
    own = kept(_Own, {name: given.pop(name) for name in rules.declared(_Own) if name in given})

    # the settings, under whichever of their names they are given
    values = dict[Any, rules.Given]()
    if persistence.value is not None and (place.path is not None or not {"store", "storage_path"} & given.keys()):
        values["store"] = rules.Given(place.path or "~/.amplifier/contexts.db", "persistence.path")
    for key, one in given.items():
        name = _SAME_AS.get(key, key)
        if place.enabled and name in values and values[name].value != one.value:
            problems.append(f"{key} is given twice, as {values[name].label} too; leave one out")
        values[name] = one
    if not place.enabled:
        values["store"] = rules.Given(_MEMORY, "persistence.enabled")
    settings = kept(Settings, values, also=(*_SAME_AS, *rules.declared(_Own), "persistence"))
    if own.get("preserve_system") is False and settings.get("header_role", "user") != "user":
        problems.append(f"preserve_system = False needs header_role = 'user', not {settings['header_role']!r}")
    if problems:
        raise SettingsError(problems)
    names_session = "session_id" in given
    return MountPlan(**own, settings=Settings(**settings), required=place.required, names_session=names_session)


def choose_provider(mounted: Mapping[str, Any] | None) -> Any:
    """Return the provider that the host would choose first, or None."""

    def priority(provider: Any) -> float:
        own, configured = field_of(provider, "priority"), field_of(field_of(provider, "config"), "priority")
        found = configured if own is None else own
        return found if isinstance(found, int | float) and not isinstance(found, bool) else 100

    return min((mounted or {}).values(), key=priority, default=None)


def _read_list(path: Path) -> list[Any] | None:
    """Return the messages where a file is a JSON list, None where it is or may become a store. Raise `StoreError`."""
    try:
        if not path.parent.is_dir():
            raise StoreReadOnlyError(f"{path}: its folder does not exist; create it, or name another")
        if not stat.S_ISREG(path.stat().st_mode):
            raise StoreReadOnlyError(f"{path}: this is not a file; name a file for the store")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreReadOnlyError(f"{path}: it cannot be reached: {error.strerror}; name another file") from error
    beginning = b""
    with suppress(OSError), path.open("rb") as file:
        beginning = file.read(4_096)
    if not beginning.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        return None
    try:
        return list(json.loads(path.read_text(encoding="utf-8-sig")))
    except (ValueError, RecursionError, OSError) as error:
        fault = f"begins like a JSON list but cannot be read ({type(error).__name__})"
        raise StoreCorruptError(f"{path} {fault}; repair it, or name another storage_path") from None


async def _compare(transcript: Iterable[Message], log: Sequence[Message]) -> tuple[bool, int | None]:
    """Compare a host's copy of a conversation with the log, by what the messages say. Raise `MessageError`.

    Return whether they are the same: nothing is missing but what hosts leave out, and ephemeral messages count for
    nothing. Also return how many messages of the copy the log has, from the first on; None where the two differ.
    """
    read = [read_message(message) async for message, _ in in_turns(parse_messages(transcript), 100)]
    places = [at for at, reading in enumerate(read) if not reading.ephemeral]
    said, length = [content_digest(read[at]) for at in places], len(places)
    reached = {0}  # how many of the transcript may have been met, as a row left out can equal one that is not
    was_met = not places  # all of the transcript, at some place of the log
    async for row in in_turns(log, 100):
        reading, metadata = read_message(row), row.get("metadata")
        is_hook = isinstance(metadata, dict) and metadata.get("source") == "hook"
        digest = content_digest(reading)
        met = {at + 1 for at in reached if at < length and said[at] == digest}
        reached = met | reached if may_be_missing(row) or is_hook or reading.ephemeral else met
        if not reached:
            return False, len(read) if was_met else None
        was_met = was_met or length in reached
    return length in reached, len(read) if was_met else [*places, len(read)][max(reached)]


def may_be_missing(message: Any) -> bool:
    """Return whether a host adds such a row by itself, before it gives back a conversation."""
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")


# Events between the host and us: our notices go out in the background, usage of views comes in

_ANNOUNCED = """pre_compact post_compact compaction summary_started summary_ready summary_failed stand_in_used include
memory_stored memory_replaced budget_changed usage_calibrated degraded message_added:debug"""
ANNOUNCED = [f"context:{name}" for name in _ANNOUNCED.split()]

_MOST_WAITING = 256
_SEND_WITHIN = 5.0  # seconds


@contextmanager
def as_host_error() -> Iterator[None]:
    """Let a `BudgetError` out as amplifier-core's `ContextLengthError` too, where that is installed."""
    try:
        yield
    except BudgetError as error:
        try:
            from amplifier_core import ContextLengthError
        except ImportError:
            raise error from None

        class HostBudgetError(BudgetError, ContextLengthError):  # type: ignore[misc]
            pass

        raise HostBudgetError(error.required_tokens, error.budget_tokens, error.rows, error.what) from error


class HostEvents:
    """An `Events` port that hands notices to the host's hooks."""

    def __init__(self, emit: Callable[[str, dict[str, Any]], Awaitable[Any]]) -> None:
        self._emit = emit
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_MOST_WAITING)  # the oldest go first
        self._sender: asyncio.Task[None] | None = None
        self._closed = False

    def emit(self, name: str, data: Mapping[str, Any]) -> None:
        """Queue a notice; return at once, whatever the hooks do."""
        if self._closed or (name.endswith(":debug") and len(self._waiting) > _MOST_WAITING // 2):
            return
        self._waiting.extend(_translated(name, data))
        if self._sender is None or self._sender.done():

            async def send() -> None:
                while self._waiting:
                    await self._hand_over(*self._waiting.popleft())

            self._sender = asyncio.create_task(send(), name="context events")

    async def announce(self, data: Mapping[str, Any]) -> None:
        """Have the hooks act before a compaction: return when they have, or after five seconds."""
        for event, payload in _translated("pre_compact", data):
            await self._hand_over(event, payload)

    async def close(self) -> None:
        """Send what waits, if that is quick, and end the task. May be called twice."""
        self._closed = True
        if self._sender is not None:
            await asyncio.wait({self._sender}, timeout=0.5)
            if self._sender.cancel():
                await asyncio.wait({self._sender}, timeout=0.5)

    async def _hand_over(self, event: str, payload: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(_SEND_WITHIN):
                await self._emit(event, payload)
        except Exception as error:  # a hook is foreign code
            logger.debug("an event was not taken", extra={"event": event, "cause": type(error).__name__})


def _translated(name: str, data: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a notice under the names, and with the fields, that the host's documents give; never a text."""
    plain = (int, float, type(None))
    facts = {key: value if isinstance(value, plain) else str(value)[:300] for key, value in data.items()}
    tokens = facts.get("tokens" if name == "pre_compact" else "tokens_after")
    counts = {"message_count": facts.get("messages"), "tokens": tokens, "token_count": tokens}
    if name == "pre_compact":
        yield "context:pre_compact", counts
    elif name == "activation":
        yield "context:post_compact", counts
        told = {key: value for key, value in facts.items() if key not in ("activated", "messages")}
        yield "context:compaction", {**told, "message_count": facts.get("messages")}
        if header := facts.get("header_tokens"):
            content = f"{facts.get('header_blocks')} summaries, {header} tokens"
            yield "context:include", {"source": "header", "content": content, "tokens": header}
        if facts.get("stand_ins"):
            yield "context:stand_in_used", {"count": facts.get("stand_ins"), "reason": facts.get("reason")}
    else:
        yield f"context:{name}", facts
