"""One file, several stores: in this process, and in others that live or are killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from summarizing_context.errors import SessionInUseError
from tests.contract import store_builders
from tests.contract.store_builders import (
    entries,
    free_of_the_dead,
    key,
    log_of,
    nothing,
    numbered,
    opened,
    sql,
    summary,
)

pytestmark = pytest.mark.usefixtures("backend")

CHILD = Path(__file__).with_name("store_child.py")
PATIENCE = 120  # seconds, for what takes a fraction of one


@contextmanager
def neighbour(path: Path, session_id: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the session open and a summary saved."""
    command = [sys.executable, str(CHILD), "neighbour", store_builders.chosen, str(path), session_id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        guard = threading.Timer(PATIENCE, child.kill)  # ends every wait for its answers
        guard.start()
        try:
            assert answer(child) == "ready"
            yield child
        finally:
            guard.cancel()
            child.kill()


def answer(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def ask(child: subprocess.Popen[str], line: str) -> str:
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()
    return answer(child)


async def test_two_processes_use_different_sessions_and_share_summaries(path):
    async with opened(path, "ours") as store:
        await store.append("ours", numbered(3), nothing)
        with neighbour(path, "theirs") as child:
            assert await store.find_summaries("ours", [key("child")]) == {key("child"): summary("by the child")}
            assert ask(child, "parent") == "none"
            await store.save_summary("ours", key("parent"), summary("by the parent"))
            assert ask(child, "parent") == "by the parent"
            assert await store.save_summary("ours", key("child"), summary("second")) == summary("by the child")
            await store.append("ours", entries("more"), nothing)
            pids = {one.session_id: one.writer_pid for one in await store.sessions()}
            assert pids == {"ours": os.getpid(), "theirs": child.pid}
            assert ask(child, "") == "closed"
        assert {one.session_id: one.writer_pid for one in await store.sessions()}["theirs"] is None
        await store.claim("theirs")


async def test_a_session_open_in_another_process_is_refused_until_that_is_killed(path):
    async with opened(path) as store:
        with neighbour(path, "s") as child:
            with pytest.raises(SessionInUseError, match=str(child.pid)) as raised:
                await store.claim("s")
            assert raised.value.pid == child.pid
            with pytest.raises(SessionInUseError):
                await store.delete_session("s")
            child.kill()
            child.wait(PATIENCE)
        await free_of_the_dead(store, path, "s")
        await store.claim("s")
        assert (await store.sessions())[0].writer_pid == os.getpid()


def test_stores_that_create_one_file_at_the_same_time_all_succeed(path):
    errors: list[BaseException] = []
    start = threading.Barrier(6)

    async def write(name: str) -> None:
        start.wait(PATIENCE)
        async with opened(path, name) as store:
            await store.append(name, numbered(3), nothing)
            assert await log_of(store, name) == ["m0", "m1", "m2"]

    def run(name: str) -> None:
        try:
            asyncio.run(write(name))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[f"s{i}"]) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []
    with sql(path) as connection:
        assert connection.execute("select count(*), sum(stop) from sessions").fetchone() == (6, 18)
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
