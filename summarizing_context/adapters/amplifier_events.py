"""Our notices as Amplifier's events, sent in the background.

One task at a time sends them, in order, while there are any. A hook that fails, hangs or is slow costs events,
never a request.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

ANNOUNCED = (
    "context:pre_compact",
    "context:post_compact",
    "context:compaction",
    "context:summary_started",
    "context:summary_ready",
    "context:summary_failed",
    "context:stand_in_used",
    "context:include",
    "context:memory_stored",
    "context:memory_replaced",
    "context:budget_changed",
    "context:usage_calibrated",
    "context:degraded",
    "context:message_added:debug",
)

_MOST_WAITING = 256
_SEND_WITHIN = 5.0  # seconds
_DRAIN_WITHIN = 0.5  # seconds, when the session ends
_LONGEST_TEXT = 300  # characters

logger = logging.getLogger(__name__)

Emit = Callable[[str, dict[str, Any]], Awaitable[Any]]


class HostEvents:
    """An `Events` port that hands notices to the host's hooks."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_MOST_WAITING)  # the oldest go first
        self._sender: asyncio.Task[None] | None = None
        self._closed = False

    def emit(self, name: str, data: Mapping[str, Any]) -> None:
        """Queue a notice; returns at once, whatever the hooks do."""
        if self._closed or (name.endswith(":debug") and len(self._waiting) > _MOST_WAITING // 2):
            return
        self._waiting.extend(translated(name, data))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send(), name="context events")

    async def announce(self, data: Mapping[str, Any]) -> None:
        """Have the hooks act before a compaction: returns when they have, or after five seconds."""
        for event, payload in translated("pre_compact", data):
            await self._hand_over(event, payload)

    async def close(self) -> None:
        """Send what waits, if that is quick, and end the task. May be called twice."""
        self._closed = True
        sender, self._sender = self._sender, None
        if sender is None:
            return
        await asyncio.wait({sender}, timeout=_DRAIN_WITHIN)
        if sender.cancel():
            await asyncio.wait({sender}, timeout=_DRAIN_WITHIN)

    async def _send(self) -> None:
        while self._waiting:
            event, payload = self._waiting.popleft()
            await self._hand_over(event, payload)

    async def _hand_over(self, event: str, payload: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(_SEND_WITHIN):
                await self._emit(event, payload)
        except Exception as error:  # a hook is foreign code
            logger.debug("an event was not taken", extra={"event": event, "cause": type(error).__name__})


def translated(name: str, data: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A notice under the names, and with the fields, that the host's documents give."""
    facts = {str(key): _finite(value) for key, value in data.items()}
    if name == "pre_compact":
        yield "context:pre_compact", _counts(facts, "tokens")
    elif name == "activation":
        yield "context:post_compact", _counts(facts, "tokens_after")
        told = {key: value for key, value in facts.items() if key not in ("activated", "messages")}
        yield "context:compaction", {**told, "message_count": facts.get("messages")}
        if facts.get("header_tokens"):
            yield "context:include", _header(facts)
        if facts.get("stand_ins"):
            yield "context:stand_in_used", {"count": facts.get("stand_ins"), "reason": facts.get("reason")}
    else:
        yield f"context:{name}", facts


def _header(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What is told of a header that enters a view; its text is not."""
    content = f"{facts.get('header_blocks')} summaries, {facts.get('header_tokens')} tokens"
    return {"source": "header", "content": content, "tokens": facts.get("header_tokens")}


def _counts(facts: Mapping[str, Any], tokens: str) -> dict[str, Any]:
    return {"message_count": facts.get("messages"), "tokens": facts.get(tokens), "token_count": facts.get(tokens)}


def _finite(value: Any) -> Any:
    """The value as the host's JSON takes it."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)[:_LONGEST_TEXT]


def told_of(message: Mapping[str, Any], total: int) -> dict[str, Any]:
    """What the host's documents tell of a message that was added; never its text."""
    content = message.get("content")
    return {
        "role": message["role"],
        "content_length": len(content if isinstance(content, str) else str(content or "")),
        "total_messages": total,
    }
