"""The event loop that the sessions of a middleware belong to.

A context belongs to one event loop, and an agent may be called from any, or from none. On its own loop summaries are
made while a model call blocks the caller.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context
from typing import Any, TypeVar

from summarizing_context.errors import ContextClosedError

Result = TypeVar("Result")


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
