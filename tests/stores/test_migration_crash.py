"""A migration is killed at any moment, and the host goes on with the file: the next run takes over what is there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.assembly import migrate_store
from summarizing_context.stores.base import MemoryScope, NewMemory, Place, StoredProviderView
from summarizing_context.stores.sqlite.store import SqliteStore
from tests import postgres_server
from tests.contract.crashes import after_acks, answered, in_statement, killed, nursery
from tests.contract.store_builders import nothing, numbered
from tests.stores.filled import same

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes to be killed are forked"),
]

PLANS = [
    *in_statement("insert into branches", 2),
    *answered("copy entries", 3),
    *in_statement("insert into checkpoint_states", 2),
    *answered("insert into sessions", 1),
    *in_statement("commit", 4),  # of the first sessions
    *answered("commit", 4),
    *after_acks(1, 3),
    *in_statement("insert into summaries", 2),
    *in_statement("insert into memories", 1),
    *answered("insert into memories", 2),
    *answered("delete from sessions", 1),  # of a session whose file had gone on
    *in_statement("delete from sessions", 1),
    *answered("insert into memory_marks", 1),
]


async def go_on(path: Path, number: int) -> None:
    """What a host does with the file meanwhile."""
    store = SqliteStore(path)
    await store.open()
    for session_id in ("bare", "fork", f"new{number}"):
        await store.claim(session_id, project="garden")
        await store.append(session_id, numbered(3, f"{number}-"), nothing)
    session = await store.load("bare")
    assert session is not None
    view = StoredProviderView("p", b"state %d" % number * 50, "[]")
    place = Place(session.log_version, len(session.entries))
    await store.checkpoints.save("bare", f"at {number}", place, [view])
    if number % 3 == 1:
        await store.replace("bare", 2, numbered(2, "other"), nothing)
    await store.memories.add(MemoryScope("garden", "bare"), NewMemory(f"It is {number}.", {}))
    await store.close()


@pytest.mark.usefixtures("postgres")
async def test_a_killed_migration_goes_on_although_the_file_has_gone_on(made: Path, tmp_path: Path):
    file, address = Path(shutil.copy(made, tmp_path / "run.db")), postgres_server.address_for(tmp_path)
    with nursery() as process:
        for number, plan in enumerate(PLANS):
            killed(process, {"work": "move", "path": f"{file} {address}", **plan})
            postgres_server.bury(address)
            await go_on(file, number)
    heard: list[Any] = []
    found = await migrate_store(file, address, heard.append)
    assert {one.outcome for one in found.sessions} <= {"copied", "renewed", "unchanged"}
    assert await same(file, address)
    again = await migrate_store(file, address, heard.append)
    assert {one.outcome for one in again.sessions} == {"unchanged"}
