"""An SQLite file goes into PostgreSQL: whole, compared, and again where it was cut short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.assembly import migrate_store, open_store
from summarizing_context.errors import SessionExistsError, SessionInUseError, SettingsError, StoreError
from summarizing_context.stores.base import MemoryScope, Place, Scope, SessionStore, StoredProviderView
from summarizing_context.stores.postgres import migration
from summarizing_context.stores.postgres.address import read_address
from summarizing_context.stores.sqlite.store import SqliteStore
from tests import postgres_server
from tests.cli.commands import Runner, fill_store, says
from tests.contract.store_builders import key, nothing, numbered, summary
from tests.making import assistant, user

pytestmark = pytest.mark.anyio


@pytest.fixture
def address(postgres: str, tmp_path: Path) -> str:
    return postgres_server.address_for(tmp_path)


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A file with sessions, a fork, checkpoints, memories, pins and vectors."""
    path = tmp_path / "run.db"
    for name in ("one", "two"):
        async with open_context(
            Settings(store=str(path), session_id=name, project="garden", max_tokens=4_000)
        ) as context:
            for number in range(40):
                await context.add_message(user(f"Step {number} of {name}: the tulip. " * 12))
                await context.add_message(assistant("Planted."))
                await context.get_messages_for_request()
            await context.pin("The gate is green.")
            await context.memory.store(f"Ana owns the garden of {name}.")
            await context.checkpoint("planted")
            await context.set_messages([user("Something else")])
            await context.wait_idle()
    store = SqliteStore(path)
    await store.open()
    await store.claim("bare")
    await store.append("bare", numbered(3), nothing)
    made = await store.checkpoints.save("bare", "m", Place(0, 2), [StoredProviderView("p", b"state", "[]")])
    await store.checkpoints.fork("bare", made.id, "fork")
    await store.claim("fork")
    await store.append("fork", numbered(2, "own"), nothing)
    await store.save_summary("bare", key(1), summary("a summary"), {key(1): (0, 2)})
    await store.vectors.save(
        "row", "recipe", dict.fromkeys(await store.vectors.rows(Scope("fork", "fork")), b"\x00\x00\x80?")
    )
    await store.close()
    return path


async def told(store: SessionStore) -> Any:
    """All that a store tells of its sessions."""
    sessions = sorted(await store.sessions(), key=lambda one: one.session_id)
    found: dict[str, Any] = {}
    for one in sessions:
        marks = await store.checkpoints.listed(one.session_id)
        loaded = [await store.checkpoints.load(one.session_id, mark.id) for mark in marks]
        found[one.session_id] = (
            await store.load(one.session_id), loaded, one.summaries, one.created_at, one.updated_at, one.input_tokens,
            await store.activations.listed(one.session_id), len(await store.vectors.rows(Scope(None, one.session_id))),
        )  # fmt: skip
    memories = [(one.content, one.metadata, one.created_at) for one in await store.memories.all(None)]
    scope = MemoryScope("garden", "one")
    words = [one.content for one in await store.memories.find(scope, ["ana"], 5)]
    return found, memories, sorted(words)


async def migrated(file: Path, address: str) -> list[str]:
    heard: list[Any] = []
    found = await migrate_store(file, address, heard.append)
    assert heard == found
    return [f"{one.session_id} {one.messages} {one.checkpoints} {one.is_new}" for one in found]


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
        assert len(context) == 80
        assert [pin.text for pin in context.pins()] == ["The gate is green."]
        assert await context.search("tulip")


async def test_a_migration_that_was_cut_short_goes_on(file, address, monkeypatch):
    session, compare = migration._migrate_session, migration._compare
    for at in range(1, 4):
        left = [at]

        async def cut(*values: Any, work: Any = session, left: list[int] = left) -> Any:
            left[0] -= 1
            if not left[0]:
                raise StoreError("cut short")
            return await work(*values)

        monkeypatch.setattr(migration, "_migrate_session", cut)
        with pytest.raises(StoreError, match="cut short"):
            await migrated(file, address)
    monkeypatch.setattr(migration, "_migrate_session", session)
    assert migration._compare is compare
    await migrated(file, address)
    again = await migrated(file, address)
    assert [line.endswith("False") for line in again] == [True] * 4
    with psycopg.connect(read_address(address).url) as connection:
        schema = read_address(address).schema
        counted = connection.execute(f"select count(*) from {schema}.entries".encode()).fetchone()
    store = SqliteStore(file)
    await store.open()
    assert [counted] == await store.read(
        lambda connection: connection.execute("select count(*) from entries").fetchall()
    )
    await store.close()


async def test_a_session_that_is_open_or_taken_is_not_migrated(file, address):
    async with open_context(Settings(store=str(file), session_id="one")):
        with pytest.raises(SessionInUseError):
            await migrated(file, address)
    async with open_context(Settings(store=address, session_id="two")) as context:
        await context.add_message(user("mine"))
    with pytest.raises(SessionExistsError):
        await migrated(file, address)
    with pytest.raises(SettingsError, match="from an SQLite file"):
        await migrate_store(address, str(file), print)


async def test_what_was_changed_after_a_migration_is_told(file, address):
    await migrated(file, address)
    async with open_context(Settings(store=str(file), session_id="one")) as context:
        await context.add_message(user("later"))
    with pytest.raises(StoreError, match=r"'one'.*differ"):
        await migrated(file, address)


def test_the_command_migrates_and_lists(tmp_path, address, capsys, monkeypatch):
    run = Runner(capsys, monkeypatch)
    path = fill_store(tmp_path / "run.db", "one", [says("user", "The gate is green."), says("assistant", "Noted.")])
    migrated = run("migrate", path, address, "--json", "-")
    assert migrated.document["sessions"] == [{"session_id": "one", "messages": 2, "checkpoints": 0, "is_new": True}]
    assert "one: 2 messages, compared" in migrated.err
    listed = run("sessions", "list", "--store", address, "--json", "-")
    assert [(one["session_id"], one["messages"]) for one in listed.document["sessions"]] == [("one", 2)]
    assert run("view", "one", "--store", address).status == 0
    assert run("migrate", path, tmp_path / "other.db").status == 2
    assert run("sessions", "delete", "one", "--store", address, "--yes").status == 0
    assert run("sessions", "list", "--store", address, "--json", "-").document["sessions"] == []
