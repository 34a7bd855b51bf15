"""same_content_same_key: equal ranges have equal keys in any process, with any token counter.

`python -m tests.laws.test_same_content_same_key COUNTER STORE` prints the keys of all jobs of one log, and the settled
views of another, by the extractive summarizer.
"""

import copy
import hashlib
import json
import sys
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, open_context
from tests.docs.checkout import run_python

from .builders import DIALECTS, Message, count, session
from .judge import SMALL
from .places import kept_at
from .shapes import canonical
from .summarizers import Counting
from .test_what_is_sent_is_counted import IDS


def third(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) // 3


async def keys_and_views(counter: str, store: str) -> None:
    summarizer, views = Counting("counting/1"), list[str]()
    options = Settings(max_tokens=1_200, start_at=0.01, **SMALL)
    counted: Any = {"count_tokens": third if counter == "bytes" else count}
    async with open_context(options, summarizer=summarizer, **counted) as context:
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

    async with open_context(Settings(max_tokens=2_000, store=store, **SMALL), count_tokens=count) as context:
        for message in session(37, 120):
            await context.add_message(message)
            if message["role"] == "assistant":
                await context.wait_idle()
                view = canonical(await context.get_messages_for_request())
                views.append(hashlib.sha256(view.encode()).hexdigest())
        activations = context.statistics().activations
    keys = {f"{job.kind} {job.start} {job.stop}": job.range_hash for job in jobs}
    print(json.dumps([keys, views, activations]))


def said_by(counter: str, seed: str, store: str = ":memory:") -> Any:
    """What a process of its own says."""
    command = ["-m", "tests.laws.test_same_content_same_key", counter, store]
    ran = run_python(command, env={"PYTHONHASHSEED": seed})
    assert ran.returncode == 0, ran.stdout
    return json.loads(ran.stdout.splitlines()[-1])


def test_keys_are_equal_across_processes_hash_seeds_and_token_counters(tmp_path: Any) -> None:
    """So are settled extractive views, to the byte."""
    first, views, activations = said_by("quarter", "0")
    assert len([job for job in first if job.startswith("segment")]) > 20
    assert {job.split()[0] for job in first} == {"segment", "rollup"}
    assert activations > 2
    assert len(views) > 25
    other, *again = said_by("bytes", "random", kept_at(tmp_path / "v.db"))
    common = first.keys() & other.keys()
    assert {job: other[job] for job in common} == {job: first[job] for job in common}
    # which merges a view shows depends on what its tokens count
    assert [job for job in first.keys() ^ other.keys() if job.startswith("segment")] == []
    assert again == [views, activations]


async def segment_keys(log: list[Message]) -> list[tuple[int, int, str]]:
    summarizer = Counting()
    options = Settings(max_tokens=3_000, start_at=0.01, **SMALL)
    async with open_context(options, summarizer=summarizer, count_tokens=count) as context:
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
async def test_ids_times_and_usage_do_not_enter_the_key(dialect: str) -> None:
    log = session(39, 100, dialect=dialect)
    wanted, volatile = await segment_keys(log), copy.deepcopy(log)
    assert len(wanted) > 5
    for at, message in enumerate(volatile):
        message |= {"_meta": {"ts": at}, "timestamp": 1_790_000_000 + at, "id": f"msg_{at}"}
        message |= {"usage": {"input_tokens": at}, "metadata": {"timestamp": f"2026-11-20T10:00:{at % 60:02d}Z"}}
    for same in (renamed(log), volatile, [dict(reversed(message.items())) for message in log]):
        assert await segment_keys(same) == wanted


async def test_other_words_another_role_or_another_pairing_give_another_key() -> None:
    log = session(40, 110)
    wanted = await segment_keys(log)
    place = next(n for n in range(50, 100) if log[n]["role"] == "user")
    for change in ({"content": log[place]["content"] + "!"}, {"role": "assistant"}):
        got = await segment_keys([*log[:place], log[place] | change, *log[place + 1 :]])
        assert got != wanted
        assert len({key for *_, key in got} - {key for *_, key in wanted}) <= 10


if __name__ == "__main__":
    anyio.run(keys_and_views, *sys.argv[1:])
