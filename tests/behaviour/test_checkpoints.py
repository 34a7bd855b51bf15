"""Checkpoints: exact, cheap, and nothing that came after one is ever lost."""

import asyncio
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import SettingsError, SummarizingContext, open_context, open_store
from summarizing_context.errors import CheckpointNotFoundError, SessionExistsError
from summarizing_context.testing import memory_store
from tests.behaviour import contexts
from tests.contract.store_builders import sql
from tests.laws.builders import Message, call, count, session, user
from tests.laws.checkers import goes_on
from tests.laws.summarizers import Counting

LOG = session(5, 400, size=30)
small = partial(contexts.small, max_tokens=1_000)
fill = partial(contexts.fill, every=3)  # with a view now and then, as an agent would
begun = partial(contexts.begun, of=small, every=3)


async def one_of_many_things(context: SummarizingContext, rng: random.Random, log: list[Message]) -> None:
    kind = rng.choice(("add", "add", "add", "view", "view", "compact", "cut", "settle"))
    if kind == "add":
        start = rng.randrange(len(LOG) - 12)
        added = LOG[start : start + rng.randint(1, 12)]
        await asyncio.gather(*map(context.add_message, added))
        log += added
    elif kind == "view":
        await seen(context, rng.choice((None, "a", "b", 600)))
    elif kind == "cut" and len(log) > 20:
        del log[rng.randrange(len(log)) :]
        await context.set_messages(log)
    else:
        await (context.compact() if kind == "compact" else context.wait_idle())


async def seen(context: SummarizingContext, who: str | int | None) -> list[Message]:
    window = {"a": 2_000, "b": 3_200}.get(who)
    provider = window and contexts.Provider(who, who, context_window=window, max_output_tokens=1)
    return await context.get_messages_for_request(None if provider else who, provider)


@pytest.mark.parametrize("seed", range(2))
async def test_whatever_happens_a_restore_is_exact(tmp_path: Path, seed: int):
    rng, log, marks = random.Random(seed), list[Message](), dict[str, tuple[Any, list[Message], list[Message]]]()
    settings = small(store=tmp_path / "a.db", merge_user_rows=seed % 2 == 1, safety_margin=0)
    last = list[Message]()
    for _ in range(2):  # the second time in a process that knows the checkpoints from the file only
        async with open_context(settings, summarizer=Counting("counting/1"), count_tokens=count) as context:
            assert await context.get_messages() == log
            assert goes_on(await seen(context, "a"), last)
            for _ in range(22):
                for _ in range(rng.randint(1, 4)):
                    await one_of_many_things(context, rng, log)
                if marks and rng.random() < 0.4:
                    who, then, log_then = marks[mark := rng.choice(list(marks))]
                    now = who, await seen(context, who), list(log)
                    marks[await context.restore(mark)] = now  # what came after a checkpoint can be returned to
                    log[:] = log_then
                    assert await context.get_messages() == log
                    assert goes_on(await seen(context, who), then)
                elif log:
                    now = (who := rng.choice((None, "a", "b"))), await seen(context, who), list(log)
                    marks[await context.checkpoint()] = now
            last = await seen(context, "a")
    assert len(marks) > 10


async def test_a_view_that_is_asked_for_while_a_log_is_restored_is_handed_out():
    store = await memory_store()
    async with open_context(small(), store=store, count_tokens=count) as context:
        await context.add_message(user("Go."))
        mark, save = await context.checkpoint(), store.save_activation
        await fill(context, LOG[:60])
        await context.compact()

        async def saved_then_restored(*given: Any) -> None:
            store.save_activation = save
            await save(*given)
            await context.restore(mark)

        await context.add_message(asked := call("openai", ("c1", "run", {})))
        store.save_activation = saved_then_restored  # as a view is that gives up a call
        assert asked in await context.get_messages_for_request()
        assert await context.get_messages() == [user("Go.")]


async def test_a_fork_goes_its_own_way_without_copying(tmp_path: Path):
    path = tmp_path / "a.db"
    async with begun(LOG[:150], store=path, project="p", summarizer=Counting("c/1")) as context:
        await context.wait_idle()
        then = await context.get_messages_for_request()
        mark = await context.checkpoint()
        await fill(context, LOG[150:160])
        assert await context.fork(mark, "other") == "other"
        with sql(path) as connection:
            assert connection.execute("select count(*) from entries").fetchone() == (160,)
            assert connection.execute("select project from sessions").fetchall() == [("p",), ("p",)]
        async with begun(store=path, session_id="other", summarizer=(summarizer := Counting("c/1"))) as fork:
            assert goes_on(await fork.get_messages_for_request(), then)
            await fork.wait_idle()
            assert summarizer.calls == 0
            await fork.add_message(user("on a way of its own"))
        assert await context.get_messages() == LOG[:160]
        for taken in ("other", "default"):
            with pytest.raises(SessionExistsError, match=f"'{taken}' already") as caught:
                await context.fork(mark, taken)
            assert (caught.value.session_id, isinstance(caught.value, ValueError)) == (taken, True)


async def test_nothing_that_a_checkpoint_stands_on_is_paid_for_again_after_a_purge(tmp_path: Path):
    path, summarizer = tmp_path / "a.db", Counting("c/1")
    async with begun(LOG[:150], store=path, summarizer=summarizer) as context:
        await context.wait_idle()
        mark = await context.checkpoint()
        await context.set_messages([user("something else")])
        await context.wait_idle()
    assert (paid := len(summarizer.jobs + summarizer.rule_jobs)) > 0
    for _ in range(2):  # the second time without the checkpoint, after a restore
        store = await open_store(path)
        await store.purge()
        await store.close()
        async with begun(store=path, summarizer=summarizer) as context:
            for one in await context.list_checkpoints():
                if one.id == mark:
                    await context.restore(mark)
                await context.delete_checkpoint(one.id)
            await context.get_messages_for_request()
            await context.wait_idle()
            assert await context.get_messages() == LOG[:150]
    assert len(summarizer.jobs + summarizer.rule_jobs) == paid


async def test_a_checkpoint_is_made_at_intervals_or_by_name_listed_found_by_its_name_and_forgotten():
    async with begun(checkpoint_interval_messages=10) as context:
        for message in LOG[:35]:
            await context.add_message(message)
        assert [mark.seq for mark in await context.list_checkpoints()] == [10, 20, 30]
        assert not context.should_checkpoint()
        await asyncio.gather(*map(context.add_message, LOG[35:58]))
        assert len(await context.list_checkpoints()) >= 4
    async with begun(LOG[:5]) as context:
        first = await context.checkpoint("same name")
        await fill(context, LOG[5:9])
        second = await context.checkpoint("same name")
        listed = [(mark.id, mark.seq, mark.name) for mark in await context.list_checkpoints()]
        assert listed == [(first, 5, "same name"), (second, 9, "same name")]
        await context.restore("same name")
        assert len(await context.get_messages()) == 9
        await context.delete_checkpoint(first)
        with pytest.raises(CheckpointNotFoundError):
            await context.restore(first)


MISSING = [("restore", "c77"), ("restore", "\ud800"), ("fork", "c77", "other"), ("delete_checkpoint", "c77")]
WRONG = [("restore", 7), ("fork", "1", "no!"), *(("checkpoint", name) for name in ("", 5, "a\nb", "c12"))]


@pytest.mark.parametrize("call", [*MISSING, ("restore", "no such"), *WRONG])
async def test_what_cannot_be_is_refused_and_changes_nothing(call: tuple[Any, ...]):
    async with begun([user("hello")]) as context:
        with pytest.raises(SettingsError if call in WRONG else CheckpointNotFoundError) as caught:
            await getattr(context, call[0])(*call[1:])
        assert isinstance(caught.value, LookupError) == (call not in WRONG)
        assert (await context.list_checkpoints(), await context.get_messages()) == ([], [user("hello")])


async def test_a_log_of_which_anything_would_be_lost_is_a_checkpoint_first():
    async with begun() as context:
        await context.set_messages(LOG[:120])
        await context.set_messages(LOG[:130])
        assert await context.list_checkpoints() == [], "nothing was lost"
        await fill(context, LOG[130:150])
        view = await context.get_messages_for_request()
        for log in (LOG[:90], [*LOG[:120], LOG[130]], None):
            await (context.set_messages(log) if log else context.clear())
            (*_, newest) = await context.list_checkpoints()
            assert newest.name == f"before the log was {'replaced' if log else 'cleared'}"
            await context.restore(newest.id)
            assert (await context.get_messages(), await context.get_messages_for_request()) == (LOG[:150], view)
        before = await context.list_checkpoints()
        await context.set_messages([*LOG[:150], LOG[130]])
        assert await context.list_checkpoints() == before
