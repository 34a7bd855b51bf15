"""same_content_same_key: equal ranges have equal keys in any process, with any token counter."""

import copy
import json
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from tests.docs.checkout import run_python

from .builders import Message, count, session
from .judge import SMALL
from .places import kept_at
from .summarizers import Counting
from .test_what_is_sent_is_counted import IDS


def test_keys_are_equal_across_processes_hash_seeds_and_token_counters(tmp_path: Any) -> None:
    """So are settled extractive views, to the byte."""
    first, views = said_by("quarter", "0")
    assert len([kind for kind, *_ in first if kind == "segment"]) > 20
    assert {kind for kind, *_ in first} == {"segment", "rollup"}
    assert views["activations"] > 2
    assert len(views["views"]) > 25
    other, again = said_by("bytes", "random", kept_at(tmp_path / "v.db"))
    common = first.keys() & other.keys()
    assert {job: other[job] for job in common} == {job: first[job] for job in common}
    # which merges a view shows depends on what its tokens count
    assert [job for job in first.keys() ^ other.keys() if job[0] == "segment"] == []
    assert again == views


def said_by(counter: str, seed: str, store: str = ":memory:") -> tuple[dict[tuple[str, int, int], str], Any]:
    """In a process of its own: the key of each job of one log, by its kind and its range; and the views of another."""
    ran = run_python(["-m", "tests.laws.child", counter, store], env={"PYTHONHASHSEED": seed})
    assert ran.returncode == 0, ran.stdout
    keys, views = json.loads(ran.stdout.splitlines()[-1])
    return {(kind, start, stop): key for kind, start, stop, key in keys}, views


async def segment_keys(log: list[Message]) -> list[tuple[int, int, str]]:
    summarizer = Counting()
    options = Settings(max_tokens=3_000, start_at=0.01, **SMALL)
    async with open_context(options, summarizer=summarizer, count_tokens=count) as context:
        await context.set_messages(log)
        await context.get_messages_for_request()
        await context.wait_idle()
    return sorted((job.start, job.stop, job.range_hash) for job in summarizer.segments)


def renamed(value: Any, prefix: str) -> Any:
    """The same log with other call ids."""
    if isinstance(value, dict):
        return {name: prefix + one if name in IDS else renamed(one, prefix) for name, one in value.items()}
    return [renamed(item, prefix) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "amplifier"])
async def test_ids_times_and_usage_do_not_enter_the_key(dialect: str) -> None:
    log = session(39, 100, dialect=dialect)
    wanted = await segment_keys(log)
    assert len(wanted) > 5
    assert await segment_keys(renamed(log, "other_")) == wanted
    volatile = copy.deepcopy(log)
    for at, message in enumerate(volatile):
        message |= {"_meta": {"ts": at}, "timestamp": 1_790_000_000 + at, "id": f"msg_{at}"}
        message |= {"usage": {"input_tokens": at}, "metadata": {"timestamp": f"2026-11-20T10:00:{at % 60:02d}Z"}}
    assert await segment_keys(volatile) == wanted
    assert await segment_keys([dict(reversed(message.items())) for message in log]) == wanted


async def test_other_words_another_role_or_another_pairing_give_another_key() -> None:
    log = session(40, 110)
    wanted = await segment_keys(log)
    place = next(n for n in range(50, 100) if log[n]["role"] == "user")
    assert log[place]["role"] == "user"
    for change in ({"content": log[place]["content"] + "!"}, {"role": "assistant"}):
        edited = [*log[:place], log[place] | change, *log[place + 1 :]]
        got = await segment_keys(edited)
        assert got != wanted
        assert len({key for *_, key in got} - {key for *_, key in wanted}) <= 10
