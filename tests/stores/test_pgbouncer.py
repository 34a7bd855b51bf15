"""Behind PgBouncer in transaction mode, where each transaction may get another connection, the store works the same.

Skipped where the program `pgbouncer` is not installed.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from summarizing_context.contrib.postgres import pool as workers
from summarizing_context.contrib.postgres import store as hosts
from summarizing_context.stores.base import Scope
from tests import postgres_server
from tests.contract.store_builders import entries, log_of, nothing, numbered, opened
from tests.pool import test_pool as pool
from tests.stores import test_postgres as direct

pytestmark = pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="pgbouncer is not installed")

POOL = 3  # connections of the pooler to the server
HOSTS = 12
TULIP = '{"role": "user", "content": "Plant a tulip."}'


@pytest.fixture(scope="module")
def pooler(postgres: str) -> Iterator[str]:
    """The address of a pooler before the tests' server."""
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
default_pool_size = {POOL}
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
def address(pooler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store that is not there yet, behind the pooler. No notice comes: who waits looks again, here at once."""
    monkeypatch.setattr(hosts, "LOOK_AGAIN", 0.1)
    monkeypatch.setattr(workers, "_LOOK_AGAIN", 0.1)
    _, _, ours = postgres_server.address_for(tmp_path).partition("&schema=")
    return f"{pooler}&schema={ours}"


async def test_many_hosts_share_few_connections_of_the_server(address):
    async with AsyncExitStack() as stack:
        hosts = [f"host-{number}" for number in range(HOSTS)]
        stores = [await stack.enter_async_context(opened(f"{address}&application_name={one}", one)) for one in hosts]
        for _ in range(3):
            for host, store in zip(hosts, stores, strict=True):
                await store.append(host, entries(TULIP, TULIP), nothing)
        await stores[0].append(hosts[0], numbered(600), nothing)
        for host, store in zip(hosts[1:], stores[1:], strict=True):
            assert await log_of(store, host) == [TULIP] * 6
        assert len(await stores[1].search(["tulip"], Scope(hosts[1], hosts[1]), 10)) == 6
        with postgres_server.sql(address) as connection:
            asked = "select count(*) from pg_stat_activity where application_name like 'host-%'"
            (served,) = connection.execute(asked).fetchone() or (0,)
        assert served <= POOL < HOSTS


@pytest.mark.parametrize(
    "case",
    [
        direct.test_a_host_that_lost_its_lease_writes_nothing_and_is_told,
        direct.test_two_hosts_with_the_same_log_pay_for_each_summary_once,
        direct.test_stores_that_create_one_schema_at_the_same_time_all_succeed,
        pool.test_a_worker_makes_what_a_host_asks_for_and_the_host_shows_it,
    ],
)
async def test_hosts_and_workers_work_as_without_it(case, address):
    await case(address)
