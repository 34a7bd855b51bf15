"""Microsoft Amplifier's contract for context managers, over a context that opens at first use.

Mounting builds values only: the host may mount twice, once to validate. No file, task or thread before the first
message. Options are read in `amplifier_options`, events sent in `amplifier_events`, messages fitted in
`amplifier_rows`, the file opened in `amplifier_storage`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from summarizing_context.adapters.amplifier_events import ANNOUNCED, HostEvents
from summarizing_context.adapters.amplifier_options import read_options, session_id_from
from summarizing_context.adapters.amplifier_rows import as_json, as_row
from summarizing_context.adapters.amplifier_storage import open_session
from summarizing_context.assembly import Options
from summarizing_context.context import SummarizingContext
from summarizing_context.core.activation import ActivationReport
from summarizing_context.core.door import Message
from summarizing_context.errors import BudgetError, ContextClosedError, MessageError, WrongEventLoopError
from summarizing_context.statistics import Statistics

__amplifier_module_type__ = "context"

_NAME = "context-summarizing"
_USUAL_PRIORITY = 100  # of a provider that names none; the lowest comes first


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], Awaitable[None]]:
    """Attach a context manager to the host; returns the cleanup function. `SettingsError` for options refused."""
    manager = SummarizingContextManager(config)
    manager.use_host(coordinator)
    if callable(announce := getattr(coordinator, "register_contributor", None)):
        announce("observability.events", _NAME, lambda: list(ANNOUNCED))
    await coordinator.mount("context", manager)
    return manager.close


async def on_session_ready(coordinator: Any) -> None:
    """All modules are mounted: from now on the providers can be asked for their windows."""
    manager = coordinator.get("context")
    if isinstance(manager, SummarizingContextManager):
        manager.use_providers(lambda: coordinator.get("providers"))


class SummarizingContextManager:
    """The host's context manager: our settings by name, and those of Amplifier's own documents.

    `config` is what a mount plan holds; the same options may be given by name. Used by one event loop.
    """

    def __init__(
        self, config: Mapping[str, Any] | None = None, options: Options | None = None, /, **named: Any
    ) -> None:
        self._plan = read_options({**(config or {}), **named} if named else config)
        self._options = options or Options()
        self._events: HostEvents | None = None
        self._providers: Callable[[], Any] | None = None
        self._opening: asyncio.Task[SummarizingContext] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._degraded: str | None = None
        self._closed = False

    @property
    def session_id(self) -> str:
        """The name of the session in its store."""
        return self._plan.settings.session_id

    @property
    def is_ready(self) -> bool:
        """Whether the host has told that all its modules are mounted."""
        return self._providers is not None

    def use_host(self, coordinator: Any) -> None:
        """Take the host's session id, unless the options name one, and its hooks. Before the first use only."""
        host_id = getattr(coordinator, "session_id", None)
        if isinstance(host_id, str) and host_id and not self._plan.names_session:
            settings = replace(self._plan.settings, session_id=session_id_from(host_id))
            self._plan = replace(self._plan, settings=settings)
        emit = getattr(getattr(coordinator, "hooks", None), "emit", None)
        if callable(emit) and self._options.events is None:
            self._events = HostEvents(emit)
            self._options = replace(self._options, events=self._events)

    def use_providers(self, mounted: Callable[[], Any]) -> None:
        """Where to find the host's providers, for requests that name none."""
        self._providers = mounted

    async def add_message(self, message: Message) -> None:
        """Add a message; values that are no JSON are written down as text first."""
        context = await self._context()
        try:
            await context.add_message(message)
        except MessageError:
            await context.add_message(as_json(message))

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[Message]:
        """The messages of the next request, within the budget, each as the host's `Message` accepts it.

        Where the host is installed, `BudgetError` is its `ContextLengthError` too.
        """
        context = await self._context()
        if provider is None and token_budget is None:
            provider = self._first_provider()
        with _as_host_error():
            view = await context.get_messages_for_request(token_budget, provider)
        rows = [as_row(message) for message in view]
        return rows if self._plan.preserve_system or not context.explain() else _without_system(rows)

    async def get_messages(self) -> list[Message]:
        """The whole log, as received."""
        return await (await self._context()).get_messages()

    async def set_messages(self, messages: Iterable[Message]) -> None:
        """Replace the log; summaries whose range still matches are kept."""
        context = await self._context()
        if isinstance(messages, Iterable) and not isinstance(messages, str | bytes | Mapping):
            messages = list(messages)  # read twice where it holds values that are no JSON
        try:
            await context.set_messages(messages)
        except MessageError:
            await context.set_messages(as_json(messages))

    async def clear(self) -> None:
        """Empty the log."""
        await (await self._context()).clear()

    async def should_compact(self) -> bool:
        """Whether the next view would compact."""
        return await (await self._context()).should_compact()

    async def compact(self, *, focus: str | None = None) -> ActivationReport:
        """Compact now, if that frees anything. The log stays as it is."""
        context = await self._context()
        with _as_host_error():
            return await context.compact(focus=focus)

    async def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until no summary is being made or could be."""
        return await (await self._context()).wait_idle(timeout)

    def statistics(self) -> Statistics | None:
        """The figures of the session; None before its first use. `store` says so where the file cannot be used."""
        opening = self._opening
        if opening is None or not opening.done() or opening.cancelled() or opening.exception() is not None:
            return None
        figures = opening.result().statistics()
        return figures if self._degraded is None else replace(figures, store=f"{figures.store} ({self._degraded})")

    async def close(self) -> None:
        """End every task and give up the session. May be called twice, and before the first use; it goes on where
        its caller is cancelled."""
        self._closed = True
        if self._opening is not None:
            self._check_loop(self._opening)
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(self._opening))
        await asyncio.shield(self._closing)

    async def _close(self, opening: asyncio.Task[SummarizingContext] | None) -> None:
        try:
            if opening is not None:
                await asyncio.wait({opening})
                if not opening.cancelled() and opening.exception() is None:
                    await opening.result().close()
        finally:
            self._opening = None
            if self._events is not None:
                await self._events.close()

    async def _context(self) -> SummarizingContext:
        if self._closed:
            raise ContextClosedError("the context manager was cleaned up with its session; mount it again")
        if self._opening is None:
            self._opening = asyncio.create_task(open_session(self._plan, self._options, self._degrade))
        opening = self._opening
        self._check_loop(opening)
        try:
            return await asyncio.shield(opening)
        except Exception:
            if self._opening is opening:
                self._opening = None  # the next call tries again
            raise

    def _check_loop(self, opening: asyncio.Task[SummarizingContext]) -> None:
        if opening.get_loop() is not asyncio.get_running_loop():
            raise WrongEventLoopError("this context manager is used in another event loop; mount one for each loop")

    def _degrade(self, reason: str) -> None:
        self._degraded = f"in memory only: {reason}"
        if self._options.events is not None:
            self._options.events.emit("degraded", {"reason": reason})

    def _first_provider(self) -> Any:
        """The mounted provider that the host would choose first."""
        mounted = self._providers() if self._providers is not None else None
        return min(mounted.values(), key=_priority, default=None) if isinstance(mounted, Mapping) else None


@cache
def _budget_error_class() -> type[BudgetError]:
    try:
        from amplifier_core import ContextLengthError
    except ImportError:
        return BudgetError
    both: type[BudgetError] = type("HostBudgetError", (BudgetError, ContextLengthError), {"__reduce__": _reduce})
    return both


def budget_error(required: int, budget: int, rows: Iterable[tuple[int, int]] = ()) -> BudgetError:
    """A `BudgetError`; where amplifier-core is installed, its `ContextLengthError` too."""
    return _budget_error_class()(required, budget, tuple(rows))


@contextmanager
def _as_host_error() -> Iterator[None]:
    try:
        yield
    except BudgetError as error:
        raise budget_error(error.required_tokens, error.budget_tokens, error.rows) from error


def _reduce(error: BudgetError) -> tuple[Any, ...]:
    return budget_error, (error.required_tokens, error.budget_tokens, error.rows)


def _without_system(rows: list[Message]) -> list[Message]:
    first = next((at for at, row in enumerate(rows) if row["role"] not in ("system", "developer")), len(rows))
    return rows[first:]


def _priority(provider: Any) -> float:
    found = getattr(provider, "priority", None)
    if found is None and isinstance(config := getattr(provider, "config", None), Mapping):
        found = config.get("priority")
    return found if isinstance(found, int | float) and not isinstance(found, bool) else _USUAL_PRIORITY
