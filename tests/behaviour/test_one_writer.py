"""A session has one writer, also when somebody removes its lock file, and when its writer is killed."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from summarizing_context import SessionInUseError, Settings
from tests.behaviour.contexts import begun
from tests.laws.builders import user

WRITER = """
import asyncio, sys
from summarizing_context import Settings, SummarizingContextError, open_context

async def main():
    async with open_context(Settings(store=sys.argv[1], session_id="s", token_counter="estimate")) as context:
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                await context.add_message({"role": "user", "content": line.strip()})
                print("added", flush=True)
            except SummarizingContextError as error:
                print(type(error).__name__, flush=True)

asyncio.run(main())
"""


@contextmanager
def writer(store: Path) -> Iterator[tuple[subprocess.Popen[str], Callable[[str], str]]]:
    """Another process that has the session open for writing and has added "one"; it adds texts and says how it went."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        late = threading.Timer(120, process.kill)
        late.start()

        def say(text: str) -> str:
            print(text, file=process.stdin, flush=True)
            return process.stdout.readline().strip()

        try:
            assert say("one") == "added"
            yield process, say
        finally:
            late.cancel()
            process.kill()


async def texts(store: Path, *added: str) -> list[object]:
    """What the session holds once this was added."""
    given = {"store": str(store), "session_id": "s", "token_counter": "estimate", "count_tokens": None}
    async with begun(map(user, added), of=Settings, **given) as context:
        return [message["content"] for message in await context.get_messages()]


def remove_locks(store: Path) -> None:
    for lock in store.parent.glob("*.lock"):
        lock.unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the first writer fails")
async def test_a_second_writer_is_refused_after_the_lock_file_was_removed_and_the_first_goes_on(tmp_path: Path):
    store = tmp_path / "run.db"
    with writer(store) as (first, say):
        for _ in range(2):
            remove_locks(store)
            with pytest.raises(SessionInUseError, match=str(first.pid)):
                await texts(store, "other")
        assert say("two") == "added"
    assert await texts(store) == ["one", "two"]


@pytest.mark.parametrize("removed", [False, True], ids=["lock left", "lock removed"])
async def test_a_session_whose_writer_was_killed_is_taken_over(tmp_path: Path, removed: bool):
    store = tmp_path / "run.db"
    with writer(store):
        pass  # which kills it
    if removed:
        remove_locks(store)
    await texts(store, "two")
    assert await texts(store) == ["one", "two"]


async def test_a_writer_that_lost_its_session_to_another_writes_nothing_more(tmp_path: Path):
    """As on a system that does not tell which files a process has open: there the lock file of the first is gone."""
    store = tmp_path / "run.db"
    with writer(store) as (first, say):
        first.send_signal(signal.SIGSTOP)
        (lock,) = store.parent.glob("*.lock")
        lock.rename(tmp_path / "moved away")
        await texts(store, "two")
        first.send_signal(signal.SIGCONT)
        assert say("three") == "StoreError"
    assert await texts(store) == ["one", "two"]
