"""Many sessions on one file, in one process and in two: all adds are kept, whoever opens or closes meanwhile."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

from summarizing_context import Settings, open_context
from summarizing_context.cli import main

PATIENCE = 300  # seconds, for what takes a few

OTHER_PROCESS = """
import asyncio, sys
from tests.behaviour.test_many_sessions_on_one_file import fill
asyncio.run(fill(sys.argv[1], sys.argv[2], 30, 15))
"""


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
    before = threading.active_count()
    async with (
        open_context(settings(tmp_path / "run.db", "a")),
        open_context(settings(tmp_path / "link" / "run.db", "b")),
        open_context(settings(tmp_path / ".." / tmp_path.name / "run.db", "c")),
    ):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_event_loops_in_several_threads_use_one_file(tmp_path: Path):
    errors: list[BaseException] = []

    def run(prefix: str) -> None:
        try:
            asyncio.run(fill(tmp_path / "run.db", prefix, 5, 10))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[f"t{number}-"]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []
    assert set(asyncio.run(lengths(tmp_path / "run.db")).values()) == {10}


async def test_two_processes_with_many_sessions_each_lose_nothing(tmp_path: Path):
    store = tmp_path / "run.db"
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", OTHER_PROCESS, str(store), "theirs")
    try:
        await asyncio.wait_for(asyncio.gather(fill(store, "ours", 30, 15), other.wait()), PATIENCE)
    finally:
        if other.returncode is None:
            other.kill()
            await other.wait()
    assert other.returncode == 0
    assert list((await lengths(store)).values()) == [15] * 60


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
