"""Microsoft Amplifier's contract for context managers, over a context that opens at first use.

Mounting builds values only: the host may mount twice, once to validate. No file, task or thread before the first
message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from summarizing_context.assembly import Options, start_context
from summarizing_context.context import SummarizingContext
from summarizing_context.core.activation import ActivationReport
from summarizing_context.core.door import Message
from summarizing_context.errors import ContextClosedError, SettingsError
from summarizing_context.settings import Settings
from summarizing_context.statistics import Statistics

__amplifier_module_type__ = "context"

_SAME_AS = {"compact_threshold": "high_water", "compaction_threshold": "high_water", "storage_path": "store"}


class SummarizingContextManager:
    """The host's context manager. Takes the settings by name, and those of Amplifier's own documents."""

    def __init__(self, options: Options | None = None, **config: Any) -> None:
        self._settings = settings_from(config)
        self._options = options or Options()
        self._opening: asyncio.Task[SummarizingContext] | None = None
        self._closed = False

    async def add_message(self, message: Message) -> None:
        """Add a message; values that are no JSON are written down as text first."""
        await (await self._context()).add_message(_as_json(message))

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[Message]:
        """The messages of the next request, within the budget."""
        return await (await self._context()).get_messages_for_request(token_budget, provider)

    async def get_messages(self) -> list[Message]:
        """The whole log."""
        return await (await self._context()).get_messages()

    async def set_messages(self, messages: Iterable[Message]) -> None:
        """Replace the log."""
        await (await self._context()).set_messages([_as_json(message) for message in messages])

    async def clear(self) -> None:
        """Empty the log."""
        await (await self._context()).clear()

    async def should_compact(self) -> bool:
        """Whether the next view would compact."""
        return await (await self._context()).should_compact()

    async def compact(self, *, focus: str | None = None) -> ActivationReport:
        """Compact now, if that frees anything."""
        return await (await self._context()).compact(focus=focus)

    async def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until no summary is being made or could be."""
        return await (await self._context()).wait_idle(timeout)

    def statistics(self) -> Statistics | None:
        """The figures of the session; None before its first use."""
        if self._opening is None or not self._opening.done() or self._opening.exception() is not None:
            return None
        return self._opening.result().statistics()

    def use_session(self, session_id: str) -> None:
        """Name the session, unless the configuration did. Before the first use only."""
        if self._opening is None and self._settings.session_id == Settings().session_id:
            self._settings = replace(self._settings, session_id=session_id)

    async def close(self) -> None:
        """End every task and give up the session. May be called twice, and before the first use."""
        self._closed = True
        opening, self._opening = self._opening, None
        if opening is not None:
            await asyncio.wait({opening})
            if not opening.cancelled() and opening.exception() is None:
                await opening.result().close()

    async def _context(self) -> SummarizingContext:
        if self._closed:
            raise ContextClosedError("the context manager was cleaned up with its session")
        if self._opening is None:
            self._opening = asyncio.create_task(start_context(self._settings, self._options))
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except Exception:
            if self._opening is opening:
                self._opening = None  # the next call tries again
            raise


def settings_from(config: Mapping[str, Any]) -> Settings:
    """Settings from a mount plan's options; raises `SettingsError` for those that nobody knows."""
    options = dict(config)
    if options.pop("preserve_system", True) is not True:
        raise SettingsError("preserve_system = False is refused: leading system rows are part of every view")
    for theirs, ours in _SAME_AS.items():
        if theirs in options:
            options.setdefault(ours, options.pop(theirs))
    persistence = options.pop("persistence", None)
    if isinstance(persistence, Mapping) and persistence.get("enabled", True) and persistence.get("path"):
        options.setdefault("store", persistence["path"])
    return Settings.from_mapping(options)


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], Any]:
    """Attach a context manager to the host; returns the cleanup function."""
    manager = SummarizingContextManager(**dict(config or {}))
    session_id = getattr(coordinator, "session_id", None)
    if isinstance(session_id, str) and session_id:
        manager.use_session(session_id)
    await coordinator.mount("context", manager)
    return manager.close


async def on_session_ready(coordinator: Any) -> None:
    """All modules are mounted: let observers know which events to expect."""
    coordinator.register_contributor(
        "observability.events",
        "context-summarizing",
        lambda: ["context:pre_compact", "context:post_compact", "context:compaction"],
    )


def _as_json(value: Any) -> Any:
    """The value with everything that JSON has no form for written as text."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_json(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return repr(value)
