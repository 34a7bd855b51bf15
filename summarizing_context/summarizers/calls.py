"""Makes one call with a time limit, whatever the called code does with its cancellation.

The call runs in a task of its own. A cancel scope around foreign code would cancel it again at every turn of the
event loop until it gives in, so one summarizer that swallows its cancellation would keep the loop busy for ever, and
hold its caller. Here it is cancelled once, given a moment, and then left behind with a warning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

from summarizing_context.errors import SettingsError, SummarizerError, SummarizerTimeout

logger = logging.getLogger(__name__)

GRACE = 0.5  # seconds that a cancelled call has to end

Reply = TypeVar("Reply")

_left_behind: set[asyncio.Task[Any]] = set()  # asyncio itself keeps only weak references to its tasks


async def call_within(seconds: float, call: Coroutine[Any, Any, Reply], *, grace: float = GRACE) -> Reply:
    """What `call` returns or raises; `SummarizerTimeout` after so many seconds.

    When the caller is cancelled, so is the call, and the cancellation goes on. A cancellation that nobody asked of
    the caller (the call awaited something that was cancelled elsewhere) is a failure of the call: `SummarizerError`.
    """
    task = asyncio.create_task(call)
    try:
        await asyncio.wait({task}, timeout=max(seconds, 0.0))
    except BaseException:
        await _end(task, grace)
        _failure_of(task)  # looked at, or asyncio would complain that nobody did
        raise
    in_time = task.done()
    await _end(task, grace)
    if task.done() and not task.cancelled() and (in_time or not isinstance(task.exception(), Exception)):
        return _result_of(task)
    if not in_time:
        raise SummarizerTimeout(f"no reply within {seconds:g} seconds") from _failure_of(task)
    raise SummarizerError("the call to the summarizer was cancelled by something else than its caller")


def told_by(summarizer: object, name: str) -> str | None:
    """A text that a summarizer tells of itself in an attribute; None if it does not."""
    try:
        value = getattr(summarizer, name, None)
    except Exception as error:
        raise SettingsError(
            f"the attribute {name} of the summarizer {type(summarizer).__name__} raised {type(error).__name__}; "
            "it is a text, or left out"
        ) from error
    return value if isinstance(value, str) else None


def _result_of(task: asyncio.Task[Reply]) -> Reply:
    """What the call returned or raised. Beside `Exception` only what ends a program passes."""
    failure = task.exception()
    if failure is None or isinstance(failure, Exception | KeyboardInterrupt | SystemExit):
        return task.result()
    raise SummarizerError("the summarizer raised an exception that is no Exception") from failure


async def _end(task: asyncio.Task[Any], grace: float) -> None:
    """Cancel the call and give it a moment; what does not end then is left behind."""
    if task.done():
        return
    task.cancel()
    task.add_done_callback(_note_end)
    _left_behind.add(task)
    with anyio.CancelScope(shield=True):
        await asyncio.wait({task}, timeout=grace)
    if not task.done():
        logger.warning("a summarizer did not end when it was cancelled; its call was left behind")


def _note_end(task: asyncio.Task[Any]) -> None:
    """Forget an ended call, and look at its error, or asyncio would complain that nobody did."""
    _left_behind.discard(task)
    _failure_of(task)


def _failure_of(task: asyncio.Task[Any]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None
