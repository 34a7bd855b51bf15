"""The sessions of a middleware, on an event loop of its own.

A context belongs to one event loop, and an agent may be called from any, or from none. On its own loop summaries are
made while a model call blocks the caller.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from summarizing_context.assembly import Options, start_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import ContextClosedError
from summarizing_context.settings.values import Settings

Result = TypeVar("Result")


@dataclass(slots=True)
class _Session:
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    context: SummarizingContext | None = None


class Sessions:
    """The open sessions, at most `most` beside those in use. All methods belong to one event loop."""

    def __init__(self, settings: Settings, options: Options, most: int) -> None:
        self._settings = settings
        self._options = options
        self._most = most
        self._sessions: dict[str, _Session] = {}  # the one used last at the end
        self._closing: asyncio.Task[None] | None = None  # of sessions beyond `most`

    @asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[SummarizingContext]:
        """The session for one user after the other, opened where it is not. Raises as `open_context` does."""
        session = self._sessions.pop(name) if name in self._sessions else _Session()
        self._sessions[name] = session
        session.users += 1
        try:
            async with session.turn:
                if session.context is None:
                    session.context = await start_context(replace(self._settings, session_id=name), self._options)
                yield session.context
        finally:
            session.users -= 1
            if len(self._sessions) > self._most and (self._closing is None or self._closing.done()):
                self._closing = asyncio.create_task(self._close_oldest())

    def contexts(self) -> dict[str, SummarizingContext]:
        """The sessions that are open."""
        return {name: each.context for name, each in self._sessions.items() if each.context is not None}

    async def close(self) -> None:
        """Close all of them."""
        if self._closing is not None:
            await self._closing
        for name in list(self._sessions):
            await self._close(name)

    async def _close_oldest(self) -> None:
        for name in list(self._sessions)[: max(0, len(self._sessions) - self._most)]:
            if name in self._sessions and not self._sessions[name].users:
                await self._close(name)

    async def _close(self, name: str) -> None:
        session = self._sessions[name]
        async with session.turn:  # who wants it meanwhile waits, and opens it again
            if session.context is not None:
                await session.context.close()
                session.context = None
        if not session.users:
            self._sessions.pop(name, None)


class LoopThread:
    """An event loop in a thread, from the first call to `close`. `leave` runs on it at the end."""

    def __init__(self, leave: Callable[[], Awaitable[None]]) -> None:
        self._leave = leave
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._closed = False

    def submit(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Future[Result]:
        """Run `work` on the loop. Raises `ContextClosedError`."""
        with self._starting:
            if self._closed:
                raise ContextClosedError("the middleware was closed; make another one")
            if self._loop is None:
                self._start()
            # an empty context: the caller's would hand the agent's callbacks on to summarizers
            future: Future[Result] = Context().run(asyncio.run_coroutine_threadsafe, work(), self._loop)  # type: ignore[arg-type]
        return future

    def end(self) -> None:
        """End the loop soon, from any thread, without waiting for it."""
        with self._starting:
            self._closed = True
            if self._loop is not None and self._stop is not None:
                self._loop.call_soon_threadsafe(self._stop.set)
                self._loop = None

    def close(self) -> None:
        """End the loop and wait for it. May be called twice."""
        self.end()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        started = threading.Event()
        self._thread = threading.Thread(
            target=Context().run, args=(asyncio.run, self._run(started)), name="summarizing-context", daemon=True
        )
        self._thread.start()
        started.wait()

    async def _run(self, started: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        started.set()
        await self._stop.wait()
        await self._leave()
