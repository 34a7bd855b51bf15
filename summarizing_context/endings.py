"""Work that is seen to its end although the caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


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
