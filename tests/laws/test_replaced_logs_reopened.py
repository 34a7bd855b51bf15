"""append_only_between_activations, where the end of a log was written again and the session was opened again: nothing
that views did with the old end comes back with what the store keeps of them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, open_context

from .builders import assistant, call, count, result, user, words
from .chaos import Provider
from .judge import SMALL, Judge
from .places import kept_at
from .summarizers import Counting

BUDGET = 2_000
ONE, TWO = Provider("one", BUDGET + 20), Provider("two", BUDGET + 100)


@asynccontextmanager
async def a_session(path: Path, summarizer: Any = None) -> AsyncIterator[tuple[Judge, Callable[[], Awaitable[None]]]]:
    """A judge over a session with eight turns, and what opens that again."""
    options: dict[str, Any] = {"max_tokens": BUDGET, "store": kept_at(path), "session_id": "s", "safety_margin": 0}
    settings = Settings(**options | SMALL, concurrency=1, start_at=0.0)
    async with AsyncExitStack() as doors:

        async def opened() -> Any:
            return await doors.enter_async_context(open_context(settings, summarizer=summarizer, count_tokens=count))

        async def reopen() -> None:
            judge.closing()
            await doors.aclose()
            judge.reopened(await opened())

        judge = Judge(await opened(), budget=BUDGET, keeps=True)
        rng = random.Random(1)
        for _ in range(8):
            await judge.add(user(words(rng, 40)), assistant(words(rng, 40)))
        yield judge, reopen


class Late(Counting):
    """Answers once it may."""

    def __init__(self) -> None:
        super().__init__("late/1")
        self.asked, self.may = anyio.Event(), anyio.Event()

    async def answer(self, job: Any) -> str:
        self.asked.set()
        await self.may.wait()
        return await super().answer(job)


async def until_asked(late: Late) -> None:
    with anyio.fail_after(60):
        await late.asked.wait()


async def edit(judge: Judge, at: int) -> None:
    await judge.set([*judge.log[:at], user("edited"), *judge.log[at + 1 :]])


@pytest.mark.usefixtures("each_store")
async def test_calls_given_up_in_an_end_that_is_gone_are_not_given_up_again(tmp_path: Path) -> None:
    async with a_session(tmp_path / "log.db") as (judge, reopen):
        for provider in (ONE, TWO):
            await judge.view(provider=provider)
            await judge.context.summarize(2)
        await judge.add(user("Look at both."), call("openai", ("a", "read", {})), call("openai", ("b", "read", {})))
        for provider in (ONE, TWO):
            await judge.view(provider=provider)
        assert judge.interrupted  # the first call
        await judge.add(result("openai", "a", "of a"), result("openai", "b", "of b"))
        await edit(judge, judge.log.index(user("Look at both.")))
        assert result("openai", "a", "of a") in await judge.view(provider=ONE)

        await reopen()
        activations = judge.activations
        assert result("openai", "a", "of a") in await judge.view(provider=ONE)
        assert judge.activations == activations


@pytest.mark.usefixtures("each_store")
async def test_segments_that_views_of_an_end_that_is_gone_have_ended_are_not_ended_again(tmp_path: Path) -> None:
    late = Late()
    async with a_session(tmp_path / "log.db", late) as (judge, reopen):
        for provider, keep in ((TWO, 2), (ONE, 8)):
            await judge.view(provider=provider)
            await until_asked(late)
            await judge.context.summarize(keep)
        await edit(judge, len(judge.log) - 5)
        segments = judge.context.statistics().segments
        await reopen()
        assert judge.context.statistics().segments == segments
        await judge.view(provider=ONE)


@pytest.mark.usefixtures("each_store")
async def test_a_view_that_starts_over_is_told_also_where_a_segment_was_ended_for_it(tmp_path: Path) -> None:
    late = Late()
    async with a_session(tmp_path / "log.db", late) as (judge, reopen):
        await judge.view(provider=ONE)
        await until_asked(late)
        await judge.context.summarize(2)
        await judge.view(provider=ONE)
        await judge.set(judge.log[:-2])  # all that is left is covered
        late.may.set()
        await judge.context.wait_idle()  # more are asked for, up to where the view had ended a segment
        await judge.view(provider=TWO)

        await reopen()
        activations = judge.activations
        await judge.view(provider=ONE)
        assert judge.activations == activations + 1


@pytest.mark.usefixtures("each_store")
async def test_calls_given_up_in_what_an_undo_shows_again_stay_given_up(tmp_path: Path) -> None:
    async with a_session(tmp_path / "log.db") as (judge, reopen):
        await judge.view(provider=ONE)
        await judge.context.summarize(2)
        for a, b in (("a", "b"), ("c", "d")):
            await judge.add(user("Look at both."), call("openai", (a, "read", {})), call("openai", (b, "read", {})))
            await judge.view(provider=ONE)
            await judge.add(result("openai", a, "of one"), result("openai", b, "of the other"))
        await judge.context.summarize(5)
        await judge.view(provider=ONE)
        await judge.context.undo_activation()
        await reopen()
        assert str(await judge.view(provider=ONE)).count("[no result of this call") == 4
