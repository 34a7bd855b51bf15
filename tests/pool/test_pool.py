"""Workers of a pool make what hosts ask for: once, also when hosts or workers are gone, and never in a host's way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, SettingsError, SummarizingContext, SummaryJob, open_context
from summarizing_context.adapters.open_sessions import opened_store
from summarizing_context.assembly import open_store
from summarizing_context.contrib.postgres.pool import RETRIES, PoolWorker, PostgresRequests, pool_worker
from summarizing_context.stores.base import SummaryKey
from summarizing_context.testing import range_name
from tests.laws.builders import assistant, user
from tests.postgres_server import rows

SMALL: dict[str, Any] = {"segment_min": 150, "segment_target": 300, "segment_max": 600, "summary_max_tokens": 60}
SMALL |= {"max_tokens": 1_000, "safety_margin": 0, "start_at": 0.01, "breaker_cooldown": 0.05}
SECRET = "tulip-7781"
PATIENCE = 120.0  # seconds; what comes later is taken for lost


class Model:
    """A model that hosts and workers know by one name; it keeps what it was asked."""

    recipe = "pool-tests/1"

    def __init__(self, seconds: float = 0.0) -> None:
        self.asked: list[SummaryJob] = []
        self.running = 0
        self._seconds = seconds
        self.released = asyncio.Event()
        self.released.set()

    async def summarize(self, job: SummaryJob) -> str:
        self.asked.append(job)
        self.running += 1
        try:
            await asyncio.sleep(self._seconds)
            await self.released.wait()
        finally:
            self.running -= 1
        return "none" if job.kind == "rules" else f"## Done\n- made {range_name(job.range_hash)}"

    def paid_twice(self) -> int:
        keys = [(job.kind, job.range_hash, job.recipe_hash) for job in self.asked]
        return len(keys) - len(set(keys))


def settings(address: str, workers: str, session: str = "s", **more: Any) -> Settings:
    return Settings(store=address, session_id=session, workers=workers, **{**SMALL, **more})


@asynccontextmanager
async def host(
    address: str, workers: str = "pool", session: str = "s", model: Model | None = None, **options: Any
) -> AsyncIterator[SummarizingContext]:
    """A host whose model must not be asked unless it makes summaries itself."""
    given = settings(f"{address}&application_name=host-{session}", workers, session)
    async with open_context(given, summarizer=model or Model(), **options) as context:
        yield context


@asynccontextmanager
async def opened_worker(given: Settings, model: Model | None, **options: Any) -> AsyncIterator[PoolWorker]:
    async with opened_store(given.store) as store, pool_worker(given, store, summarizer=model, **options) as worker:
        yield worker


@asynccontextmanager
async def working(address: str, model: Model, name: str = "worker", **more: Any) -> AsyncIterator[PoolWorker]:
    """A worker for the length of the block."""
    given = settings(f"{address}&application_name={name}", "own", **more)
    async with opened_worker(given, model, drain_within=PATIENCE) as worker:
        running = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.drain()
            with anyio.fail_after(PATIENCE):
                await running


async def test_a_fault_that_no_retry_mends_ends_the_worker(address, monkeypatch):
    async def broken(*_: object, **__: object) -> None:
        raise TypeError("a fault of the queue")

    monkeypatch.setattr("summarizing_context.contrib.postgres.pool.PostgresRequests.take", broken)
    async with opened_worker(settings(address, "own"), Model(), drain_within=PATIENCE) as worker:
        with anyio.fail_after(PATIENCE), pytest.raises(TypeError):
            await worker.run()


async def talk(context: SummarizingContext, turns: int = 12, about: str = "tulips") -> list[str]:
    """Add messages with a view behind each two; their texts."""
    said = []
    for number in range(turns):
        for row in (user(f"Plant bed {number} with {about}. " * 12), assistant(f"Bed {number} is planted.")):
            await context.add_message(row)
            said.append(row["content"])
        await context.get_messages_for_request()
    return said


async def until(holds: Callable[[], Any], seconds: float = PATIENCE) -> None:
    with anyio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - of a worker, or of the database
            await asyncio.sleep(0.02)


async def asking(address: str, context: SummarizingContext, about: str = "tulips") -> None:
    """Talk until more than one request waits for a worker."""
    await talk(context, 6, about)
    await until(lambda: rows(address, "select count(*) from requests")[0][0] > 1)


async def delete(address: str, session: str) -> None:
    async with opened_store(address) as store:
        await store.delete_session(session)


async def test_a_worker_makes_what_a_host_asks_for_and_the_host_shows_it(address):
    mine, model = Model(), Model()
    async with host(address, model=mine) as context, working(address, model):
        await talk(context)
        assert await context.wait_idle(PATIENCE)
        assert context.statistics().summaries_pending == 0
        await talk(context, 6)  # views take what is ready at their next activation
        assert "made " in str(await context.get_messages_for_request())
        assert await context.wait_idle(PATIENCE)
    assert mine.asked == []
    assert len(model.asked) > 3
    assert model.paid_twice() == 0
    assert rows(address, "select count(*) from requests") == [(0,)]


async def test_a_worker_that_checks_otherwise_leaves_what_a_host_asks_for(address, monkeypatch):
    async with host(address) as context:
        await asking(address, context)
        async with opened_store(address) as store:
            with monkeypatch.context() as later:
                later.setattr("summarizing_context.contrib.postgres.pool.GROUNDING_VERSION", "later")
                assert await PostgresRequests(store).take(Model.recipe, 1) == []
            assert len(await PostgresRequests(store).take(Model.recipe, 1)) == 1


async def test_a_pool_that_is_down_costs_stand_ins_and_one_that_drains_finishes_what_it_makes(address):
    """And what is redacted reaches neither the database nor a worker."""
    mine, model, later = Model(), Model(seconds=0.3), Model()
    redact = lambda text: text.replace(SECRET, "[gone]")  # noqa: E731
    async with host(address, model=mine, redact=redact) as context:
        with anyio.fail_after(PATIENCE):
            await talk(context, about=SECRET)
        assert context.statistics().activations
        assert context.statistics().stand_ins > 0
        await until(lambda: rows(address, "select count(*) from requests")[0][0] > 1)
        requests = rows(address, "select request from requests")
        async with working(address, model, concurrency=2) as worker:
            await until(lambda: model.running)
            worker.drain()
        assert model.running == 0
        made = rows(address, "select count(*) from summaries")[0][0]
        assert made == len(model.asked)  # all that was begun was kept
        async with working(address, later, "later"):
            assert await context.wait_idle(PATIENCE)
        assert context.statistics().summaries_pending == 0
    assert mine.asked == []
    model.asked += later.asked
    assert model.paid_twice() == 0
    assert all(SECRET not in bytes(request).decode() for (request,) in requests)
    assert all(SECRET not in job.prompt for job in model.asked)
    assert any("[gone]" in job.prompt for job in model.asked)


async def test_nothing_is_paid_twice_where_hosts_and_workers_make_summaries(address):
    model = Model(seconds=0.02)  # one for all, so that it sees every call
    async with (
        working(address, model, "one"),
        working(address, model, "two"),
        host(address, "pool", "a", model) as first,
        host(address, "pool", "b", model) as second,
        host(address, "own", "c", model) as third,
    ):
        async with anyio.create_task_group() as tasks:
            for context in (first, second, third):
                tasks.start_soon(talk, context)
        for context in (first, second, third):
            assert await context.wait_idle(PATIENCE)
    assert len(model.asked) > 3
    assert model.paid_twice() == 0


async def test_a_request_that_goes_on_failing_is_tried_again_later_and_later_and_then_waits_for_a_host(address):
    store: Any = await open_store(address)
    requests, key = PostgresRequests(store), SummaryKey("range", "recipe")

    async def taken() -> bool:
        found = await requests.take("model", 5)
        store.give_up_key(key)
        return [one for one, _, _ in found] == [key]

    await requests.ask("s", key, "model", b"{}")
    waits = []
    for _ in RETRIES:
        assert await taken()
        await requests.fail(key, "the model is down")
        waits += rows(address, "select round(extract(epoch from retry_at - clock_timestamp())) from requests")
        assert not await taken()  # it is not due
        rows(address, "update requests set retry_at = now() returning 1")
    assert [float(wait) for (wait,) in waits] == pytest.approx(RETRIES, rel=0.2)
    assert await taken()
    await requests.fail(key, "the model is down")
    assert not await taken()
    assert rows(address, "select retry_at from requests") == [(None,)]
    await requests.ask("s", key, "model", b"{}")
    assert rows(address, "select failures from requests where error is null") == [(0,)]
    assert await taken()
    await store.close()


@pytest.mark.parametrize("meanwhile", [False, True])
async def test_what_a_session_asked_goes_with_it_also_where_a_worker_makes_it_meanwhile(address, meanwhile):
    model = Model()
    async with host(address) as context:
        await asking(address, context)
    model.released.clear()
    if not meanwhile:
        await delete(address, "s")
    async with working(address, model):
        if meanwhile:
            await until(lambda: model.running > 1)
            await delete(address, "s")
        model.released.set()
        await asyncio.sleep(0.3)
        await until(lambda: rows(address, "select count(*) from claims") == [(0,)])
    assert meanwhile or model.asked == []
    for table in ("requests", "summaries"):
        assert rows(address, f"select count(*) from {table}") == [(0,)]


async def test_a_pool_needs_a_shared_store_and_a_model_with_a_name(address, tmp_path):
    alone = settings(str(tmp_path / "run.db"), "pool")
    for opening, words in (
        (open_context(alone, summarizer=Model()), "needs a store that hosts share"),
        (open_context(settings(address, "pool")), "needs a summarizer that workers have too"),
        (opened_worker(settings(address, "own"), None), "a worker asks a model"),
    ):
        with pytest.raises(SettingsError, match=words):
            async with opening:
                pass
