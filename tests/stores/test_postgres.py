"""What PostgreSQL alone is asked for: leases, fences, lost connections, addresses, names of hosts, and a pooler."""

import asyncio
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from summarizing_context import Settings, errors, open_context
from summarizing_context.adapters.open_sessions import opened_store
from summarizing_context.assembly import open_store
from summarizing_context.cli import main
from summarizing_context.contrib.postgres import pool as workers
from summarizing_context.contrib.postgres import store as shared
from summarizing_context.contrib.postgres.store import PostgresStore, read_address, unreachable
from summarizing_context.stores.base import MemoryScope, NewMemory, Present, Scope, keep_memories
from tests import postgres_server
from tests.contract.store_builders import entries, key, log_of, nothing, numbered, opened, summary
from tests.laws.builders import user
from tests.pool import test_pool as pool
from tests.pool.test_pool import until
from tests.postgres_server import rows, sql


def another_host(address: str) -> str:
    """The same store by another name, so that this process has a second connection to it."""
    return address + "&application_name=another-host"


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


async def test_a_view_is_made_while_the_server_answers_nothing_and_of_a_session_that_was_lost(address, caplog):
    """Warn once of a lost session, however many views are made."""
    async with open_context(Settings(store=address, session_id="s", max_tokens=4_000)) as context:
        await pool.talk(context, 44)
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

        async with opened(another_host(address)) as other:
            await take_over(other, address)
            for budget in (5_000, 6_000, 7_000):
                assert await context.get_messages_for_request(budget)
        (told,) = [record for record in caplog.records if "could not be kept" in record.message]
        assert ("session 's'" in told.message, told.exc_info) == (True, None)


async def waiting_for_a_lock(address: str) -> None:
    """Wait until our store waits for another transaction."""
    waits = "application_name = 'summarizing-context' and wait_event_type = 'Lock'"
    asked = f"select count(*) from pg_stat_activity where {waits} and query like '%{read_address(address).schema}%'"
    await until(lambda: rows(address, asked) == [(1,)])


@pytest.mark.parametrize(
    ("held", "session"),
    [
        ("words in share update exclusive", "old"),
        ("vectors, checkpoints in exclusive", "gone"),
    ],
)
async def test_no_removal_waits_for_a_vacuum_nor_for_what_a_session_that_is_not_there_could_have(
    address, held, session
):
    async with opened(address, "mine", "old") as store:
        with sql(address) as connection, connection.transaction(), anyio.fail_after(120):
            connection.execute(f"lock table {held} mode".encode())
            assert await store.delete_session(session) is (session == "old")
            if session == "old":
                await store.purge()
            await store.append("mine", entries("a"), nothing)


async def test_hosts_go_on_and_keep_their_sessions_while_a_deletion_and_a_purge_of_one_wait(address):
    """Each is held up at a row that it removes, with all its locks, longer than the lease of its host. No other schema
    has to wait."""
    elsewhere = re.sub("schema=test_", "schema=test_other_", address)
    async with AsyncExitStack() as stack:
        places = ((address, "s", "old"), (another_host(address), "live"), (elsewhere, "s"))
        holder, other, apart = [await stack.enter_async_context(opened(*place)) for place in places]
        await other.append("live", numbered(2), nothing)
        made = await other.save_checkpoint("live", Present(0, 2, None, []))
        await holder.append("old", numbered(3), nothing)
        await holder.append("s", numbered(3), nothing)
        await holder.replace("s", 1, [], nothing)
        for number, remove in enumerate((lambda: holder.delete_session("old"), holder.purge)):
            await apart.append("s", numbered(3), nothing)
            await apart.replace("s", 1, [], nothing)
            with sql(address) as connection, anyio.fail_after(120):
                with connection.transaction():
                    connection.execute("select 1 from entries for update")
                    postgres_server.end_leases(address)
                    removing = asyncio.ensure_future(remove())
                    await waiting_for_a_lock(address)
                    with pytest.raises(errors.SessionInUseError):
                        await other.claim("s")
                    await other.append("live", entries("x"), nothing)
                    await other.append("live", numbered(600), nothing)
                    await other.fork("live", made.id, f"fork-{number}")
                    await other.save_checkpoint("live", Present(0, 3, None, []))
                    await other.claim(f"new-{number}")
                    assert await apart.purge()
                    assert not removing.done()
                await removing
                await holder.append("s", entries("still mine"), nothing)
        assert len(await log_of(other, "live")) == 2 + 2 * 601
        assert await log_of(other, "fork-0") == await log_of(other, "fork-1") == ["m0", "m1"]
        assert await log_of(holder) == ["m0", "still mine", "still mine"]
    postgres_server.drop(elsewhere)


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
        assert set(await store.find_summaries("s", dict.fromkeys([key("shared"), key("left")]))) == {key("shared")}


def cut_off(address: str) -> None:
    """End the connections of this host."""
    ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'summarizing-context'"
    with sql(address) as connection:
        assert connection.execute(f"{ended} and pid <> pg_backend_pid()".encode()).fetchall()


async def test_a_lost_connection_is_made_again_and_does_not_keep_a_session_that_is_closed(address):
    async with opened(another_host(address)) as other:
        async with opened(address, "s") as store:
            for number in range(5):
                await store.append("s", entries(str(number)), nothing)
                cut_off(address)
            await store.save_activation("s", "p", b"state")
            assert await log_of(store) == [str(number) for number in range(5)]
            cut_off(address)
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


async def test_a_server_that_is_not_there_is_told_without_words_that_hold_a_part_of_the_password(tmp_path):
    store = PostgresStore(f"postgresql://u:secret@/db?host={tmp_path}")
    with pytest.raises(errors.StoreUnreachableError, match="cannot be reached") as raised:
        await store.open()
    assert "secret" not in f"{raised.value}{raised.value.__cause__}{store.name}"
    for part in ("u:p%40secret@h/d", "u@h/d?password=p%40secret", "u:p@h/d?sslpassword=secret"):
        fault = unreachable(read_address(f"postgresql://{part}"), psycopg.OperationalError("no host 'secret@h'"))
        assert "secret" not in f"{fault}{fault.__cause__}"
        told = unreachable(read_address(f"postgresql://{part}"), psycopg.OperationalError("no host 'h'"))
        assert "It said: no host 'h'" in str(told)


async def test_sessions_are_listed_with_the_hosts_that_have_them_open(address, capsys, monkeypatch):
    """By the command line and by the library."""
    monkeypatch.setenv("COLUMNS", "200")

    async def listed(*more: str) -> str:
        assert await anyio.to_thread.run_sync(main, ["sessions", "list", "--store", address, *more]) == 0
        return capsys.readouterr().out

    async def hosts() -> dict[str, tuple[str, int]]:
        rows = json.loads(await listed("--json", "-"))["sessions"]
        return {one["session_id"]: (one["writer_host"], one["writer_pid"]) for one in rows}

    here, mars = (socket.gethostname(), os.getpid()), ("mars", 4711)
    async with open_context(Settings(store=address, session_id="mine")) as context:
        await context.add_message(user("Plant tulips."))
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(socket, "gethostname", lambda: mars[0])
            elsewhere.setattr(os, "getpid", lambda: mars[1])
            theirs = await open_store(another_host(address))
            await theirs.claim("theirs")
        with pytest.raises(errors.SessionInUseError) as held:
            await open_context(Settings(store=address, session_id="theirs")).__aenter__()
        assert (held.value.host, held.value.pid) == mars
        async with opened_store(address, read_only=True) as reader:
            found = {one.session_id: (one.writer_host, one.writer_pid) for one in await reader.sessions()}
        assert found == await hosts() == {"mine": here, "theirs": mars}
        told = await listed()
        assert all(f"process {pid} on {host}" in told for host, pid in (here, mars))
        await theirs.close()
        assert {session: host for session, (host, _) in (await hosts()).items()} == {"mine": here[0], "theirs": None}


# Behind PgBouncer in transaction mode, where each transaction may get another connection

POOLED = 3  # connections of the pooler to the server
TULIP = '{"role": "user", "content": "Plant a tulip."}'


@pytest.fixture(scope="module")
def pooler(postgres: str) -> Iterator[str]:
    """The address of a pooler before the tests' server."""
    if shutil.which("pgbouncer") is None:
        pytest.skip("pgbouncer is not installed")
    folder = Path("/tmp") / f"pooler-{os.getpid()}"  # a socket's path is short
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    server = conninfo_to_dict(postgres)
    target = " ".join(f"{name}={server[name]}" for name in ("host", "port", "user") if server.get(name))
    settings = f"""
[databases]
postgres = {target} dbname={server.get("dbname")}
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = {POOLED}
"""
    (folder / "ini").write_text(settings)
    user = ["-u", "nobody"] if os.getuid() == 0 else []
    with subprocess.Popen(["pgbouncer", "-q", *user, str(folder / "ini")], stderr=subprocess.DEVNULL) as process:
        try:
            address = f"postgresql://{quote(pwd.getpwuid(os.getuid()).pw_name)}@/postgres?host={folder}&port=6432"
            postgres_server.wait_for(address)
            yield address
        finally:
            process.terminate()
            process.wait(30)
            shutil.rmtree(folder)


@pytest.fixture
def pooled(pooler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store that is not there yet, behind the pooler. No notice comes: who waits looks again, here at once."""
    monkeypatch.setattr(shared, "LOOK_AGAIN", 0.1)
    monkeypatch.setattr(workers, "_LOOK_AGAIN", 0.1)
    _, _, ours = postgres_server.address_for(tmp_path).partition("&schema=")
    return f"{pooler}&schema={ours}"


async def test_many_hosts_share_few_connections_of_the_server(pooled):
    async with AsyncExitStack() as stack:
        hosts = [f"host-{number}" for number in range(12)]
        stores = [await stack.enter_async_context(opened(f"{pooled}&application_name={one}", one)) for one in hosts]
        for _ in range(3):
            for host, store in zip(hosts, stores, strict=True):
                await store.append(host, entries(TULIP, TULIP), nothing)
        await stores[0].append(hosts[0], numbered(600), nothing)
        for host, store in zip(hosts[1:], stores[1:], strict=True):
            assert await log_of(store, host) == [TULIP] * 6
        assert len(await stores[1].search(["tulip"], Scope(hosts[1], hosts[1]), 10)) == 6
        with sql(pooled) as connection:
            asked = "select count(*) from pg_stat_activity where application_name like 'host-%'"
            (served,) = connection.execute(asked).fetchone() or (0,)
        assert served <= POOLED < len(hosts)


@pytest.mark.parametrize(
    "case",
    [
        test_a_host_that_lost_its_lease_writes_nothing_and_is_told,
        pool.test_nothing_is_paid_twice_where_hosts_and_workers_make_summaries,
        test_stores_that_create_one_schema_at_the_same_time_all_succeed,
        pool.test_a_worker_makes_what_a_host_asks_for_and_the_host_shows_it,
    ],
)
async def test_hosts_and_workers_work_as_without_it(case, pooled):
    await case(pooled)
