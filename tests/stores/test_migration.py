"""An SQLite file goes into PostgreSQL: whole, compared, and again where it was cut short."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.assembly import migrate_store, open_store
from summarizing_context.errors import SettingsError, StoreError
from summarizing_context.stores.base import (
    MemoryScope,
    Scope,
)
from summarizing_context.stores.postgres.address import read_address
from tests import postgres_server
from tests.cli.commands import Runner, fill_store, says
from tests.contract.store_builders import nothing, numbered
from tests.making import user
from tests.stores.filled import same, told

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "run.db"))


async def migrated(file: Path, address: str) -> list[str]:
    heard: list[Any] = []
    found = await migrate_store(file, address, heard.append)
    assert heard == found.sessions
    return [f"{one.session_id} {one.messages} {one.checkpoints} {one.outcome}" for one in found.sessions]


async def test_a_migrated_file_is_the_same_store(file, address):
    before = file.read_bytes()
    assert sorted(line.split()[0] for line in await migrated(file, address)) == ["bare", "fork", "one", "two"]
    stores = [await open_store(file), await open_store(address)]
    ours, theirs = [await told(store) for store in stores]
    assert ours == theirs
    assert len(ours[0]["one"][1]) == 1
    row = next(iter(await stores[1].vectors.rows(Scope("fork", "fork"))))
    assert await stores[1].vectors.missing("row", "recipe", [row], 4) == []
    for store in stores:
        await store.close()
    assert file.read_bytes()[:100] == before[:100]
    async with open_context(Settings(store=address, session_id="one", project="garden")) as context:
        await context.restore("planted")
        assert len(context) == 25
        assert [pin.text for pin in context.pins()] == ["The gate is green."]
        assert await context.search("tulip")


async def test_a_session_that_is_open_or_taken_is_not_migrated(file, address):
    async with open_context(Settings(store=str(file), session_id="one")):
        with pytest.raises(StoreError, match=r"run\.db: .* has session 'one' open in this file"):
            await migrated(file, address)
    async with open_context(Settings(store=address, session_id="two")) as context:
        await context.add_message(user("mine"))
    with pytest.raises(StoreError, match="'two' there is another session, begun"):
        await migrated(file, address)
    store = await open_store(address)
    assert len(await store.sessions()) == 4
    assert [one.content for one in await store.memories.all(MemoryScope(None, "bare"))] == ["It rains."]
    await store.close()
    with pytest.raises(SettingsError, match="from an SQLite file"):
        await migrate_store(address, str(file), print)


async def append(store: str | Path, session_id: str, text: str) -> None:
    async with open_context(Settings(store=store, session_id=session_id, project="garden")) as context:
        await context.add_message(user(text))


def outcomes(lines: list[str]) -> dict[str, str]:
    return {line.split()[0]: line.split()[-1] for line in lines}


async def test_a_file_that_has_gone_on_is_taken_over_again(file, address, tmp_path):
    await migrated(file, address)
    await append(file, "one", "later")
    moved = Path(shutil.move(file, tmp_path / "moved.db"))  # a file is known by what it holds
    found = outcomes(await migrated(moved, address))
    assert found == {"bare": "unchanged", "fork": "unchanged", "two": "unchanged", "one": "renewed"}
    assert await same(moved, address)
    assert set(outcomes(await migrated(moved, address)).values()) == {"unchanged"}


async def test_an_older_copy_of_a_file_takes_nothing_back(file, address, tmp_path):
    older, other = (Path(shutil.copy(file, tmp_path / name)) for name in ("older.db", "other.db"))
    await append(file, "one", "later")
    await append(other, "one", "later, and otherwise")
    await migrated(file, address)
    assert outcomes(await migrated(older, address))["one"] == "newer"
    with pytest.raises(StoreError, match=r"'one' went on in two ways"):
        await migrated(other, address)
    assert await same(file, address)


async def test_a_migration_that_is_cancelled_goes_on_where_it_was(file, address):
    first: list[str] = []
    with anyio.CancelScope() as scope:

        def stop(one: Any) -> None:
            first.append(one.session_id)
            scope.cancel()

        await migrate_store(file, address, stop)
    assert scope.cancelled_caught
    postgres_server.bury(address)  # no connection is left
    found = outcomes(await migrated(file, address))
    assert [found[session_id] for session_id in first] == ["unchanged"]
    assert await same(file, address)


async def test_a_session_that_has_gone_on_in_the_new_store_is_left_alone(file, address):
    await migrated(file, address)
    await append(address, "one", "there")
    assert outcomes(await migrated(file, address))["one"] == "newer"
    await append(file, "one", "here")
    await append(file, "two", "here")
    with pytest.raises(
        StoreError,
        match=r"'one' went on in two ways, .* a first view may be enough.*delete them there, and migrate again",
    ):
        await migrated(file, address)
    store = await open_store(address)
    assert b"there" in (await store.load("one")).entries[-1].message
    assert b"here" in (await store.load("two")).entries[-1].message
    assert await store.delete_session("one")
    await store.close()
    assert outcomes(await migrated(file, address))["one"] == "copied"


async def test_a_session_that_is_open_in_the_new_store_keeps_no_other_back(file, address):
    await migrated(file, address)
    here, there = await open_store(file), await open_store(address)
    for session_id in ("bare", "fork", "one", "two"):
        await here.claim(session_id)
        await here.append(session_id, numbered(1, "here"), nothing)
    await here.close()
    await there.claim("bare")  # whose log "fork" shares
    await there.claim("one")
    with pytest.raises(StoreError, match=r"'bare', 'one' went on in the file, .* open there, in the new store"):
        await migrated(file, address)
    await there.close()
    assert outcomes(await migrated(file, address)) == {
        "bare": "renewed", "fork": "unchanged", "one": "renewed", "two": "unchanged",
    }  # fmt: skip
    assert await same(file, address)


DAMAGES = {
    "a message": "delete from entries where position = 3 and branch = ("
    "select branch from checkpoints where session_id = 'two')",
    "a part of its log": "delete from branches where id = (select branch from sessions where session_id = 'two')",
    "a state of a checkpoint": "delete from checkpoint_states where id = ("
    "select json_extract(showings, '$[0][1]') from checkpoints where session_id = 'two')",
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_session_is_named_and_keeps_no_other_back(file, address, damage):
    with closing(sqlite3.connect(file)) as raw, raw:
        assert raw.execute(DAMAGES[damage]).rowcount == 1
    with pytest.raises(StoreError, match=r"^[^']*'two' cannot be read whole, .* delete them in it, and migrate again"):
        await migrated(file, address)
    store = await open_store(address)
    assert {one.session_id for one in await store.sessions()} == {"bare", "fork", "one"}
    assert await store.delete_session("one")
    await store.close()
    store = await open_store(file)
    assert await store.delete_session("two")
    await store.close()
    assert outcomes(await migrated(file, address))["one"] == "copied"


async def test_another_budget_alone_is_not_going_on(file, address):
    await migrated(file, address)
    there = await open_store(address)
    await there.claim("one")
    await there.save_budget("one", 7_777)
    await there.close()
    assert outcomes(await migrated(file, address))["one"] == "unchanged"
    await append(file, "one", "here")
    assert outcomes(await migrated(file, address))["one"] == "renewed"
    assert await same(file, address)


async def test_a_session_that_was_deleted_in_the_new_store_is_copied_again(file, address):
    await migrated(file, address)
    store = await open_store(address)
    for session_id in ("bare", "two"):
        await store.delete_session(session_id)
    await store.close()
    found = outcomes(await migrated(file, address))
    assert found == {"bare": "copied", "fork": "unchanged", "two": "copied", "one": "unchanged"}
    assert await same(file, address)


async def test_another_file_of_the_same_path_is_another_file(file, address):
    await migrated(file, address)
    file.unlink()
    await append(file, "other", "of another file")
    assert outcomes(await migrated(file, address)) == {"other": "copied"}
    await append(file, "two", "another session of the name")
    await append(file, "other", "later")
    with pytest.raises(StoreError, match=r"'two' .* was not migrated. Delete the one there, .* another schema"):
        await migrated(file, address)
    store = await open_store(address)
    assert {one.session_id for one in await store.sessions()} == {"bare", "fork", "one", "two", "other"}
    assert len((await store.load("other")).entries) == 2
    assert b"name" not in (await store.load("two")).entries[-1].message
    await store.close()


async def test_a_memory_is_taken_over_once_and_again_where_it_was_changed(file, address):
    await migrated(file, address)
    scope = MemoryScope("garden", "one")
    here, there = await open_store(file), await open_store(address)
    forgotten, changed = sorted(await there.memories.all(scope), key=lambda one: one.content)
    await there.memories.forget(scope, forgotten.id)
    (mine,) = [one for one in await here.memories.all(scope) if one.content == changed.content]
    await here.memories.update(scope, mine.id, "Bo owns the garden of two.", None)
    await here.close()
    await migrated(file, address)
    assert [one.content for one in await there.memories.all(scope)] == ["Bo owns the garden of two."]
    assert [one.content for one in await there.memories.find(scope, ["bo"], 5)] == ["Bo owns the garden of two."]
    await there.close()


TABLES = {
    "sessions": "pins = 'other'",
    "entries": "message = 'other'",
    "activations": "state = 'other'",
    "activation_history": "before = 'other'",
    "checkpoints": "name = 'other'",
    "checkpoint_states": r"state = '\x789c030000000001'",
    "rules": "rules = 'other'",
    "summaries": "text = 'other'",
    "summary_uses": "start = 7",
    "vectors": "vector = 'other'",
    "memories": "content = 'other'",
    "memory_marks": "mark = 'other'",
}


async def test_whatever_does_not_arrive_as_it_was_is_found(file, address):
    """A trigger changes rows of one table after the other while they are written."""
    await (await open_store(address)).close()
    known = read_address(address)
    with psycopg.connect(known.url, autocommit=True) as raw:
        raw.execute(f"set search_path to {known.schema}".encode())
        for table, change in TABLES.items():
            raw.execute(f"truncate branches, migrated_memories, {', '.join(TABLES)}".encode())
            raw.execute(
                f"create function spoil() returns trigger language plpgsql as "
                f"$$ begin new.{change}; return new; end $$; "
                f"create trigger spoil before insert on {table} for each row execute function spoil()".encode()
            )
            with pytest.raises(StoreError, match="would not be the same"):
                await migrated(file, address)
            raw.execute(f"drop trigger spoil on {table}; drop function spoil".encode())
    await migrated(file, address)
    assert await same(file, address)


def test_the_command_migrates_and_lists(tmp_path, address, capsys, monkeypatch):
    run = Runner(capsys, monkeypatch)
    path = fill_store(tmp_path / "run.db", "one", [says("user", "The gate is green."), says("assistant", "Noted.")])
    migrated = run("migrate", path, address, "--json", "-")
    assert migrated.document["sessions"] == [
        {"session_id": "one", "messages": 2, "checkpoints": 0, "outcome": "copied"}
    ]
    assert "one: 2 messages, compared" in migrated.err
    listed = run("sessions", "list", "--store", address, "--json", "-")
    assert [(one["session_id"], one["messages"]) for one in listed.document["sessions"]] == [("one", 2)]
    assert run("view", "one", "--store", address).status == 0
    assert "The same in both: sessions 1, messages 2" in migrated.err
    assert run("migrate", path, tmp_path / "other.db").status == 2
    (tmp_path / "empty.db").touch()
    refused = run("migrate", tmp_path / "empty.db", address)
    assert (refused.status, (tmp_path / "empty.db").stat().st_size) == (2, 0)
    assert "there is nothing to migrate" in refused.err
    assert run("sessions", "delete", "one", "--store", path, "--yes").status == 0
    before = {file.name: file.read_bytes() for file in tmp_path.glob("run.db*")}
    nothing_left = run("migrate", path, address, "--json", "-")
    assert nothing_left.document["sessions"] == []
    assert "Nothing to migrate" in nothing_left.err
    assert {file.name: file.read_bytes() for file in tmp_path.glob("run.db*")} == before
    for file in (address, tmp_path / "none.db", tmp_path):
        refused = run("migrate", file, address)
        assert (refused.status, "--store" in refused.err) == (2, False)
        assert "SQLite file" in refused.err
    assert run("sessions", "delete", "one", "--store", address, "--yes").status == 0
    assert run("sessions", "list", "--store", address, "--json", "-").document["sessions"] == []
