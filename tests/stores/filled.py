"""A file with all that a store holds, and all that a store tells of its sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from summarizing_context import Settings, open_context
from summarizing_context.assembly import open_store
from summarizing_context.stores.base import (
    MemoryScope,
    NewActivation,
    NewMemory,
    Place,
    Scope,
    SessionStore,
    StoredProviderView,
)
from summarizing_context.stores.sqlite.store import SqliteStore
from tests.contract.store_builders import key, nothing, numbered, summary
from tests.making import assistant, user


async def fill(path: Path) -> None:
    """Sessions, a fork, checkpoints, memories, pins, rules, activations, vectors."""
    for name in ("one", "two"):
        async with open_context(
            Settings(store=str(path), session_id=name, project="garden", max_tokens=1_000)
        ) as context:
            await context.add_message(user("Never dig under the oak."))
            for number in range(12):
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
    await store.checkpoints.save("bare", "n", Place(0, 3), [StoredProviderView("p", b"state" * 99, "[]")])
    await store.checkpoints.fork("bare", made.id, "fork")
    await store.claim("fork")
    await store.append("fork", numbered(2, "own"), nothing)
    await store.save_summary("bare", key(1), summary("a summary"), {key(1): (0, 2)})
    await store.save_summary("nobody", key(2), summary("one that no session uses"))
    await store.save_activation("bare", "p", b"now", NewActivation(1, "{}", b"before"))
    rows = await store.vectors.rows(Scope("fork", "fork"))
    await store.vectors.save("row", "recipe", dict.fromkeys(rows, b"\x00\x00\x80?"))
    own = await store.memories.add(MemoryScope(None, "bare"), NewMemory("It rains.", {"subject": "sky"}))
    await store.vectors.save("memory", "recipe", {int(own.id[1:]): b"\x00\x00\x80?"})
    await store.memories.learn(MemoryScope("garden", "one"), "rules", ["a", "b"], [], [])
    await store.close()


async def told(store: SessionStore) -> Any:
    """All that a store tells of its sessions."""
    sessions = sorted(await store.sessions(), key=lambda one: one.session_id)
    found: dict[str, Any] = {}
    for one in sessions:
        marks = await store.checkpoints.listed(one.session_id)
        loaded = [await store.checkpoints.load(one.session_id, mark.id) for mark in marks]
        found[one.session_id] = (
            await store.load(one.session_id), loaded, one.summaries, one.created_at, one.updated_at, one.input_tokens,
            await store.list_activations(one.session_id), len(await store.vectors.rows(Scope(None, one.session_id))),
        )  # fmt: skip
    memories = [
        (one.content, str(one.metadata), one.created_at, one.updated_at) for one in await store.memories.all(None)
    ]
    scope = MemoryScope("garden", "one")
    marked = await store.memories.marked(scope, "rules", ["a", "b", "c"])
    unused = await store.find_summaries("nobody", [key(2)])
    words = [one.content for one in await store.memories.find(scope, ["ana"], 5)]
    return found, sorted(memories), sorted(words), marked, unused


async def same(file: Path, address: str) -> bool:
    """Whether both stores tell the same."""
    stores = [await open_store(file), await open_store(address)]
    ours, theirs = [await told(store) for store in stores]
    for store in stores:
        await store.close()
    return bool(ours == theirs)
