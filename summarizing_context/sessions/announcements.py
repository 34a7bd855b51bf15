"""What a session tells: events to an observer, a line in the log for each activation and each summary, announcements.

Hooks are told of an activation by an announcement and act before it. One request at a time announces. An announcement
holds for the first activation after it, also for one that a hook asks for while it acts.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import anyio

from summarizing_context.concurrency import Events

_MOST_TOLD = 8  # announcements for one request: hooks may use up each of them

logger = logging.getLogger("summarizing_context")  # one name for all sessions, as the documents give it

Notify = Callable[[str, dict[str, Any]], None]
Announce = Callable[[dict[str, Any]], Awaitable[None]]


def make_notify(events: Events | None, session_id: str) -> Notify:
    """What logs an event and hands it to the observer; a fault of the observer costs nothing but the event."""

    def notify(name: str, data: dict[str, Any]) -> None:
        if logger.isEnabledFor(logging.INFO) and (line := _line(name, data)):
            logger.info("%s: %s", session_id, line)
        if events is not None:
            try:
                events.emit(name, data)
            except Exception as error:
                logger.warning("an observer failed", extra={"event": name, "cause": type(error).__name__})

    return notify


def _line(name: str, data: Mapping[str, Any]) -> str:
    """The line in the log for an event; empty where it has none."""
    if name == "activation":
        return (
            f"activation ({data['reason']}) in {data['duration']:.3f} s: {data['tokens_before']} tokens to "
            f"{data['tokens_after']}, {data['messages']} messages, {data['header_blocks']} summaries, "
            f"{data['stand_ins']} stand-ins"
        )
    if name not in ("summary_ready", "summary_failed"):
        return ""
    summary = f"summary {data['range_hash'][:8]} of rank {data['rank']}"
    if name == "summary_failed":
        return f"{summary} failed after {data['duration']:.3f} s: {data['error']}"
    tokens = f", {data['input_tokens']} tokens in, {data['output_tokens']} out" if data["made_by"] == "model" else ""
    return f"{summary} by {data['model'] or data['made_by']} in {data['duration']:.3f} s{tokens}"


@dataclass(eq=False)
class _Announcement:
    """What hooks are told once."""

    is_nested: bool  # a hook that acts on another one has asked for it
    is_acted_on: bool = True
    is_used: bool = False


_acted_on: ContextVar[_Announcement | None] = ContextVar("announcement_acted_on", default=None)


class Announcements:
    """The announcements of one session. `announce` returns when the hooks have acted; None where there are none."""

    def __init__(self, announce: Announce | None) -> None:
        self.announce = announce
        self.served: anyio.Event | None = None  # set when the request that announces is served; None if none does


class Announced:
    """A request whose activation is announced. Other requests announce after its `end`."""

    def __init__(self, announcements: Announcements) -> None:
        self._announcements = announcements
        outer = _acted_on.get()
        self._outer = outer if outer is not None and outer.is_acted_on else None  # of the hook that makes the request
        self._latest = self._outer
        self._told = 0
        self._served: anyio.Event | None = None  # where it is this request that announces

    def end(self) -> None:
        """The request is served."""
        if self._served is not None:
            self._served.set()
            self._announcements.served = None

    def may_activate(self) -> bool:
        """Whether the activation that follows at once is announced, or need not be."""
        latest = self._latest
        if self._announcements.announce is None:
            return True
        if latest is None or (latest.is_used and not self._is_last(latest)):
            return False
        latest.is_used = True
        return True

    async def before(self, data: dict[str, Any]) -> None:
        """Announce an activation, or wait for the request that announces now. Plan again after either."""
        every = self._announcements
        if every.announce is None:
            return
        if self._outer is None and self._served is None:
            if every.served is not None:
                await every.served.wait()
                return
            self._served = every.served = anyio.Event()
        self._told += 1
        self._latest = _Announcement(is_nested=self._outer is not None)
        token = _acted_on.set(self._latest)
        try:
            await every.announce(data)
        finally:
            self._latest.is_acted_on = False
            _acted_on.reset(token)

    def _is_last(self, latest: _Announcement) -> bool:
        """Whether nothing more is announced: hooks would never come to an end."""
        return self._told == _MOST_TOLD or (latest is self._outer and latest.is_nested)
