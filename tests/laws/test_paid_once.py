"""same_content_same_key: equal ranges have equal keys in any process, with any token counter. paid_once: no key is sent
to a model twice while a good summary for it exists, nor twice at once.

`python -m tests.laws.test_paid_once STORE` prints the keys of all jobs of one log, with another token counter, and the
settled views of another log, by the extractive summarizer.
"""

import copy
import hashlib
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import anyio
import pytest

from summarizing_context import open_context, open_store
from summarizing_context.errors import StoreError
from tests.behaviour.contexts import begun, small
from tests.docs.checkout import run_python

from .builders import DIALECTS, Message, assistant, count, session, user, words
from .places import kept_at
from .shapes import canonical
from .summarizers import Counting
from .test_within_budget import IDS

LOG = session(34, 150)


def opened(path: Path, summarizer: Counting, session_id: str = "one") -> Any:
    return begun(max_tokens=3_000, store=kept_at(path), session_id=session_id, summarizer=summarizer)


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
    """Nor do others with the same content. Another recipe is paid for, and a summarizer without one shares nothing."""
    assert set(keys(await finished(tmp_path / "a.db")).values()) == {1}
    again = Counting("counting/1")
    async with opened(tmp_path / "a.db", again) as context:
        await feed(context, [])
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

    other, nameless = Counting("counting/2"), Counting()
    async with opened(tmp_path / "a.db", other) as context:
        await feed(context, [])
    async with opened(tmp_path / "a.db", nameless, "four") as context:
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
        options = small(max_tokens=1_500, max_messages=20, keep_recent=1)
        async with open_context(options, summarizer=summarizer, count_tokens=count, store=store) as context:
            for at in range(120):
                await context.add_message((assistant if at % 2 else user)(words(rng, rng.randint(1, 60))))
                await context.get_messages_for_request()
                assert not at % 2 or await context.wait_idle()
        assert set(keys(summarizer).values()) == {1}
        shared += len(keys(summarizer))
    assert shared > 30


def third(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) // 3


async def keys_and_views(counted: Any, store: str) -> tuple[dict[str, str], list[str], int]:
    summarizer, views = Counting("counting/1"), list[str]()
    async with begun(max_tokens=1_200, start_at=0.01, summarizer=summarizer, count_tokens=counted) as context:
        await context.set_messages(session(36, 240))
        for _ in range(3):  # a merge is asked for once a view shows it
            await context.compact()
            await context.wait_idle()
        segments = context._session.log.segments
    # where a view ends a segment depends on what its tokens count
    whole = {(segment.start, segment.stop) for segment in segments if not segment.is_early}
    early = [segment.start for segment in segments if segment.is_early]
    jobs = [job for job in summarizer.segments if (job.start, job.stop) in whole]
    merges = [job for job in summarizer.jobs if job.kind != "segment"]
    jobs += [job for job in merges if not any(job.start <= at < job.stop for at in early)]

    async with begun(store=store) as context:
        for message in session(37, 120):
            await context.add_message(message)
            if message["role"] == "assistant":
                await context.wait_idle()
                view = canonical(await context.get_messages_for_request())
                views.append(hashlib.sha256(view.encode()).hexdigest())
        activations = context.statistics().activations
    return {f"{job.kind} {job.start} {job.stop}": job.range_hash for job in jobs}, views, activations


async def test_keys_are_equal_across_processes_hash_seeds_and_token_counters(tmp_path: Path) -> None:
    """So are settled extractive views, to the byte."""
    command = ["-m", "tests.laws.test_paid_once", kept_at(tmp_path / "v.db")]
    ran = await anyio.to_thread.run_sync(lambda: run_python(command, env={"PYTHONHASHSEED": "1"}))
    assert ran.returncode == 0, ran.stdout
    other, *again = json.loads(ran.stdout.splitlines()[-1])
    first, views, activations = await keys_and_views(count, ":memory:")
    assert len([job for job in first if job.startswith("segment")]) > 20
    assert {job.split()[0] for job in first} == {"segment", "rollup"}
    assert activations > 2
    assert len(views) > 25
    # which merges a view shows depends on what its tokens count
    assert [job for job in first.keys() ^ other.keys() if job.startswith("segment")] == []
    assert other == {job: first.get(job, other[job]) for job in other}
    assert again == [views, activations]


async def segment_keys(log: list[Message]) -> list[tuple[int, int, str]]:
    summarizer = Counting()
    async with begun(max_tokens=3_000, start_at=0.01, summarizer=summarizer) as context:
        await context.set_messages(log)
        await context.get_messages_for_request()
        await context.wait_idle()
    return sorted((job.start, job.stop, job.range_hash) for job in summarizer.segments)


def renamed(value: Any) -> Any:
    """The same log with other call ids."""
    if isinstance(value, dict):
        return {name: f"other_{one}" if name in IDS else renamed(one) for name, one in value.items()}
    return [renamed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_words_and_roles_enter_the_key_and_ids_times_and_usage_do_not(dialect: str) -> None:
    log = session(39, 100, dialect=dialect)
    wanted, volatile = await segment_keys(log), copy.deepcopy(log)
    assert len(wanted) > 5
    for at, message in enumerate(volatile):
        message |= {"_meta": {"ts": at}, "timestamp": 1_790_000_000 + at, "id": f"msg_{at}"}
        message |= {"usage": {"input_tokens": at}, "metadata": {"timestamp": f"2026-11-20T10:00:{at % 60:02d}Z"}}
    for same in (renamed(log), volatile, [dict(reversed(message.items())) for message in log]):
        assert await segment_keys(same) == wanted
    place = next(at for at, row in enumerate(log[50:], 50) if row["role"] == "user" and isinstance(row["content"], str))
    for change in ({"content": log[place]["content"] + "!"}, {"role": "assistant"}):
        got = await segment_keys([*log[:place], log[place] | change, *log[place + 1 :]])
        assert got != wanted
        assert len({key for *_, key in got} - {key for *_, key in wanted}) <= 10


if __name__ == "__main__":
    print(json.dumps(anyio.run(keys_and_views, third, sys.argv[1])))
