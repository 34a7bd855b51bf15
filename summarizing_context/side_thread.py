"""One thread beside the event loop, for work that would hold the loop up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from anyio.to_thread import current_default_thread_limiter

from summarizing_context.errors import ContextClosedError

Result = TypeVar("Result")

_LONGEST_END = 0.4  # seconds that closing waits for the piece of work that runs


class SideThread:
    """Runs one piece of work after another. The thread starts with the first piece and ends with `close`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: ThreadPoolExecutor | None = None
        self._pieces: set[Future[Any]] = set()
        self._closed = False

    async def run(self, work: Callable[[], Result]) -> Result:
        """What `work` returns. When cancelled, the thread only finishes the piece that it is at."""
        if self._closed:
            raise ContextClosedError("the context was closed meanwhile; open it again")
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self._name)
        piece = self._thread.submit(work)
        self._pieces.add(piece)
        piece.add_done_callback(self._pieces.discard)
        async with current_default_thread_limiter():  # it counts as a thread of the loop, for who watches these
            return await asyncio.wrap_future(piece)

    async def close(self) -> None:
        """Drop the pieces that wait and end the thread; a long piece ends by itself. May be called twice."""
        self._closed = True
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.shutdown(wait=False, cancel_futures=True)
        if running := [asyncio.wrap_future(piece) for piece in list(self._pieces)]:
            await asyncio.wait(running, timeout=_LONGEST_END)
        if not self._pieces:
            thread.shutdown(wait=True)  # it has nothing left to do: this does not keep the loop waiting
