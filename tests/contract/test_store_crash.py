"""Killed at any moment, a file has all that it acknowledged, and nothing by halves."""

import hashlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.stores.base import Scope, StoredCheckpoint, StoredEntry, StoredSession
from tests.contract.store_builders import bytes_beside, check_index, nothing, opened, sql
from tests.contract.store_crasher import after_checkpoint_steps, another, make_state, work_until_killed
from tests.killed_work import killed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes to be killed are forked")

Crash = Callable[..., list[str]]


@pytest.fixture
def crash(path: Path) -> Crash:
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


async def reopened(path: Path) -> StoredSession:
    """The session as it is found afterwards, by a process that may write to it, in a sound file."""
    async with opened(path, "s") as store:
        session = await store.load("s")
        await store.append("s", [StoredEntry(b"it goes on", b"")], nothing)
    assert session is not None
    with sql(path) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    return session


def names(session: StoredSession | StoredCheckpoint) -> list[str]:
    """The names of the entries, all of which are whole."""
    for entry in session.entries:
        assert hashlib.sha256(entry.message).hexdigest().encode() == entry.facts
    return [entry.message.partition(b":")[0].decode() for entry in session.entries]


def states(session: StoredSession) -> list[int]:
    """The numbers of the activation states, all of which are whole."""
    numbers = [int(state[:6]) for _, state in session.activations]
    assert [state for _, state in session.activations] == [b"%06d" % number * 3_000 for number in numbers]
    return numbers


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
    found = names(await reopened(path))
    assert set(acked) <= set(found)
    for task in range(6):  # of each task: the first ones, in order
        own = [name for name in found if name.startswith(f"{task}-")]
        assert own == [f"{task}-{i}" for i in range(len(own))]
    assert len(found) == len(set(found))


@at(
    ("insert into branches", (1, 3), 0),
    ("insert into entries", (10,), 5),
    ("delete from activations", (4,), 3),
    ("commit", (4, 8), 0),
    sizes=(80_000, 150_000),
)
async def test_a_replaced_log_is_the_old_one_or_the_new_one_after_a_kill(crash, path, plan):
    acked = crash("replace", **plan)
    session = await reopened(path)
    found = names(session)
    possible = {0: [], **{done: log_after(done) for done in (len(acked), len(acked) + 1) if done}}
    done = next(done for done, log in possible.items() if log == found)
    assert done in (len(acked), len(acked) + 1)
    assert states(session) in ([], [done])


def log_after(replacements: int) -> list[str]:
    log: list[str] = []
    for i in range(replacements):
        log[i:] = [f"{i}-{n}" for n in range(4)]
    return log


@at(
    ("insert into checkpoints", (2, 5), 5),
    ("update sessions set branch", (4, 17), 3),
    ("delete from activations", (6, 8), 3),
    ("commit", (8, 31), 0),
    sizes=(60_000, 150_000),
)
async def test_checkpoints_are_whole_and_a_log_is_restored_or_is_not_after_a_kill(crash, path, plan):
    acked = len(crash("checkpoint", **plan))
    log = names(await reopened(path))
    async with opened(path) as store:
        found = [await store.checkpoints.load("s", mark.id) for mark in await store.checkpoints.listed("s")]
    kept = {one.checkpoint.name: names(one) for one in found}
    assert (log, kept) in (after_checkpoint_steps(acked), after_checkpoint_steps(acked + 1))
    for one in found:
        state = one.provider_views[0].state
        assert state == make_state(int(state[:6]))


@at(
    ("insert into search", (2,), 900),
    ("insert into search", (7,), 20),  # while purging
    ("commit", (9,), 0),
    sizes=(300_000,),
)
async def test_the_index_holds_what_the_log_holds_after_a_kill(crash, path, plan):
    crash("index", **plan)
    async with opened(path, "s") as store:
        session = await store.load("s")
        for at, entry in enumerate(session.entries):
            word = json.loads(entry.message)["content"].split()[0]
            assert [match.start for match in await store.index.find([word], Scope("s", "s"), 9)] == [at]
    check_index(path)


@at(
    ("delete from entries", (1,), 20),
    ("delete from sessions", (2,), 0),
    ("commit", (5, 10), 0),
    ("vacuum", (1, 2), 200),
    ("pragma wal_checkpoint", (1, 2), 0),
)
async def test_a_session_is_deleted_or_is_not_after_a_kill(crash, path, plan):
    acked = crash("remove", **plan)
    found = names(await reopened(path))
    assert set(acked) <= set(found)
    async with opened(path) as store:
        other = await store.load("other")
        assert other is None or len(names(other)) in (0, 20)
        await store.delete_session("other")
        await store.purge()
        assert not [name for name, content in bytes_beside(path).items() if b"%d-0:xxx" % len(acked) in content]


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
        assert (await reopened(another(path, i))).entries == []
