"""Reads from the host's events how many tokens a provider counted for a view, and only for a view.

Every call of a session tells its usage: summaries, names of sessions, sub-agents. A response counts when it comes
from the flow of calls that asked for the newest view, answers the first request after it, and is no summary of ours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from summarizing_context.summarizers.host_provider import in_summary

REQUEST, RESPONSE = "llm:request", "llm:response"

_INPUT = ("input_tokens", "input")
_READ = ("cache_read_tokens", "cache_read", "cache_read_input_tokens")
_WRITTEN = ("cache_write_tokens", "cache_write", "cache_creation_input_tokens")

Observe = Callable[[int, int, int], Awaitable[None]]


class _Ask:
    """A view that was handed out, and the call that sends it."""

    __slots__ = ("is_answered", "request_id")

    def __init__(self) -> None:
        self.request_id: Any = None
        self.is_answered = False


_asked: ContextVar[_Ask | None] = ContextVar("view_asked_for", default=None)


class UsageMeter:
    """Tells `observe` of fresh, cached and newly cached tokens of each view that was sent."""

    def __init__(self, observe: Observe) -> None:
        self._observe = observe
        self._latest: _Ask | None = None
        self._ends: list[Callable[[], Any]] = []

    def listen(self, register: Callable[..., Any]) -> None:
        """Register with the host's hooks."""
        for event, handler in ((REQUEST, self._on_request), (RESPONSE, self._on_response)):
            end = register(event, handler, 0, f"context-summarizing {event}")
            if callable(end):
                self._ends.append(end)

    def close(self) -> None:
        """Hear nothing any longer. May be called twice."""
        ends, self._ends = self._ends, []
        for end in ends:
            end()

    def note_view(self) -> None:
        """The caller has been given a view and will send it."""
        self._latest = _Ask()
        _asked.set(self._latest)

    async def _on_request(self, event: str, data: Mapping[str, Any]) -> None:
        ask = self._ask()
        if ask is not None and ask.request_id is None:
            ask.request_id = data.get("request_id")

    async def _on_response(self, event: str, data: Mapping[str, Any]) -> None:
        ask, usage = self._ask(), data.get("usage")
        if ask is None or not isinstance(usage, Mapping):
            return
        if ask.request_id is not None and data.get("request_id", ask.request_id) != ask.request_id:
            return
        gross, read, written = (_count(usage, names) for names in (_INPUT, _READ, _WRITTEN))
        if gross > 0:
            ask.is_answered = True
            await self._observe(max(0, gross - read), read, written)

    def _ask(self) -> _Ask | None:
        """The newest view, if this is its flow of calls and it waits for an answer."""
        ask = _asked.get()
        return ask if ask is self._latest and ask is not None and not ask.is_answered and not in_summary.get() else None


def _count(usage: Mapping[str, Any], names: tuple[str, ...]) -> int:
    found = (usage[name] for name in names if isinstance(usage.get(name), int))
    return max(0, next(found, 0))
