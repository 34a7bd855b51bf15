"""Workers of a pool make what hosts ask for: once, also when hosts or workers are gone, and never in a host's way.

And what the page for operators shows: the compose file, backup and restore, and how a worker ends.
"""

import asyncio
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import yaml

from summarizing_context import Settings, SettingsError, SummarizingContext, SummaryJob, open_context
from summarizing_context.adapters.open_sessions import opened_store
from summarizing_context.assembly import open_store
from summarizing_context.cli import build_command
from summarizing_context.contrib.postgres.pool import RETRIES, PoolCaller, PoolWorker, PostgresRequests, pool_worker
from summarizing_context.contrib.postgres.store import read_address
from summarizing_context.errors import SummarizerRefused
from summarizing_context.stores.base import SummaryKey
from summarizing_context.testing import range_name
from tests import postgres_server
from tests.contract.store_builders import log_of
from tests.laws.builders import assistant, user
from tests.postgres_server import rows
from tests.summarizers.scripted import job

SMALL: dict[str, Any] = {"segment_min": 150, "segment_target": 300, "segment_max": 600, "summary_max_tokens": 60}
SMALL |= {"max_tokens": 1_000, "safety_margin": 0, "start_at": 0.01, "breaker_cooldown": 0.05}
SECRET = "tulip-7781"
ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds; what comes later is taken for lost


class Model:
    """A model that hosts and workers know by one name; it keeps what it was asked."""

    recipe = "pool-tests/1"

    def __init__(self, seconds: float = 0.0) -> None:
        self.asked, self.running, self._seconds = list[SummaryJob](), 0, seconds
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


def count(address: str, table: str) -> int:
    return rows(address, f"select count(*) from {table}")[0][0]


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


async def asking(address: str, context: SummarizingContext) -> None:
    """Talk until more than one request waits for a worker."""
    await talk(context, 6)
    await until(lambda: count(address, "requests") > 1)


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
    assert count(address, "requests") == 0


async def test_a_pool_that_is_down_costs_stand_ins_and_one_that_drains_finishes_what_it_makes(address):
    """And what is redacted reaches neither the database nor a worker."""
    mine, model, later = Model(), Model(seconds=0.3), Model()
    redact = lambda text: text.replace(SECRET, "[gone]")  # noqa: E731
    async with host(address, model=mine, redact=redact) as context:
        with anyio.fail_after(PATIENCE):
            await talk(context, about=SECRET)
        assert context.statistics().activations
        assert context.statistics().stand_ins > 0
        await until(lambda: count(address, "requests") > 1)
        requests = rows(address, "select request from requests")
        async with working(address, model, concurrency=2) as worker:
            await until(lambda: model.running)
            worker.drain()
        assert model.running == 0
        assert count(address, "summaries") == len(model.asked)  # all that was begun was kept
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
    model.released.clear()
    async with (
        working(address, model, "one"),
        working(address, model, "two"),
        host(address, "pool", "a", model) as first,
        host(address, "pool", "b", model) as second,
        host(address, "own", "c", model) as third,
        host(address, "own", "d", model) as fourth,
    ):
        hosts = (first, second, third, fourth)
        async with anyio.create_task_group() as tasks:
            for context in hosts:
                tasks.start_soon(talk, context)
        await until(lambda: model.asked)
        model.released.set()
        for context in hosts:
            assert await context.wait_idle(PATIENCE)
        assert len({context.statistics().summaries_ready for context in hosts}) == 1
        assert {context.statistics().summaries_failed for context in hosts} == {0}
    assert len(model.asked) > 3
    assert model.paid_twice() == 0


async def test_what_a_worker_declines_is_refused_at_the_host_too_which_asks_for_it_less_often(address):
    class Declining(Model):
        async def summarize(self, job: SummaryJob) -> str:
            return await super().summarize(job) if job.kind == "rules" else ""

    store: Any = await open_store(address)
    known: Any = SimpleNamespace(recipe=Model.recipe, model=None)
    async with working(address, Declining(), call_timeout=500.0) as worker:
        assert worker._claim > 3 * 500, "no other worker pays meanwhile"
        with anyio.fail_after(PATIENCE), pytest.raises(SummarizerRefused, match="the reply is empty"):
            await PoolCaller(settings(address, "pool"), store, known).summarize(job(recipe_hash="recipe"))
    await store.close()


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
async def test_what_a_session_asked_goes_with_it_also_where_a_worker_makes_it_meanwhile(
    address, meanwhile, monkeypatch
):
    """A worker that checks replies otherwise leaves it."""
    model = Model()
    async with host(address) as context:
        await asking(address, context)
        async with opened_store(address) as store:
            with monkeypatch.context() as later:
                later.setattr("summarizing_context.contrib.postgres.pool.GROUNDING_VERSION", "later")
                assert await PostgresRequests(store).take(Model.recipe, 1) == []
            assert len(await PostgresRequests(store).take(Model.recipe, 1)) == 1
    model.released.clear()
    if not meanwhile:
        await delete(address, "s")
    async with working(address, model):
        if meanwhile:
            await until(lambda: model.running > 1)
            await delete(address, "s")
        model.released.set()
        await asyncio.sleep(0.3)
        await until(lambda: count(address, "claims") == 0)
    assert meanwhile or model.asked == []
    assert count(address, "requests") == count(address, "summaries") == 0


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


def test_the_compose_file_of_the_page_starts_a_worker_as_the_program_takes_it():
    compose: dict[str, Any] = yaml.safe_load((ROOT / "docs/operate/compose.yaml").read_text(encoding="utf-8"))
    services = compose["services"]
    program, name, *arguments = shlex.split(services["worker"]["command"])
    assert (program, name) == ("summarizing-context", "worker")
    command = build_command().commands[name]
    parsed = command.make_context(name, arguments).params
    user = services["db"]["environment"]["POSTGRES_USER"]
    assert read_address(parsed["store"]).url == f"postgresql://{user}@db/agents"
    drain = next(one.default for one in command.params if one.name == "drain")
    assert int(services["worker"]["stop_grace_period"].removesuffix("s")) > drain
    assert set(services["worker"]["depends_on"]) <= set(services)
    mounted = services["db"]["volumes"][0].partition(":")[0]
    assert mounted in compose["volumes"]
    assert "[postgres]" in services["worker"]["build"]["dockerfile_inline"]


async def test_a_restored_dump_holds_the_sessions_and_the_requests_that_wait(address, tmp_path):
    programs = next((place for place in postgres_server.binaries() if (place / "pg_dump").exists()), None)
    if programs is None:
        pytest.skip("pg_dump is not installed")
    async with host(address) as context:
        await asking(address, context)
        known = read_address(address)
        dump = str(tmp_path / "dump")
        command = [str(programs / "pg_dump"), "--format=custom", f"--schema={known.schema}", f"--file={dump}"]
        done = await anyio.run_process([*command, known.url], check=False)
        if b"server version mismatch" in done.stderr:
            pytest.skip("the server is newer than pg_dump")
        assert done.returncode == 0, done.stderr
    async with opened_store(address, read_only=True) as store:
        log = await log_of(store)
    with postgres_server.sql(address) as connection:
        connection.execute(f"drop schema {known.schema} cascade".encode())
    await anyio.run_process([str(programs / "pg_restore"), f"--dbname={known.url}", dump])
    postgres_server.end_leases(address)
    model = Model()
    async with host(address) as context, working(address, model):
        async with opened_store(address, read_only=True) as store:
            assert await log_of(store) == log
        assert await context.wait_idle(PATIENCE)
        assert context.statistics().summaries_pending == 0
        assert count(address, "requests") == 0
    assert len(model.asked) > 1
    assert model.paid_twice() == 0


def test_the_command_ends_by_sigterm_and_says_so(address):
    command = [sys.executable, "-m", "summarizing_context", "worker", "--store", address, "--model", "m"]
    env = {"OPENAI_API_KEY": "none", "PYTHONPATH": str(ROOT), "PATH": ""}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--json", "-"], env=env, **pipes) as worker:
        try:
            assert "requests for summaries are answered" in worker.stderr.readline()
            assert json.loads(worker.stdout.readline())["serves"] == "worker"
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(30) == 0
            told = worker.stderr.read()
            assert "is draining" in told
            assert "has ended" in told
        finally:
            worker.kill()
