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
from typing import Any, NamedTuple

from summarizing_context.stores.base import Place, StoredEntry, StoredProviderView
from summarizing_context.stores.sqlite.store import SqliteStore

Ack = Callable[[str], None]


def make_entry(name: str, size: int = 2_000) -> StoredEntry:
    """An entry that is found by its name and shows whether it is whole."""
    message = json.dumps({"role": "user", "content": f"{name} {'x' * size}"}).encode()
    return StoredEntry(message, hashlib.sha256(message).hexdigest().encode())


def make_state(number: int) -> bytes:
    """An activation state that shows whether it is whole: one number over several pages."""
    return b"%06d" % number * 3_000


async def append(store: Any, ack: Ack) -> None:
    async def add(task: int) -> None:
        for i in count():
            await store.append("s", [make_entry(f"t{task}n{i}", (i * 997) % 9_000)], lambda: None)
            ack(f"t{task}n{i}")

    await asyncio.gather(*map(add, range(6)))


class Changed(NamedTuple):
    """What a session holds: names of entries, numbers of activation states, and both for each checkpoint."""

    log: list[str]
    states: list[int]
    checkpoints: dict[str, tuple[list[str], list[int]]]
    version: int  # how often the log was replaced


def changes() -> Iterator[tuple[str, int]]:
    """What `change` does, one acknowledgement each; it goes back to the checkpoint before the last."""
    for i in count():
        yield from (("append", i), ("replace", i), ("activate", i), ("save", i))
        if i % 3 == 2:
            yield "restore", i - 1
        if i % 4 == 3:
            yield "purge", i


def after(done: int) -> Changed:
    """What there is after so many changes."""
    now = Changed([], [], {}, 0)
    for what, i in islice(changes(), done):
        if what == "append":
            now = now._replace(log=[*now.log, f"a{i}"])
        elif what == "replace":
            log = [*now.log[:i], *(f"r{i}n{n}" for n in range(4))]
            now = now._replace(log=log, states=[], version=now.version + 1)
        elif what == "activate":
            now = now._replace(states=[i])
        elif what == "save":
            now.checkpoints[f"mark {i}"] = (now.log, now.states)
        elif what == "restore":
            now.checkpoints[f"back {i}"] = (now.log, now.states)
            now = Changed(*now.checkpoints[f"mark {i}"], now.checkpoints, now.version + 1)
    return now


async def change(store: Any, ack: Ack) -> None:
    for done, (what, i) in enumerate(changes()):
        now = after(done)
        place = Place(now.version, len(now.log))
        views = [StoredProviderView("p", make_state(number), "{}") for number in now.states]
        if what == "append":
            await store.append("s", [make_entry(f"a{i}")], lambda: None)
        elif what == "replace":
            await store.replace("s", i, [make_entry(f"r{i}n{n}") for n in range(4)], lambda: None)
        elif what == "activate":
            await store.save_activation("s", "p", make_state(i))
        elif what == "save":
            await store.checkpoints.save("s", f"mark {i}", place, views)
        elif what == "restore":
            await store.checkpoints.restore("s", f"mark {i}", place, f"back {i}", views, lambda: None)
        else:
            await store.purge()
        ack(what)


async def remove(store: Any, ack: Ack) -> None:
    for i in count():
        await store.claim("other")
        await store.append("other", [make_entry(f"o{i}n{n}") for n in range(20)], lambda: None)
        await store.append("s", [make_entry(f"s{i}")], lambda: None)
        await store.delete_session("other")
        ack(f"s{i}")


def another(path: Path, number: int) -> Path:
    """The place of another store."""
    return path.with_name(f"{number}-{path.name}")


async def create(path: Path, ack: Ack) -> None:
    for i in count():
        store = SqliteStore(another(path, i))
        await store.open()
        ack(str(i))
        await store.close()


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
    arm, path = watch(plan), Path(plan["path"])
    if plan["work"] == "create":
        arm()
        await create(path, ack)
    store = SqliteStore(path)
    await store.open()
    await store.claim("s")
    arm()
    await {"append": append, "change": change, "remove": remove}[plan["work"]](store, ack)
