"""Many sessions on one file in one process: all adds are kept, whoever opens or closes meanwhile."""

import asyncio
import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from summarizing_context import Settings, open_context
from summarizing_context.cli import main

PATIENCE = 300  # seconds, for what takes a few


def settings(store: object, session: str) -> Settings:
    return Settings(store=str(store), session_id=session, token_counter="estimate")


def said(number: int) -> dict[str, str]:
    return {"role": "user" if number % 2 == 0 else "assistant", "content": f"step {number}: look at src/mod{number}.py"}


async def fill(store: object, prefix: str, sessions: int, messages: int) -> None:
    """Open so many sessions at once and add so many messages to each, at once."""

    async def one(session: str) -> None:
        async with open_context(settings(store, session)) as context:
            for number in range(messages):
                await context.add_message(said(number))

    await asyncio.gather(*(one(f"{prefix}{number}") for number in range(sessions)))


async def lengths(store: Path) -> dict[str, int]:
    """The messages of each session, as `sessions list` tells."""
    told = store.with_suffix(".json")
    command = ["sessions", "list", "--store", str(store), "--json", str(told)]
    assert await asyncio.get_running_loop().run_in_executor(None, main, command) == 0
    return {info["session_id"]: info["messages"] for info in json.loads(told.read_text())["sessions"]}


async def test_a_hundred_sessions_that_add_at_once_lose_nothing(tmp_path: Path):
    await asyncio.wait_for(fill(tmp_path / "run.db", "s", 100, 20), PATIENCE)
    assert await lengths(tmp_path / "run.db") == {f"s{number}": 20 for number in range(100)}


async def test_sessions_of_one_file_and_loop_share_one_thread_however_the_file_is_named(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path)

    def threads_of_stores() -> int:
        return sum(thread.name.startswith("store ") for thread in threading.enumerate())

    async with (
        open_context(settings(tmp_path / "run.db", "a")),
        open_context(settings(tmp_path / "link" / "run.db", "b")),
        open_context(settings(tmp_path / ".." / tmp_path.name / "run.db", "c")),
    ):
        assert threads_of_stores() == 1
    assert threads_of_stores() == 0


async def test_an_add_waits_while_another_process_has_the_file_locked_for_longer_than_seconds(tmp_path: Path):
    store = tmp_path / "run.db"
    async with open_context(settings(store, "s")) as context:
        await context.add_message(said(0))
        with closing(sqlite3.connect(store, isolation_level=None)) as other:
            other.execute("begin immediate")
            adding = asyncio.ensure_future(context.add_message(said(1)))
            await asyncio.sleep(6)
            other.execute("rollback")
        await asyncio.wait_for(adding, PATIENCE)
        assert len(await context.get_messages()) == 2
