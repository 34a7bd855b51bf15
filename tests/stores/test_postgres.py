"""What PostgreSQL alone is asked for: leases, fences, lost connections, and addresses."""

import asyncio
import re
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio
import psycopg
import pytest

from summarizing_context import Settings, SummarizingContext, errors, open_context
from summarizing_context.contrib.postgres import store as shared
from summarizing_context.contrib.postgres.store import PostgresStore, read_address, unreachable
from summarizing_context.stores.base import MemoryScope, NewMemory, Present, keep_memories
from tests import postgres_server
from tests.contract.store_builders import entries, key, log_of, nothing, numbered, opened, summary
from tests.laws.builders import assistant, user
from tests.pool.test_pool import Model, until
from tests.postgres_server import rows, sql


def another_host(address: str) -> str:
    """The same store by another name, so that this process has a second connection to it."""
    return address + "&application_name=another-host"


# One writer


async def take_over(store: PostgresStore, address: str) -> None:
    """Claim the session `s` of a host that lives on: it may prolong its lease between two statements."""
    for _ in range(20):
        postgres_server.end_leases(address)
        with suppress(errors.SessionInUseError):
            await store.claim("s")
            return
    raise AssertionError("the host prolongs its lease again and again")


async def test_a_host_that_lost_its_lease_writes_nothing_and_is_told(address):
    called: list[str] = []
    async with opened(address, "s", "kept") as old, opened(another_host(address)) as new:
        await old.append("s", entries("a"), nothing)
        kept = await old.save_checkpoint("s", Present(0, 1, "kept", []))
        assert kept is not None
        await take_over(new, address)
        await new.append("s", entries("b"), nothing)
        for write in (
            lambda: old.append("s", entries("x"), lambda: called.append("x")),
            lambda: old.append("s", numbered(600), lambda: called.append("many")),
            lambda: old.replace("s", 0, [], lambda: called.append("replaced")),
            lambda: old.save_activation("s", "p", b"state"),
            lambda: old.save_pins("s", "[]", lambda: called.append("pins")),
            lambda: keep_memories(old, MemoryScope(None, "s"), [NewMemory("x", {})]),
            lambda: old.delete_checkpoint("s", kept.id),
        ):
            with pytest.raises(errors.SessionLostError, match=r"session 's': .*open the session again"):
                await write()
        assert await new.memories(None) == []
        assert await new.checkpoints("s") == [kept]
        assert called == []
        await old.append("kept", entries("still mine"), nothing)
        assert await log_of(new) == ["a", "b"]
        assert await log_of(new, "kept") == ["still mine"]


async def test_hosts_that_store_memories_of_a_project_at_once_lose_none(address):
    """Each its own, one that all store, and one of each subject; the first host has lost its session."""
    scope, rounds, names = MemoryScope("garden", "s"), range(12), ("summarizing-context", "another-host", "third-host")
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(opened(f"{address}&application_name={name}")) for name in names]
        await stores[0].claim("s")
        await take_over(stores[1], address)

        async def write(store: PostgresStore, host: int) -> None:
            for at in rounds:
                subject = {"subject": f"bed {at}"}
                for content, metadata in ((f"{host} knows {at}", {}), (f"all {at}", {}), (f"{host} on {at}", subject)):
                    await keep_memories(store, scope, [NewMemory(content, metadata)])

        async with anyio.create_task_group() as tasks:
            for host, store in enumerate(stores):
                tasks.start_soon(write, store, host)
        found = [memory.content for memory in await stores[2].memories(scope)]
        last = [text.split()[-1] for text in found if " on " in text]
        kept = [f"{who} {at}" for who in ("all", "0 knows", "1 knows", "2 knows") for at in rounds]
        assert sorted(last, key=int) == list(map(str, rounds))
        assert sorted(text for text in found if " on " not in text) == sorted(kept)


# Paid once for all hosts


async def fill(context: SummarizingContext) -> None:
    for number in range(44):
        await context.add_message(user(f"Step {number}: " + "plant a tulip. " * 60))
        await context.add_message(assistant(f"Planted {number}."))
    await context.get_messages_for_request()


async def test_two_hosts_with_the_same_log_pay_for_each_summary_once(address):
    model, contexts = Model(), []
    model.released.clear()
    async with AsyncExitStack() as hosts:
        for name, host in zip("abc", (address, *[another_host(address)] * 2), strict=True):
            given = Settings(store=host, session_id=name, max_tokens=8_000)
            contexts.append(await hosts.enter_async_context(open_context(given, summarizer=model)))
            await fill(contexts[-1])
        await until(lambda: model.asked)
        model.released.set()
        for context in contexts:
            assert await context.wait_idle(60)
        figures = [context.statistics() for context in contexts]
    assert len(model.asked) > 3
    assert model.paid_twice() == 0
    assert len({one.summaries_ready for one in figures}) == 1
    assert {one.summaries_failed for one in figures} == {0}


@pytest.mark.parametrize("end", ["block", "deadline", "lease"])
async def test_a_claim_ends_with_its_block_its_deadline_or_the_lease_of_its_host(address, monkeypatch, end):
    monkeypatch.setattr(shared, "LOOK_AGAIN", 0.05)
    taken = anyio.Event()

    async def take(store: PostgresStore) -> None:
        async with store.hold_key(key(1), 60):
            taken.set()

    async with opened(address) as one, opened(another_host(address)) as two, anyio.create_task_group() as tasks:
        async with one.hold_key(key(1), 0.5 if end == "deadline" else 60):
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
    async with open_context(Settings(store=address, session_id="s", max_tokens=4_000)) as context:
        await fill(context)
        assert await context.wait_idle(60)
        before = await context.get_messages_for_request()
        with sql(address) as connection, connection.transaction():
            for table in ("writers", "sessions", "entries", "summaries", "activations"):
                connection.execute(f"lock table {table} in access exclusive mode".encode())
            adding = asyncio.ensure_future(context.add_message(user("Go on.")))
            with anyio.fail_after(120):
                for _ in range(3):
                    assert await context.get_messages_for_request() == before
            assert not adding.done()
        await adding
        assert (await context.get_messages_for_request())[-1]["content"] == "Go on."


# A host that removes much, or waits for a lock meanwhile, keeps its sessions, and holds up no other


async def waiting_for_a_lock(address: str) -> None:
    """Wait until our store waits for another transaction."""
    waits = "application_name = 'summarizing-context' and wait_event_type = 'Lock'"
    asked = f"select count(*) from pg_stat_activity where {waits} and query like '%{read_address(address).schema}%'"
    await until(lambda: rows(address, asked) == [(1,)])


async def test_a_host_whose_deletion_waits_keeps_its_sessions_beyond_its_lease(address):
    async with opened(address, "mine", "old") as holder, opened(another_host(address)) as other:
        with sql(address) as connection:
            with connection.transaction():
                connection.execute("select 1 from sessions where session_id = 'old' for update")
                postgres_server.end_leases(address)
                deleting = asyncio.create_task(holder.delete_session("old"))
                await waiting_for_a_lock(address)
                with pytest.raises(errors.SessionInUseError):
                    await other.claim("mine")
            assert await deleting
            await holder.append("mine", entries("still mine"), nothing)
            assert await log_of(other, "mine") == ["still mine"]


async def test_no_deletion_and_no_purge_waits_for_a_vacuum(address):
    async with opened(address, "mine", "old") as store:
        with sql(address) as connection, connection.transaction():
            connection.execute("lock table words in share update exclusive mode")  # as a VACUUM does
            with anyio.fail_after(120):
                assert await store.delete_session("old")
                await store.purge()
            await store.append("mine", entries("a"), nothing)


async def test_other_hosts_append_fork_and_keep_checkpoints_while_a_deletion_and_a_purge_wait(address):
    """Each is held up at a row that it removes, with all its locks."""
    async with opened(address, "s", "old") as holder, opened(another_host(address), "live") as other:
        await other.append("live", numbered(2), nothing)
        made = await other.save_checkpoint("live", Present(0, 2, None, []))
        await holder.append("old", numbered(3), nothing)
        await holder.append("s", numbered(3), nothing)
        await holder.replace("s", 1, [], nothing)
        for number, remove in enumerate((lambda: holder.delete_session("old"), holder.purge)):
            with sql(address) as connection, anyio.fail_after(120):
                with connection.transaction():
                    connection.execute("select 1 from entries for update")
                    removing = asyncio.ensure_future(remove())
                    await waiting_for_a_lock(address)
                    await other.append("live", entries("x"), nothing)
                    await other.append("live", numbered(600), nothing)
                    await other.fork("live", made.id, f"fork-{number}")
                    await other.save_checkpoint("live", Present(0, 3, None, []))
                    await other.claim(f"new-{number}")
                    assert not removing.done()
                await removing
        assert len(await log_of(other, "live")) == 2 + 2 * 601
        assert await log_of(other, "fork-0") == await log_of(other, "fork-1") == ["m0", "m1"]
        assert await log_of(holder) == ["m0"]


async def test_a_removal_that_waits_holds_up_no_other_schema(address):
    other = re.sub("schema=test_", "schema=test_other_", address)
    async with opened(address, "s") as store, opened(other, "s") as elsewhere:
        for one in (store, elsewhere):
            await one.append("s", numbered(3), nothing)
            await one.replace("s", 1, [], nothing)
        with sql(address) as connection, anyio.fail_after(120):
            with connection.transaction():
                connection.execute("select 1 from entries for update")
                removing = asyncio.ensure_future(store.purge())
                await waiting_for_a_lock(address)
                assert await elsewhere.purge()
                assert not removing.done()
            await removing
    postgres_server.drop(other)


async def test_deleting_an_unknown_session_removes_nothing_for_another_host_may_just_make_it(address):
    async with opened(address) as store:
        with sql(address) as connection, connection.transaction(), anyio.fail_after(120):
            connection.execute("lock table vectors, checkpoints in exclusive mode")
            assert not await store.delete_session("s")


async def test_uses_that_another_host_notes_while_their_session_is_deleted_keep_no_summary_and_no_name(address):
    noted = "insert into summary_uses (session_id, range_hash, recipe_hash) values ('gone', %s, %s)"
    async with opened(address, "s") as store:
        await store.save_summary("s", key("shared"), summary("text"))
        await store.save_summary("gone", key("left"), summary("text"))
        made = await store.save_checkpoint("s", Present(0, 0, None, []))
        with sql(address) as connection:
            for name in ("shared", "left"):
                connection.execute(noted, key(name))
        await store.fork("s", made.id, "gone")
        await store.delete_session("gone")
        with sql(address) as connection:
            connection.execute(noted, key("left"))
        await store.purge()
        assert set(await store.find_summaries("s", [key("shared"), key("left")])) == {key("shared")}


async def test_a_lost_session_is_told_in_one_line_however_many_views_are_made(address, caplog):
    async with open_context(Settings(store=address, session_id="s")) as context:
        await context.add_message(user("a"))
        async with opened(another_host(address)) as other:
            await take_over(other, address)
            for budget in (5_000, 6_000, 7_000):
                await context.get_messages_for_request(budget)
        told = [record for record in caplog.records if "could not be kept" in record.message]
        assert len(told) == 1
        assert "session 's'" in told[0].message
        assert told[0].exc_info is None


# Lost connections


async def test_a_lost_connection_is_made_again(address):
    ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'summarizing-context'"
    async with opened(address, "s") as store:
        for number in range(5):
            await store.append("s", entries(str(number)), nothing)
            with sql(address) as connection:
                assert connection.execute(f"{ended} and pid <> pg_backend_pid()".encode()).fetchall()
        await store.save_activation("s", "p", b"state")
        assert await log_of(store) == [str(number) for number in range(5)]


async def test_a_host_that_lost_its_connection_gives_its_sessions_up_when_it_closes(address):
    ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'summarizing-context'"
    async with opened(another_host(address)) as other:
        async with opened(address, "s"):
            with sql(address) as connection:
                assert connection.execute(f"{ended} and pid <> pg_backend_pid()".encode()).fetchall()
        await other.claim("s")


async def test_a_commit_without_an_answer_is_not_done_twice(address, monkeypatch):
    armed: list[bool] = []
    called: list[str] = []
    execute = psycopg.Connection.execute

    def answer_gets_lost(self: Any, query: Any, *values: Any, **options: Any) -> Any:
        result = execute(self, query, *values, **options)
        if armed and query == "commit":
            armed.clear()
            self.close()
            raise psycopg.OperationalError("the server closed the connection")
        return result

    monkeypatch.setattr(psycopg.Connection, "execute", answer_gets_lost)
    async with opened(address, "s") as store:
        await store.append("s", entries("a"), nothing)
        for write in (
            lambda: store.append("s", entries("b"), lambda: called.append("b")),
            lambda: store.append("s", numbered(600), lambda: called.append("many")),
            lambda: store.replace("s", 1, entries("c"), lambda: called.append("c")),
        ):
            armed.append(True)
            await write()
            assert not armed, "the answer was lost"
        assert called == ["b", "many", "c"]
        assert await log_of(store) == ["a", "c"]


async def test_a_server_that_is_not_there_is_told(tmp_path):
    store = PostgresStore(f"postgresql://u:secret@/db?host={tmp_path}")
    with pytest.raises(errors.StoreUnreachableError, match="cannot be reached") as raised:
        await store.open()
    assert "secret" not in f"{raised.value}{raised.value.__cause__}{store.name}"


# Schemas


async def test_a_store_of_a_later_version_is_refused(address):
    async with opened(address):
        pass
    with sql(address) as connection:
        connection.execute("update version set number = 99")
    for read_only in (False, True):
        with pytest.raises(errors.StoreVersionError, match="99"):
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


def test_a_wrong_parameter_is_refused():
    for wrong in ("schema=a-b", "schema=pg_x", "lease=soon", "lease=0.1", "schema=a;drop"):
        with pytest.raises(errors.SettingsError, match=wrong.partition("=")[0]):
            read_address(f"postgresql://h/d?{wrong}")


@pytest.mark.parametrize("info", ["u:se@cret", "u:se/cret", "u:12/cret", "u:12@h/cret", "u:se?cret", "u:1#cret"])
def test_a_password_that_is_not_escaped_is_not_shown(info):
    store = f"postgresql://{info}@h/d"
    assert "cret" not in repr(Settings(store=store))
    with suppress(errors.SettingsError):
        assert "cret" not in read_address(store).name
    if "#" not in info:
        with pytest.raises(errors.SettingsError, match="%40") as raised:
            read_address(store)
        assert "cret" not in str(raised.value)
        assert raised.value.__cause__ is None


@pytest.mark.parametrize("part", ["u:p%40secret@h/d", "u@h/d?password=p%40secret", "u:p@h/d?sslpassword=secret"])
def test_words_of_the_client_that_hold_a_part_of_the_password_are_left_out(part):
    fault = unreachable(read_address(f"postgresql://{part}"), psycopg.OperationalError("no host 'secret@h'"))
    assert "secret" not in f"{fault}{fault.__cause__}"
    told = unreachable(read_address(f"postgresql://{part}"), psycopg.OperationalError("no host 'h'"))
    assert "It said: no host 'h'" in str(told)
