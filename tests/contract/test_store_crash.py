"""Killed at any moment, a file has all that it acknowledged, and nothing by halves.

A plan names the work in `work`; the process is killed by SIGKILL in the `nth` statement that begins with `statement`,
after `steps` steps of SQLite's machine; or by SIGXFSZ in the middle of a write, when a file would grow beyond `size`
bytes; or from outside.
"""

import asyncio
import hashlib
import json
import os
import resource
import signal
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.stores.base import Present, Scope, StoredEntry
from tests.contract.store_builders import bytes_beside, check_index, nothing, opened, sql
from tests.killed_work import killed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes to be killed are forked")
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
            await store.append("s", [make_entry(f"t{task}n{i}", (i * 997) % 9_000)], nothing)
            ack(f"t{task}n{i}")

    await asyncio.gather(*map(add, range(6)))


def changes() -> Iterator[tuple[str, int]]:
    """What `change` does, one acknowledgement each; it goes back to the checkpoint before the last."""
    for i in count():
        yield from (("append", i), ("replace", i), ("activate", i), ("save", i))
        if i % 3 == 2:
            yield "restore", i - 1
        if i % 4 == 3:
            yield "purge", i


async def change(store: Any, ack: Ack, done: int | None = None) -> None:
    for what, i in islice(changes(), done):
        now = await store.load("s")
        place = now.log_version, len(now.entries)
        if what == "append":
            await store.append("s", [make_entry(f"a{i}")], nothing)
        elif what == "replace":
            await store.replace("s", i, [make_entry(f"r{i}n{n}") for n in range(4)], nothing)
        elif what == "activate":
            await store.save_activation("s", "p", make_state(i))
        elif what == "save":
            await store.save_checkpoint("s", Present(*place, f"mark {i}", now.activations))
        elif what == "restore":
            await store.restore("s", f"mark {i}", nothing, Present(*place, f"back {i}", now.activations))
        else:
            await store.purge()
        ack(what)


async def remove(store: Any, ack: Ack) -> None:
    for i in count():
        await store.claim("other")
        await store.append("other", [make_entry(f"o{i}n{n}") for n in range(20)], nothing)
        await store.append("s", [make_entry(f"s{i}")], nothing)
        await store.delete_session("other")
        ack(f"s{i}")


async def create(path: Path, ack: Ack) -> None:
    for i in count():
        async with opened(path.with_name(f"{i}-{path.name}")):
            ack(str(i))


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
    async with opened(path, "s") as store:
        arm()
        await {"append": append, "change": change, "remove": remove}[plan["work"]](store, ack)


@pytest.fixture
def crash(path: Path) -> Callable[..., list[str]]:
    """Work on the store until the plan kills it; what was acknowledged before."""

    def run(work: str, *, acks: int | None = None, **plan: Any) -> list[str]:
        told, ended = killed(work_until_killed, {"work": work, "path": str(path), **plan}, after=acks)
        assert ended == (signal.SIGXFSZ if "size" in plan else signal.SIGKILL), (plan, ended)
        return told

    return run


def at(
    *statements: tuple[str, tuple[int, ...], int], acks: tuple[int, ...] = (), sizes: tuple[int, ...] = ()
) -> pytest.MarkDecorator:
    """Killed in which of the statements that begin so, after how many steps of SQLite's machine; or after so many
    acknowledgements, in whatever is done then; or in the middle of a write, when a file would grow beyond a size.
    """
    every = [{"statement": start, "nth": nth, "steps": steps} for start, nths, steps in statements for nth in nths]
    every += [*({"acks": count} for count in acks), *({"size": size} for size in sizes)]
    return pytest.mark.parametrize("plan", every, ids=lambda plan: "-".join(str(part) for part in plan.values()))


def names(entries: Iterable[StoredEntry]) -> list[str]:
    """The names of entries, all of which are whole."""
    assert all(hashlib.sha256(entry.message).hexdigest().encode() == entry.facts for entry in entries)
    return [json.loads(entry.message)["content"].split()[0] for entry in entries]


def numbers(states: Iterable[bytes]) -> list[int]:
    """The numbers of activation states, all of which are whole."""
    found = [int(state[:6]) for state in states]
    assert list(states) == list(map(make_state, found))
    return found


async def held(store: Any) -> list[Any]:
    """The log and the activation states, and those of each checkpoint with its name."""
    session = await store.load("s")
    found = [(names(session.entries), numbers([state for _, state in session.activations]))]
    for mark in await store.checkpoints("s"):
        one = await store.load_checkpoint("s", mark.id)
        found.append((mark.name, names(one.entries), numbers([state for _, state in one.activations])))
    return found


async def reopened(path: Path) -> list[Any]:
    """What a process finds afterwards, which may write, in a sound file."""
    async with opened(path, "s") as store:
        (log, _), *_ = found = await held(store)
        for at, name in enumerate(log):
            assert [match.start for match in await store.search([name], Scope("s", "s"), 9)] == [at]
        await store.append("s", [make_entry("end")], nothing)
    with sql(path) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    check_index(path)
    return found


@at(
    ("insert into entries", (1, 2, 7, 40), 0),
    ("insert into entries", (1, 3, 23), 5),
    ("update sessions", (1, 11), 0),
    ("begin", (1, 9), 0),
    ("commit", (1, 2, 5, 8, 13), 0),
    ("commit", (3, 6), 1),
    acks=(1, 10, 333),
    sizes=(50_000, 70_001, 123_456, 300_000, 4_200_000),
)
async def test_an_append_that_was_acknowledged_is_there_after_a_kill(crash, path, plan):
    acked = crash("append", **plan)
    (found, _), *_ = await reopened(path)
    assert set(acked) <= set(found)
    for task in range(6):  # of each task: the first ones, in order
        own = [name for name in found if name.startswith(f"t{task}n")]
        assert own == [f"t{task}n{i}" for i in range(len(own))]
    assert len(found) == len(set(found))


@at(
    ("insert into branches", (1, 3), 0),
    ("insert into entries", (13,), 5),
    ("insert into checkpoints", (2, 5), 5),
    ("update sessions set branch", (4, 17), 3),
    ("delete from activations", (4, 6, 8), 3),
    ("insert into search", (2,), 900),
    ("insert into search", (28,), 20),  # while purging
    ("commit", (4, 8, 9, 31), 0),
    sizes=(60_000, 80_000, 150_000, 300_000),
)
async def test_a_log_its_states_and_its_checkpoints_are_as_before_or_behind_a_change_after_a_kill(crash, path, plan):
    acked, possible = len(crash("change", **plan)), []
    for done in (acked, acked + 1):
        async with opened(":memory:", "s") as store:
            await change(store, str, done)
            possible.append(await held(store))
    assert await reopened(path) in possible


@at(
    ("delete from entries", (1,), 20),
    ("delete from sessions", (2,), 0),
    ("commit", (5, 10), 0),
    ("vacuum", (1, 2), 200),
    ("pragma wal_checkpoint", (1, 2), 0),
)
async def test_a_session_is_deleted_or_is_not_after_a_kill(crash, path, plan):
    acked = crash("remove", **plan)
    (found, _), *_ = await reopened(path)
    assert set(acked) <= set(found)
    async with opened(path) as store:
        other = await store.load("other")
        assert other is None or len(names(other.entries)) in (0, 20)
        await store.delete_session("other")
        await store.purge()
        assert not [name for name, content in bytes_beside(path).items() if b"o%dn0 xxx" % len(acked) in content]


@at(
    ("begin", (1, 2, 3), 0),
    ("pragma application_id =", (1, 2), 0),
    ("pragma journal_mode", (1, 2), 0),
    ("create", (1, 5), 20),
    ("pragma user_version =", (1,), 0),
    ("commit", (1, 2, 3, 4), 0),
    sizes=(600, 4_000, 4_096, 5_000, 33_000, 40_000),
)
async def test_a_store_can_be_opened_after_a_kill_during_its_creation(crash, path, plan):
    acked = crash("create", **plan)
    for i in range(len(acked) + 1):
        assert await reopened(path.with_name(f"{i}-{path.name}")) == [([], [])]
