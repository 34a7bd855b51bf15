"""A host that removes much, or waits for a lock meanwhile: it keeps its sessions, and holds up no other host."""

import asyncio

import anyio
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.contrib.postgres.store import read_address
from summarizing_context.errors import SessionInUseError
from summarizing_context.stores.base import Place
from tests import postgres_server
from tests.contract.store_builders import entries, log_of, nothing, numbered, opened
from tests.laws.builders import user
from tests.stores.test_postgres import another_host, sql, take_over


async def waiting_for_a_lock(address: str, stores: int = 1) -> None:
    """Wait until so many stores of ours wait for other transactions."""
    asked = (
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%%' || %s || '%%'"
        " and application_name = 'summarizing-context'"
    )
    with sql(address) as connection, anyio.fail_after(120):
        while connection.execute(asked, [read_address(address).schema]).fetchone() != (stores,):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_host_whose_deletion_waits_keeps_its_sessions_beyond_its_lease(address):
    async with opened(address, "mine", "old") as holder, opened(another_host(address)) as other:
        with sql(address) as connection:
            with connection.transaction():
                connection.execute("select 1 from sessions where session_id = 'old' for update")
                postgres_server.end_leases(address)
                deleting = asyncio.create_task(holder.delete_session("old"))
                await waiting_for_a_lock(address)
                with pytest.raises(SessionInUseError):
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
        made = await other.checkpoints.save("live", None, Place(0, 2), [])
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
                    await other.checkpoints.fork("live", made.id, f"fork-{number}")
                    await other.checkpoints.save("live", None, Place(0, 3), [])
                    await other.claim(f"new-{number}")
                    assert not removing.done()
                await removing
        assert len(await log_of(other, "live")) == 2 + 2 * 601
        assert await log_of(other, "fork-0") == await log_of(other, "fork-1") == ["m0", "m1"]
        assert await log_of(holder) == ["m0"]


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
