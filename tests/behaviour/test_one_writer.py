"""A session has one writer, also when somebody removes its lock file, and when its writer is killed."""

import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

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
    """Another process that has the session open for writing and has added "one"."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self.process, self.out = process, BufferedByteReceiveStream(process.stdout)

    async def told(self) -> str:
        with anyio.fail_after(120):
            return (await self.out.receive_until(b"\n", 1_000)).decode().strip()

    async def add(self, text: str) -> str:
        await self.process.stdin.send(f"{text}\n".encode())
        return await self.told()

    async def end(self) -> None:
        await self.process.stdin.aclose()
        await self.process.wait()


@asynccontextmanager
async def writer(store: Path) -> AsyncIterator[Writer]:
    async with await anyio.open_process([sys.executable, "-c", WRITER, str(store)], stderr=None) as process:
        try:
            made = Writer(process)
            assert (await made.told(), await made.add("one")) == ("open", "added")
            yield made
        finally:
            if process.returncode is None:
                process.kill()


def settings(store: Path) -> Settings:
    return Settings(store=str(store), session_id="s", token_counter="estimate")


def remove_locks(store: Path) -> None:
    for lock in store.parent.glob("*.lock"):
        lock.unlink()


async def add(store: Path, text: str) -> None:
    async with open_context(settings(store)) as context:
        await context.add_message(user(text))


async def stored(store: Path) -> list[object]:
    async with open_context(settings(store), read_only=True) as context:
        return [message["content"] for message in await context.get_messages()]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the first writer fails")
async def test_a_second_writer_is_refused_after_the_lock_file_was_removed_and_the_first_goes_on(tmp_path: Path):
    store = tmp_path / "run.db"
    async with writer(store) as first:
        for _ in range(2):
            remove_locks(store)
            with pytest.raises(SessionInUseError, match=str(first.process.pid)):
                await add(store, "other")
        assert await first.add("two") == "added"
        await first.end()
    assert await stored(store) == ["one", "two"]


@pytest.mark.parametrize("removed", [False, True], ids=["lock left", "lock removed"])
async def test_a_session_whose_writer_was_killed_is_taken_over(tmp_path: Path, removed: bool):
    store = tmp_path / "run.db"
    async with writer(store) as first:
        first.process.send_signal(signal.SIGKILL)
        await first.process.wait()
    if removed:
        remove_locks(store)
    await add(store, "two")
    assert await stored(store) == ["one", "two"]


async def test_a_writer_that_lost_its_session_to_another_writes_nothing_more(tmp_path: Path):
    """As on a system that does not tell which files a process has open: there the lock file of the first is gone."""
    store = tmp_path / "run.db"
    async with writer(store) as first:
        first.process.send_signal(signal.SIGSTOP)
        (lock,) = store.parent.glob("*.lock")
        lock.rename(tmp_path / "moved away")
        await add(store, "two")
        first.process.send_signal(signal.SIGCONT)
        assert await first.add("three") == "StoreError"
        await first.end()
    assert await stored(store) == ["one", "two"]
