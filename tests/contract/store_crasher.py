"""What `test_store_crash.py` has killed: work on a store, by a plan.

`work` names what is done; the process is killed by SIGKILL in the `nth` statement that begins with `statement`, after
`steps` steps of SQLite's machine; or by SIGXFSZ in the middle of a write, when a file would grow beyond `size` bytes;
or from outside.
"""

import asyncio
import hashlib
import json
import os
import resource
import signal
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from summarizing_context.stores.base import Place, StoredEntry, StoredProviderView
from summarizing_context.stores.sqlite.store import SqliteStore

Ack = Callable[[str], None]


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


WORKS = {"append": append, "replace": replace, "remove": remove, "checkpoint": checkpoint, "index": index}


def watch(plan: dict[str, Any]) -> Callable[[], None]:
    """Watch every connection that is made: once armed, this process is killed at the place that the plan names."""
    left, armed, connect = plan.get("nth", 0), False, sqlite3.connect

    def kill() -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 1

    def see(connection: sqlite3.Connection, statement: str) -> None:
        nonlocal left
        left -= armed and statement.strip().lower().startswith(plan["statement"])
        if not left and plan["steps"]:
            connection.set_progress_handler(kill, plan["steps"])
        elif not left:
            kill()

    def connect_and_watch(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        if left:
            connection.set_trace_callback(partial(see, connection))
        return connection

    def arm() -> None:
        nonlocal armed
        armed = True
        if size := plan.get("size"):
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    if left:
        sqlite3.connect = connect_and_watch
    return arm


async def work_until_killed(ack: Ack, plan: dict[str, Any]) -> None:
    arm = watch(plan)
    if plan["work"] == "create":
        await create(plan["path"], arm, ack)
    store = SqliteStore(Path(plan["path"]))
    await store.open()
    await store.claim("s")
    arm()
    await WORKS[plan["work"]](store, ack)
