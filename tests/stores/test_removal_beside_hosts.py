"""A host that removes much, or waits for a lock meanwhile: it keeps its sessions, and holds up no other host."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from summarizing_context.errors import SessionInUseError, StoreError
from summarizing_context.stores.postgres.address import read_address
from summarizing_context.stores.postgres.connection import PostgresConnection
from summarizing_context.stores.postgres.driver import PostgresDriver
from tests import postgres_server
from tests.contract.store_builders import entries, log_of, nothing
from tests.stores.test_postgres import another_host, end_leases, opened, sql

pytestmark = pytest.mark.anyio


@pytest.fixture
def address(postgres: str, tmp_path: Path) -> str:
    """A store that is not there yet."""
    return postgres_server.address_for(tmp_path)


async def waiting_for_a_lock(address: str) -> None:
    """Wait until a store of ours waits for another transaction."""
    asked = (
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%%' || %s || '%%'"
        " and application_name = 'summarizing-context'"
    )
    with sql(address) as connection, anyio.fail_after(120):
        while connection.execute(asked, [read_address(address).schema]).fetchone() == (0,):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_host_whose_deletion_waits_keeps_its_sessions_beyond_its_lease(address):
    async with opened(address, "mine", "old") as holder, opened(another_host(address)) as other:
        with sql(address) as connection:
            with connection.transaction():
                connection.execute("select 1 from sessions where session_id = 'old' for update")
                end_leases(address)
                deleting = asyncio.create_task(holder.delete_session("old"))
                await waiting_for_a_lock(address)
                with pytest.raises(SessionInUseError):
                    await other.claim("mine")
            assert await deleting
            await holder.append("mine", entries("still mine"), nothing)
            assert await log_of(other, "mine") == ["still mine"]


async def test_what_a_host_begins_renews_a_lease_that_is_about_to_end(address, monkeypatch):
    """Also a reading, and work that fails: nothing of that renews it by itself."""
    monkeypatch.setattr(PostgresDriver, "beat", lambda self, connection: None)
    left = "select until > now() + make_interval(secs => 1) from writers"

    def fails(connection: PostgresConnection) -> None:
        raise StoreError("no")

    async with opened(address, "s") as store:
        with sql(address) as connection:
            monkeypatch.setattr(PostgresConnection, "_is_due", lambda self, kept_at: True)
            end_leases(address)
            assert await store.load("s") is not None
            assert connection.execute(left).fetchone() == (True,)
            end_leases(address)
            with pytest.raises(StoreError, match="no"):
                await store.submit(fails)
            assert connection.execute(left).fetchone() == (True,)


async def test_no_deletion_waits_for_a_vacuum_and_purge_passes_over_what_is_locked(address):
    async with opened(address, "mine", "old") as store:
        with sql(address) as connection, connection.transaction():
            connection.execute("lock table words in share update exclusive mode")  # as a VACUUM does
            with anyio.fail_after(120):
                assert await store.delete_session("old")
                await store.purge()
            await store.append("mine", entries("a"), nothing)
