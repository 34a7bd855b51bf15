"""Run by `test_store_crash.py`: forks a process for each plan it reads, which works on a store until it is killed.

A plan is a line of JSON: `work` names what is done; the process is killed by SIGKILL in the `nth` statement that
begins with `statement`, after `steps` steps of SQLite's machine;
or by SIGXFSZ in the middle of a write, when a file would grow beyond `size` bytes; or by SIGKILL from here, after
`acks` acknowledgements. The answer is a line of JSON with the acknowledgements that came through, and the signal.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import resource
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from summarizing_context.stores.base import Place, StoredEntry, StoredProviderView
from summarizing_context.stores.sqlite.store import SqliteStore

Ack = Callable[[str], None]
PATIENCE = 120  # seconds; a process that is not killed by then ends itself, by SIGALRM


def make_entry(name: str, size: int) -> StoredEntry:
    """An entry that shows whether it is whole."""
    message = name.encode() + b":" + b"x" * size
    return StoredEntry(message, hashlib.sha256(message).hexdigest().encode())


def make_state(number: int) -> bytes:
    """An activation state that shows whether it is whole: one number over several pages."""
    return b"%06d" % number * 3_000


async def append(store: Any, ack: Ack) -> None:
    async def add(name: str) -> None:
        for i in count():
            await store.append("s", [make_entry(f"{name}-{i}", (i * 997) % 9_000)], lambda: None)
            ack(f"{name}-{i}")

    await asyncio.gather(*(add(str(n)) for n in range(6)))


async def replace(store: Any, ack: Ack) -> None:
    for i in count():
        await store.save_activation("s", "provider", make_state(i))
        await store.replace("s", i, [make_entry(f"{i}-{n}", 2_000) for n in range(4)], lambda: None)
        ack(str(i))


def checkpoint_steps() -> Iterator[tuple[str, str]]:
    """What `checkpoint` does, one acknowledgement each: append a number, keep a checkpoint named by it, go back."""
    for i in count():
        yield "append", str(i)
        yield "save", str(i)
        if i % 3 == 2:
            yield "restore", str(i - 1)


def after_checkpoint_steps(done: int) -> tuple[list[str], dict[str, list[str]]]:
    """The log, and the log of each checkpoint, after so many steps."""
    log: list[str] = []
    kept: dict[str, list[str]] = {}
    for what, name in islice(checkpoint_steps(), done):
        if what == "append":
            log = [*log, name]
        elif what == "save":
            kept[name] = log
        else:
            kept[f"back to {name}"], log = log, kept[name]
    return log, kept


async def checkpoint(store: Any, ack: Ack) -> None:
    provider_views: list[StoredProviderView] = []
    version = messages = 0
    lengths: dict[str, int] = {}
    for what, name in checkpoint_steps():
        if what == "append":
            await store.append("s", [make_entry(name, 2_000)], lambda: None)
            messages += 1
        elif what == "save":
            provider_views = [StoredProviderView("p", make_state(int(name)), "{}")]
            await store.save_activation("s", "p", provider_views[0].state)
            await store.checkpoints.save("s", name, Place(version, messages), provider_views)
            lengths[name] = messages
        else:
            place, back = Place(version, messages), f"back to {name}"
            await store.checkpoints.restore("s", name, place, back, provider_views, lambda: None)
            version, messages = version + 1, lengths[name]
        ack(f"{what} {name}")


async def index(store: Any, ack: Ack) -> None:
    for i in count():
        said = [json.dumps({"role": "user", "content": f"word{i}x{n} " * 40}) for n in range(20)]
        await store.append("s", [StoredEntry(one.encode(), b"") for one in said], lambda: None)
        ack(str(i))
        if i % 4 == 3:
            await store.replace("s", 10 * i, [], lambda: None)
            await store.purge()


async def remove(store: Any, ack: Ack) -> None:
    for i in count():
        await store.claim("other")
        await store.append("other", [make_entry(f"{i}-{n}", 2_000) for n in range(20)], lambda: None)
        await store.append("s", [make_entry(str(i), 2_000)], lambda: None)
        await store.delete_session("other")
        ack(str(i))


async def on_open_store(path: str, arm: Callable[[], None], ack: Ack, work: Any) -> None:
    store = SqliteStore(Path(path))
    await store.open()
    await store.claim("s")
    arm()
    await work(store, ack)


def another(path: Path, number: int) -> Path:
    """The place of another store."""
    return path.with_name(f"{number}-{path.name}")


async def create(path: str, arm: Callable[[], None], ack: Ack) -> None:
    arm()
    for i in count():
        store = SqliteStore(another(Path(path), i))
        await store.open()
        ack(str(i))
        await store.close()


WORKS = {
    "append": append,
    "replace": replace,
    "remove": remove,
    "checkpoint": checkpoint,
    "index": index,
}


class Trap:
    """Kills this process at the place that the plan names. Watches every connection that is made."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._left = plan.get("nth", 0)
        self._armed = False
        self._connect = sqlite3.connect
        if self._left:
            sqlite3.connect = self._connect_and_watch

    def arm(self) -> None:
        self._armed = True
        if size := self._plan.get("size"):
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    def _connect_and_watch(self, *args: Any, **options: Any) -> sqlite3.Connection:
        connection = self._connect(*args, **options)
        if self._left:
            connection.set_trace_callback(lambda statement: self._see(connection, statement))
        return connection

    def _see(self, connection: sqlite3.Connection, statement: str) -> None:
        if not self._counts(statement):
            return
        if not self._plan.get("steps"):
            self._kill()
        connection.set_progress_handler(self._kill, self._plan["steps"])

    def _counts(self, statement: str) -> bool:
        """Whether this is the statement of the plan."""
        if not self._armed or not statement.strip().lower().startswith(self._plan.get("statement", "\0")):
            return False
        self._left -= 1
        return not self._left

    def _kill(self) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 1


def work_until_killed(plan: dict[str, Any], pipe: int) -> None:
    trap = Trap(plan)
    path = plan["path"]

    def ack(text: str) -> None:
        os.write(pipe, json.dumps(text).encode() + b"\n")

    if plan["work"] == "create":
        asyncio.run(create(path, trap.arm, ack))
    else:
        asyncio.run(on_open_store(path, trap.arm, ack, WORKS[plan["work"]]))


def run(plan: dict[str, Any], work: Callable[[dict[str, Any], int], None]) -> dict[str, Any]:
    """Fork, collect what is acknowledged, and say how it ended."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            signal.alarm(PATIENCE)
            work(plan, writing)
        finally:
            os._exit(1)
    os.close(writing)
    acks: list[Any] = []
    left = plan.get("acks", 0)
    with os.fdopen(reading) as pipe:
        for line in pipe:
            if not line.endswith("\n"):
                break  # it was killed while it said so
            acks.append(json.loads(line))
            left -= 1
            if left == 0 and "acks" in plan:
                os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return {"acks": acks, "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None}


def serve(work: Callable[[dict[str, Any], int], None]) -> None:
    """Answer each plan that is read."""
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line), work)), flush=True)


async def warm_up() -> None:
    """Make a store in memory, which the forks copy."""
    store = SqliteStore(":memory:")
    await store.open()
    await store.close()


if __name__ == "__main__":
    asyncio.run(warm_up())
    serve(work_until_killed)
