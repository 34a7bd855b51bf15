"""Events between Amplifier and us: our notices go out in the background, usage of views comes in."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from summarizing_context.errors import BudgetError
from summarizing_context.summarizers.host import in_summary

_ANNOUNCED = """pre_compact post_compact compaction summary_started summary_ready summary_failed stand_in_used include
memory_stored memory_replaced budget_changed usage_calibrated degraded message_added:debug"""
ANNOUNCED = [f"context:{name}" for name in _ANNOUNCED.split()]

_MOST_WAITING = 256
_SEND_WITHIN = 5.0  # seconds

logger = logging.getLogger(__name__)


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


_sent: ContextVar[object] = ContextVar("view_that_is_sent", default=None)


class UsageMeter:
    """Tells `observe` of fresh, cached and newly cached tokens of each view that was sent, and of the answer's."""

    def __init__(self, observe: Callable[[int, int, int, int], Awaitable[None]]) -> None:
        self._observe = observe
        self._view: object = None  # stands for the newest that was handed out, until its answer has come
        self._request_id: Any = None  # of the call that sends it
        self._ends: list[Callable[[], Any]] = []

    def listen(self, register: Callable[..., Any]) -> None:
        for event in ("llm:request", "llm:response"):
            end = register(event, self._hear, 0, f"context-summarizing {event}")
            self._ends += [end] if callable(end) else []

    def close(self) -> None:
        """Hear nothing any longer. May be called twice."""
        while self._ends:
            self._ends.pop(0)()

    def note_view(self) -> None:
        """Note that the caller has been given a view and will send it."""
        self._view, self._request_id = object(), None
        _sent.set(self._view)

    async def _hear(self, event: str, data: Mapping[str, Any]) -> None:
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
        read = count("cache_read_tokens", "cache_read", "cache_read_input_tokens")
        if gross > 0:
            self._view = None
            written = count("cache_write_tokens", "cache_write", "cache_creation_input_tokens")
            output = count("output_tokens", "output")
            await self._observe(max(0, gross - read), read, written, output)
