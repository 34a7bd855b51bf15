"""What the page for operators shows of a pool: the compose file, backup and restore, and how a worker ends."""

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from summarizing_context.adapters.open_sessions import opened_store
from summarizing_context.cli import build_command
from summarizing_context.contrib.postgres.store import read_address
from tests import postgres_server
from tests.contract.store_builders import log_of
from tests.pool.test_pool import PATIENCE, Model, asking, host, working
from tests.postgres_server import rows

COMPOSE = Path(__file__).parents[2] / "docs" / "operate" / "compose.yaml"


def test_the_compose_file_of_the_page_starts_a_worker_as_the_program_takes_it():
    compose: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
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
        assert rows(address, "select count(*) from requests") == [(0,)]
    assert len(model.asked) > 1
    assert model.paid_twice() == 0


def test_the_command_ends_by_sigterm_and_says_so(address):
    command = [sys.executable, "-m", "summarizing_context", "worker", "--store", address, "--model", "m"]
    env = {"OPENAI_API_KEY": "none", "PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""}
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
