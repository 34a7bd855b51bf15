"""Helpers around asyncio: the loop of the caller, and work that is seen to its end although the caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from summarizing_context.errors import WrongEventLoopError

Result = TypeVar("Result")


def running_loop() -> asyncio.AbstractEventLoop:
    """The event loop of this task. Raises `WrongEventLoopError` where it is not one of asyncio's."""
    try:
        if asyncio.current_task() is not None:  # trio as a guest of asyncio has its loop, and none of its tasks
            return asyncio.get_running_loop()
    except RuntimeError:
        pass
    raise WrongEventLoopError(
        "summarizing-context runs under asyncio only, and no asyncio task is running here (trio is not supported); "
        "run your program with asyncio.run(main()), or anyio.run(main) with the backend 'asyncio'"
    )


async def to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """What `work` returns. A cancellation is passed on only when `work` has ended, so it should end soon."""
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancellation = error
        except Exception:  # that of the work; told below
            break
    if cancellation is not None and not task.cancelled():
        task.exception()  # seen
        raise cancellation
    return task.result()
