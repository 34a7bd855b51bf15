"""What PostgreSQL alone is asked for: leases, fences, lost connections, and addresses."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import Any

import anyio
import psycopg
import pytest

from summarizing_context import Settings, SummarizingContext, SummaryJob, open_context
from summarizing_context.contrib.postgres import store as shared
from summarizing_context.contrib.postgres.store import PostgresStore, read_address, unreachable
from summarizing_context.errors import (
    SessionInUseError,
    SessionLostError,
    SettingsError,
    StoreUnreachableError,
    StoreVersionError,
)
from summarizing_context.stores.base import MemoryScope, NewMemory, Place, keep_memories
from tests import postgres_server
from tests.contract.store_builders import entries, key, log_of, nothing, numbered, opened


@contextmanager
def sql(address: str) -> Iterator[psycopg.Connection[Any]]:
    """A bare connection whose tables are those of the store."""
    known = read_address(address)
    with psycopg.connect(known.url, autocommit=True) as connection:
        connection.execute(f"set search_path = {known.schema}".encode())
        yield connection


def another_host(address: str) -> str:
    """The same store by another name, so that this process has a second connection to it."""
    return address + "&application_name=another-host"


# One writer


async def take_over(store: PostgresStore, address: str) -> None:
    """Claim the session `s` of a host that lives on: it may prolong its lease between two statements."""
    for _ in range(20):
        postgres_server.end_leases(address)
        with suppress(SessionInUseError):
            await store.claim("s")
            return
    raise AssertionError("the host prolongs its lease again and again")


async def test_a_session_of_another_host_is_refused_and_names_it(address):
    async with opened(address, "s") as holder, opened(another_host(address)) as other:
        with pytest.raises(SessionInUseError) as raised:
            await other.claim("s")
        assert (raised.value.pid, raised.value.host) == (os.getpid(), os.uname().nodename)
        await holder.append("s", entries("a"), nothing)
        assert await log_of(other) == ["a"]


async def test_a_host_that_lost_its_lease_writes_nothing_and_is_told(address):
    called: list[str] = []
    async with opened(address, "s", "kept") as old, opened(another_host(address)) as new:
        await old.append("s", entries("a"), nothing)
        kept = await old.checkpoints.save("s", "kept", Place(0, 1), [])
        assert kept is not None
        await take_over(new, address)
        await new.append("s", entries("b"), nothing)
        for write in (
            lambda: old.append("s", entries("x"), lambda: called.append("x")),
            lambda: old.append("s", numbered(600), lambda: called.append("many")),
            lambda: old.replace("s", 0, [], lambda: called.append("replaced")),
            lambda: old.save_activation("s", "p", b"state"),
            lambda: old.save_pins("s", "[]", lambda: called.append("pins")),
            lambda: keep_memories(old.memories, MemoryScope(None, "s"), [NewMemory("x", {})]),
            lambda: old.checkpoints.delete("s", kept.id),
        ):
            with pytest.raises(SessionLostError, match=r"session 's': .*open the session again"):
                await write()
        assert await new.memories.all(None) == []
        assert await new.checkpoints.listed("s") == [kept]
        assert called == []
        await old.append("kept", entries("still mine"), nothing)
        assert await log_of(new) == ["a", "b"]
        assert await log_of(new, "kept") == ["still mine"]


async def test_hosts_that_store_memories_of_a_project_at_once_lose_none(address):
    """Each its own, one that all store, and one of each subject; the first host has lost its session."""
    scope, rounds = MemoryScope("garden", "s"), 12
    async with AsyncExitStack() as stack:
        hosts = [address, another_host(address), address + "&application_name=third-host"]
        stores = [await stack.enter_async_context(opened(one)) for one in hosts]
        await stores[0].claim("s")
        await take_over(stores[1], address)

        async def write(store: PostgresStore, host: int) -> None:
            for at in range(rounds):
                subject = {"subject": f"bed {at}"}
                for content, metadata in ((f"{host} knows {at}", {}), (f"all {at}", {}), (f"{host} on {at}", subject)):
                    await keep_memories(store.memories, scope, [NewMemory(content, metadata)])

        async with anyio.create_task_group() as tasks:
            for host, store in enumerate(stores):
                tasks.start_soon(write, store, host)
        found = [memory.content for memory in await stores[2].memories.all(scope)]
        kept = {f"{host} knows {at}" for host in range(3) for at in range(rounds)} | {
            f"all {at}" for at in range(rounds)
        }
        assert kept <= set(found)
        assert sorted(text.split()[-1] for text in found if " on " in text) == sorted(map(str, range(rounds)))
        assert len(found) == len(kept) + rounds


# Paid once for all hosts


class Paying:
    """A summarizer of a host. It notes what it was asked, and answers when it may."""

    recipe = "paying"

    def __init__(self, asked: list[str], may_answer: anyio.Event) -> None:
        self.asked, self.may_answer, self.was_asked = asked, may_answer, anyio.Event()

    async def summarize(self, job: SummaryJob) -> str:
        self.asked.append(f"{job.kind} {job.range_hash} {job.max_tokens}")
        self.was_asked.set()
        await self.may_answer.wait()
        return "none" if job.kind == "rules" else f"Done: {len(self.asked)} things were asked for."


async def fill(context: SummarizingContext) -> None:
    for number in range(44):
        await context.add_message({"role": "user", "content": f"Step {number}: " + "plant a tulip. " * 60})
        await context.add_message({"role": "assistant", "content": f"Planted {number}."})
    await context.get_messages_for_request()


async def test_two_hosts_with_the_same_log_pay_for_each_summary_once(address):
    asked: list[str] = []
    payers = [Paying(asked, anyio.Event()) for _ in range(3)]
    async with AsyncExitStack() as hosts:
        contexts = [
            await hosts.enter_async_context(
                open_context(Settings(store=host, session_id=name, max_tokens=8_000), summarizer=payer)
            )
            for name, host, payer in zip("abc", (address, *[another_host(address)] * 2), payers, strict=True)
        ]
        for context in contexts:
            await fill(context)
        await payers[0].was_asked.wait()
        for payer in payers:
            payer.may_answer.set()
        for context in contexts:
            assert await context.wait_idle(60)
        assert len(asked) == len(set(asked)) > 3
        figures = [context.statistics() for context in contexts]
    assert len({one.summaries_ready for one in figures}) == 1
    assert {one.summaries_failed for one in figures} == {0}


@pytest.mark.parametrize("end", ["block", "deadline", "lease"])
async def test_a_claim_ends_with_its_block_its_deadline_or_the_lease_of_its_host(address, monkeypatch, end):
    monkeypatch.setattr(shared, "LOOK_AGAIN", 0.05)
    taken = anyio.Event()

    async def take(store: PostgresStore) -> None:
        async with store.claims.held(key(1), 60):
            taken.set()

    async with opened(address) as one, opened(another_host(address)) as two, anyio.create_task_group() as tasks:
        async with one.claims.held(key(1), 0.5 if end == "deadline" else 60):
            tasks.start_soon(take, two)
            with anyio.move_on_after(0.2):
                await taken.wait()
            assert end == "deadline" or not taken.is_set()
            if end == "lease":
                with sql(address) as connection:  # as if that host had ended long ago
                    connection.execute("update claims set writer = 'gone'")
            if end != "block":
                with anyio.fail_after(60):
                    await taken.wait()
        with anyio.fail_after(60):
            await taken.wait()


async def test_a_view_is_made_while_the_server_answers_nothing(address):
    settings = Settings(store=address, session_id="s", max_tokens=4_000)
    async with open_context(settings) as context:
        await fill(context)
        assert await context.wait_idle(60)
        before = await context.get_messages_for_request()
        with sql(address) as connection, connection.transaction():
            for table in ("writers", "sessions", "entries", "summaries", "activations"):
                connection.execute(f"lock table {table} in access exclusive mode".encode())
            adding = asyncio.ensure_future(context.add_message({"role": "user", "content": "Go on."}))
            with anyio.fail_after(120):
                for _ in range(3):
                    assert await context.get_messages_for_request() == before
            assert not adding.done()
        await adding
        assert (await context.get_messages_for_request())[-1]["content"] == "Go on."


# Lost connections


def end_connections(address: str) -> int:
    """The server ends every connection of a store of ours; how many."""
    with sql(address) as connection:
        ended = connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where application_name = 'summarizing-context' and pid <> pg_backend_pid()"
        )
        return len(ended.fetchall())


async def test_a_lost_connection_is_made_again(address):
    async with opened(address, "s") as store:
        for number in range(5):
            await store.append("s", entries(str(number)), nothing)
            assert end_connections(address) >= 1
        await store.save_activation("s", "p", b"state")
        assert await log_of(store) == [str(number) for number in range(5)]


async def test_a_commit_without_an_answer_is_not_done_twice(address, monkeypatch):
    lost: list[str] = []
    execute = psycopg.Connection.execute

    def answer_gets_lost(self: Any, query: Any, *values: Any, **options: Any) -> Any:
        result = execute(self, query, *values, **options)
        if armed and query == "commit":
            armed.clear()
            lost.append("commit")
            self.close()
            raise psycopg.OperationalError("the server closed the connection")
        return result

    monkeypatch.setattr(psycopg.Connection, "execute", answer_gets_lost)
    armed: list[bool] = []
    called: list[str] = []
    async with opened(address, "s") as store:
        await store.append("s", entries("a"), nothing)
        for write in (
            lambda: store.append("s", entries("b"), lambda: called.append("b")),
            lambda: store.append("s", numbered(600), lambda: called.append("many")),
            lambda: store.replace("s", 1, entries("c"), lambda: called.append("c")),
        ):
            armed.append(True)
            await write()
        assert lost == ["commit"] * 3
        assert called == ["b", "many", "c"]
        assert await log_of(store) == ["a", "c"]


async def test_a_server_that_is_not_there_is_told(tmp_path):
    store = PostgresStore(f"postgresql://u:secret@/db?host={tmp_path}")
    with pytest.raises(StoreUnreachableError, match="cannot be reached") as raised:
        await store.open()
    assert "secret" not in f"{raised.value}{raised.value.__cause__}{store.name}"


# Schemas


async def test_a_store_of_a_later_version_is_refused(address):
    async with opened(address):
        pass
    with sql(address) as connection:
        connection.execute("update version set number = 99")
    for read_only in (False, True):
        with pytest.raises(StoreVersionError, match="99"):
            await PostgresStore(address, read_only=read_only).open()


async def test_stores_that_create_one_schema_at_the_same_time_all_succeed(address):
    async def write(number: int) -> None:
        async with opened(f"{address}&application_name=host{number}", f"s{number}") as store:
            await store.append(f"s{number}", numbered(2), nothing)

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(write, number)
    async with opened(address) as store:
        assert sorted(one.messages for one in await store.sessions()) == [2] * 5


# Addresses


@pytest.mark.parametrize("wrong", ["schema=a-b", "schema=pg_x", "lease=soon", "lease=0.1", "schema=a;drop"])
def test_a_wrong_parameter_is_refused(wrong):
    with pytest.raises(SettingsError, match=wrong.partition("=")[0]):
        read_address(f"postgresql://h/d?{wrong}")


@pytest.mark.parametrize("info", ["u:se@cret", "u:se/cret", "u:12/cret", "u:12@h/cret", "u:se?cret", "u:1#cret"])
def test_a_password_that_is_not_escaped_is_not_shown(info):
    store = f"postgresql://{info}@h/d"
    assert "cret" not in repr(Settings(store=store))
    with suppress(SettingsError):
        assert "cret" not in read_address(store).name
    if "#" not in info:
        with pytest.raises(SettingsError, match="%40") as raised:
            read_address(store)
        assert "cret" not in str(raised.value)
        assert raised.value.__cause__ is None


@pytest.mark.parametrize("part", ["u:p%40secret@h/d", "u@h/d?password=p%40secret", "u:p@h/d?sslpassword=secret"])
def test_words_of_the_client_that_hold_a_part_of_the_password_are_left_out(part):
    fault = unreachable(read_address(f"postgresql://{part}"), psycopg.OperationalError("no host 'secret@h'"))
    assert "secret" not in f"{fault}{fault.__cause__}"
    told = unreachable(read_address(f"postgresql://{part}"), psycopg.OperationalError("no host 'h'"))
    assert "It said: no host 'h'" in str(told)
