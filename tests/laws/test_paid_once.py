"""paid_once: no key is sent to a model twice while a good summary for it exists, nor twice at once."""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, open_context, open_store
from summarizing_context.errors import StoreError

from .builders import Message, assistant, count, session, user, words
from .judge import SMALL
from .places import kept_at
from .summarizers import Counting

LOG = session(34, 150)


@asynccontextmanager
async def opened(path: Path, summarizer: Counting, session_id: str = "one", **settings: Any) -> Any:
    options = {"max_tokens": 3_000, "store": kept_at(path), "session_id": session_id, **SMALL, **settings}
    async with open_context(Settings(**options), summarizer=summarizer, count_tokens=count) as context:
        yield context


async def feed(context: Any, log: Sequence[Message]) -> None:
    for message in log:
        if message["role"] == "assistant":
            await context.get_messages_for_request()
        await context.add_message(message)
    await context.get_messages_for_request()
    assert await context.wait_idle()  # or closing would cut calls short, which another context then makes again


async def finished(path: Path, log: Sequence[Message] = LOG) -> Counting:
    """A session in the file, with all its summaries made."""
    summarizer = Counting("counting/1")
    async with opened(path, summarizer) as context:
        await feed(context, log)
        assert context.statistics().model_calls == keys(summarizer).total() > summarizer.calls > 10
        assert context.statistics().activations > 2
    return summarizer


def keys(summarizer: Counting) -> Counter[tuple[str, str]]:
    return Counter((job.kind, job.range_hash) for job in (*summarizer.jobs, *summarizer.rule_jobs))


@pytest.mark.usefixtures("each_store")
async def test_a_finished_session_costs_nothing_when_it_is_reopened(tmp_path: Path) -> None:
    """Nor do others with the same content."""
    assert set(keys(await finished(tmp_path / "a.db")).values()) == {1}
    again = Counting("counting/1")
    async with opened(tmp_path / "a.db", again) as context:
        assert await context.wait_idle()
        await context.get_messages_for_request()
        await context.compact()
        await feed(context, [])
        assert await context.get_messages() == LOG
        assert context.statistics().summaries_ready > 5
    async with opened(tmp_path / "a.db", again, "two") as context:
        await feed(context, LOG)
        assert context.statistics().activations > 2
        assert context.statistics().stand_ins_total <= 1  # of a segment that was closed by the message before
    async with opened(tmp_path / "a.db", again, "three") as context:
        await context.set_messages(LOG)
        await feed(context, [])
    assert keys(again).total() == 0


@pytest.mark.usefixtures("each_store")
async def test_another_recipe_is_paid_for_and_a_summarizer_without_one_shares_nothing(tmp_path: Path) -> None:
    await finished(tmp_path / "a.db")
    other, nameless = Counting("counting/2"), Counting()
    async with opened(tmp_path / "a.db", other) as context:
        await feed(context, [])
    async with opened(tmp_path / "a.db", nameless, "two") as context:
        await feed(context, LOG)
    assert other.calls > 5
    assert nameless.calls > 5


class Slow(Counting):
    async def answer(self, job: Any) -> str:
        reply = await super().answer(job)
        for _ in range(20):  # turns of others
            await anyio.lowlevel.checkpoint()
        return reply


@pytest.mark.usefixtures("each_store")
async def test_two_contexts_at_once_pay_each_key_once(tmp_path: Path) -> None:
    summarizer = Slow("slow/1")
    one, two = (opened(tmp_path / "a.db", summarizer, name) for name in ("one", "two"))
    async with one as first, two as second, anyio.create_task_group() as tasks:
        tasks.start_soon(feed, first, LOG)
        tasks.start_soon(feed, second, LOG)
    assert summarizer.calls > 10
    assert summarizer.rule_jobs
    assert set(keys(summarizer).values()) == {1}


async def test_an_edit_is_paid_for_near_the_change_only(tmp_path: Path) -> None:
    """Segments end by what is said, so that behind a message that is put in they soon end where they did: also where
    all messages are of one size, and sizes alone would never."""
    rng, again, changes = random.Random(54), Counting("counting/1"), []
    log = [(user, assistant)[at % 2](f"{at} {words(rng, 45)}"[:160]) for at in range(300)]
    first = await finished(tmp_path / "a.db", log)
    async with opened(tmp_path / "a.db", again, "edits") as context:
        for number in range(8):
            place, gone = rng.randrange(len(log)), number % 2  # it is put in, or in the place of another one
            said = assistant(f"{number} {words(rng, 45)}"[:160])
            again.jobs.clear()
            await context.set_messages([*log[:place], said, *log[place + gone :]])
            await feed(context, [])
            changes.append(len(again.segments))
            assert again.calls - changes[-1] <= len(first.segments) // 3 + 4  # merges to the right of it
    assert len(first.segments) > 25
    assert max(changes) <= 10
    assert median(changes) <= 4
    assert sum(changes) > 6


@pytest.mark.parametrize("recipe", ["counting/1", None])  # shared with others by the store, or not shared
async def test_a_piece_that_becomes_a_segment_is_paid_once(tmp_path: Path, recipe: str | None) -> None:
    """Where messages are counted, pieces are summarized ahead; one may end where its segment ends."""
    shared = 0

    async def find_nothing(*_: Any) -> Any:
        raise StoreError("a fault of the test")

    for number in range(2):
        rng, summarizer = random.Random(number), Counting(recipe)
        store: Any = await open_store(kept_at(tmp_path / f"{number}.db"))
        store.find_summaries = find_nothing  # it keeps summaries and cannot look for them
        settings = Settings(max_tokens=1_500, max_messages=20, keep_recent=1, **SMALL)
        async with open_context(settings, summarizer=summarizer, count_tokens=count, store=store) as context:
            for at in range(120):
                await context.add_message((assistant if at % 2 else user)(words(rng, rng.randint(1, 60))))
                await context.get_messages_for_request()
                assert not at % 2 or await context.wait_idle()
        assert set(keys(summarizer).values()) == {1}
        shared += len(keys(summarizer))
    assert shared > 30
