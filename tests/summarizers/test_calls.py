"""One call with a time limit: whose cancellation is whose."""

from __future__ import annotations

import asyncio
import logging

import anyio
import anyio.lowlevel
import pytest

from summarizing_context.errors import SummarizerError, SummarizerTimeout
from summarizing_context.summarizers.resilience.caller import call_within

pytestmark = pytest.mark.anyio

SOON = 0.005  # seconds


class Stubborn:
    """Swallows every cancellation until it is released."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.cancellations = 0

    async def call(self) -> str:
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancellations += 1
        return "late"


async def test_a_reply_in_time_is_returned():
    async def call() -> str:
        await anyio.lowlevel.checkpoint()
        return "here"

    assert await call_within(10, call()) == "here"


async def test_an_error_of_the_call_goes_on_as_it_is():
    async def call() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await call_within(10, call())


async def test_a_call_that_takes_too_long_is_cancelled():
    ended = []

    async def call() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    with pytest.raises(SummarizerTimeout):
        await call_within(SOON, call())
    assert ended


async def test_what_a_cancelled_call_still_returns_is_taken():
    async def call() -> str:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return "just in time"
        raise AssertionError("not reached")

    assert await call_within(SOON, call()) == "just in time"


async def test_an_error_raised_on_being_cancelled_is_the_cause_of_the_timeout():
    async def call() -> None:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            raise ConnectionError from None

    with pytest.raises(SummarizerTimeout) as caught:
        await call_within(SOON, call())
    assert isinstance(caught.value.__cause__, ConnectionError)


async def test_a_call_that_swallows_its_cancellation_is_left_behind(caplog: pytest.LogCaptureFixture):
    stubborn = Stubborn()
    with caplog.at_level(logging.WARNING), pytest.raises(SummarizerTimeout):
        await call_within(SOON, stubborn.call(), grace=SOON)
    assert stubborn.cancellations == 1  # told once, and not again at every turn of the loop
    assert "left behind" in caplog.text
    stubborn.released.set()


async def test_a_cancel_scope_of_the_caller_ends_the_call_and_goes_on():
    reached, call_ended = [], []

    async def call() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            call_ended.append(True)

    with anyio.move_on_after(SOON) as scope:
        await call_within(10, call())
        reached.append(True)
    assert (scope.cancelled_caught, reached, call_ended) == (True, [], [True])


async def test_a_native_cancellation_of_the_caller_ends_the_call_and_goes_on():
    started, call_ended = asyncio.Event(), []

    async def call() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            call_ended.append(True)

    caller = asyncio.create_task(call_within(10, call()))
    await started.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert caller.cancelled()
    assert call_ended


async def test_a_cancelled_caller_leaves_a_stubborn_call_behind():
    stubborn = Stubborn()
    with anyio.move_on_after(SOON) as scope:
        await call_within(10, stubborn.call(), grace=SOON)
    assert scope.cancelled_caught
    assert stubborn.cancellations == 1
    stubborn.released.set()


async def test_a_caller_cancelled_twice_does_not_wait_for_the_grace():
    stubborn = Stubborn()
    caller = asyncio.create_task(call_within(10, stubborn.call(), grace=3600))
    await anyio.wait_all_tasks_blocked()
    caller.cancel()
    await anyio.wait_all_tasks_blocked()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    stubborn.released.set()


async def test_a_cancellation_that_nobody_asked_of_the_caller_is_a_failure_of_the_call():
    async def call() -> None:
        shared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        shared.cancel()
        await shared

    with pytest.raises(SummarizerError, match="something else than its caller"):
        await call_within(10, call())


class Stop(BaseException):
    """What no `except Exception` catches."""


async def test_what_is_no_exception_is_a_failure_when_it_comes_late_too():
    async def late() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise Stop

    with pytest.raises(SummarizerError):
        await call_within(SOON, late())


@pytest.mark.parametrize("raised", [GeneratorExit(), Stop()])
async def test_an_exception_that_is_no_exception_is_a_failure_of_the_call(raised: BaseException):
    async def call() -> str:
        raise raised

    with pytest.raises(SummarizerError) as caught:
        await call_within(1, call())
    assert caught.value.__cause__ is raised
