"""Many sessions on one file in one process: all adds are kept, whoever opens or closes meanwhile."""

import asyncio
import json
from pathlib import Path

import anyio

from summarizing_context import Settings
from summarizing_context.cli import main
from tests.behaviour.contexts import begun, said
from tests.contract.store_builders import sql

PATIENCE = 300  # seconds, for what takes a few
LOG = [said(number, f"look at src/mod{number}.py") for number in range(20)]


async def test_a_hundred_sessions_that_add_at_once_lose_nothing(tmp_path: Path):
    async def one(session: str) -> None:
        async with begun(LOG, of=Settings, store=tmp_path / "run.db", session_id=session, token_counter="estimate"):
            pass

    names = [f"s{number}" for number in range(100)]
    await asyncio.wait_for(asyncio.gather(*map(one, names)), PATIENCE)
    listed = tmp_path / "sessions.json"
    command = ["sessions", "list", "--store", str(tmp_path / "run.db"), "--json", str(listed)]
    assert await anyio.to_thread.run_sync(main, command) == 0
    told = json.loads(await anyio.Path(listed).read_text())["sessions"]
    assert {info["session_id"]: info["messages"] for info in told} == dict.fromkeys(names, len(LOG))


async def test_an_add_waits_while_another_process_has_the_file_locked_for_longer_than_seconds(tmp_path: Path):
    async with begun(LOG[:1], of=Settings, store=tmp_path / "run.db") as context:
        with sql(tmp_path / "run.db") as other:
            other.execute("begin immediate")
            adding = asyncio.ensure_future(context.add_message(LOG[1]))
            await asyncio.sleep(6)
            other.execute("rollback")
        await asyncio.wait_for(adding, PATIENCE)
        assert await context.get_messages() == LOG[:2]
