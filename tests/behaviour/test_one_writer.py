"""A session has one writer, also when somebody removes its lock file, and when its writer is killed."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from summarizing_context import SessionInUseError, Settings, open_context
from tests.laws.builders import user

WRITER = """
import asyncio, sys
from summarizing_context import Settings, SummarizingContextError, open_context

async def main():
    async with open_context(Settings(store=sys.argv[1], session_id="s", token_counter="estimate")) as context:
        print("open", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                await context.add_message({"role": "user", "content": line.strip()})
                print("added", flush=True)
            except SummarizingContextError as error:
                print(type(error).__name__, flush=True)

try:
    asyncio.run(main())
except SummarizingContextError as error:
    print(type(error).__name__, flush=True)
"""


class Writer:
    """Another process that opens the session for writing."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    async def told(self) -> str:
        assert self.process.stdout is not None
        return (await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), 120)).strip()

    async def add(self, text: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return await self.told()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(120)


@contextmanager
def writer(store: Path) -> Iterator[Writer]:
    command = [sys.executable, "-c", WRITER, str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Writer(process)
        finally:
            process.kill()


def settings(store: Path) -> Settings:
    return Settings(store=str(store), session_id="s", token_counter="estimate")


def said(text: str) -> dict[str, str]:
    return user(text)


def remove_locks(store: Path) -> None:
    for lock in locks(store):
        lock.unlink()


def locks(store: Path) -> list[Path]:
    return list(store.parent.glob("*.lock"))


async def stored(store: Path) -> list[object]:
    async with open_context(settings(store), read_only=True) as context:
        return [message["content"] for message in await context.get_messages()]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the first writer fails")
async def test_a_second_writer_is_refused_after_the_lock_file_was_removed_and_the_first_goes_on(tmp_path: Path):
    store = tmp_path / "run.db"
    with writer(store) as first:
        assert await first.told() == "open"
        assert await first.add("one") == "added"
        for _ in range(2):
            remove_locks(store)
            with pytest.raises(SessionInUseError, match=str(first.process.pid)):
                async with open_context(settings(store)):
                    pass
        assert await first.add("two") == "added"
        first.end()
    assert await stored(store) == ["one", "two"]


@pytest.mark.parametrize("removed", [False, True], ids=["lock left", "lock removed"])
async def test_a_session_whose_writer_was_killed_is_taken_over(tmp_path: Path, removed: bool):
    store = tmp_path / "run.db"
    with writer(store) as first:
        assert await first.told() == "open"
        assert await first.add("one") == "added"
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(120)
    if removed:
        remove_locks(store)
    async with open_context(settings(store)) as second:
        await second.add_message(said("two"))
    assert await stored(store) == ["one", "two"]


async def test_a_writer_that_lost_its_session_to_another_writes_nothing_more(tmp_path: Path):
    """As on a system that does not tell which files a process has open: there the lock file of the first is gone."""
    store = tmp_path / "run.db"
    with writer(store) as first:
        assert await first.told() == "open"
        assert await first.add("one") == "added"
        first.process.send_signal(signal.SIGSTOP)
        (lock,) = locks(store)
        lock.rename(tmp_path / "moved away")
        async with open_context(settings(store)) as second:
            await second.add_message(said("two"))
        first.process.send_signal(signal.SIGCONT)
        assert await first.add("three") == "StoreError"
        first.end()
    assert await stored(store) == ["one", "two"]
