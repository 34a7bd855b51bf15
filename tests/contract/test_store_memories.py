"""Memories in a store: what was read is marked, and of one subject what was said last is kept."""

from typing import Any

import pytest

from summarizing_context.errors import StoreError
from summarizing_context.stores.base import MemoryEdit, MemoryScope, NewMemory, keep_memories, update_memory
from tests.contract.store_builders import opened

SCOPE = MemoryScope("p", "s")


@pytest.fixture
async def memories(path, backend):
    async with opened(path, "s") as store:
        yield store.memories


def learnt(content: str, message: int, **more: Any) -> NewMemory:
    place = {"source": "session", "session_id": "s", "message": message, "quote": content}
    return NewMemory(content, {**place, "subject": "gate", **more})


async def contents(memories: Any) -> list[str]:
    return [one.content for one in await memories.all(SCOPE)]


async def test_what_is_marked_as_read_is_not_learnt_again_by_the_same_reader(memories):
    read: dict[str, Any] = {"reader": "model", "marks": ["a"], "again": False}
    (kept,) = await keep_memories(memories, SCOPE, [learnt("Gate 1.", 0)], **read)
    await update_memory(memories, SCOPE, kept.id, None)
    assert await keep_memories(memories, SCOPE, [learnt("Gate 1.", 0)], **read) == await contents(memories) == []
    assert await memories.marked(SCOPE, "model", ["a", "b"]) == {"a"}
    assert await memories.marked(SCOPE, "rules", ["a"]) == set()
    for other in (MemoryScope("q", "s"), MemoryScope(None, "s")):
        assert await memories.marked(other, "model", ["a"]) == set()
        assert len(await keep_memories(memories, other, [learnt("Gate 1.", 0)], **read)) == 1


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
async def test_of_one_session_what_was_said_last_is_kept_in_whatever_order_it_is_read(memories, order):
    for message in order:
        await keep_memories(memories, SCOPE, [learnt(f"Gate {message}.", message)])
    assert await contents(memories) == ["Gate 2."]


async def test_an_edit_is_all_or_nothing_and_tells_the_ids(memories):
    new = [MemoryEdit(None, "One.", {"n": 1}), MemoryEdit(None, "Two.")]
    first, second = await memories.edit(SCOPE, lambda known, marked: new, "model", ["a"])
    known, edits = list[str](), [MemoryEdit(first, "First.", {}), MemoryEdit(second, None), MemoryEdit("m99", "?")]

    def decide(found: Any, marked: set[str]) -> list[MemoryEdit]:
        known[:] = [one.content for one in found] + sorted(marked)
        return edits

    with pytest.raises(StoreError):
        await memories.edit(SCOPE, decide, "model", ["a", "b"])
    assert known == ["One.", "Two.", "a"]
    assert await contents(memories) == ["One.", "Two."]
    assert await memories.marked(SCOPE, "model", ["a", "b"]) == {"a"}
    edits.pop()
    assert await memories.edit(SCOPE, decide) == [first, second]
    assert await contents(memories) == ["First."]


async def test_a_memory_that_another_of_the_same_reading_replaces_has_the_id_of_that(memories):
    about = [learnt("Ada owns it.", 1, relation="owner"), learnt("It is at :80.", 2, relation="place")]
    kept = await keep_memories(memories, SCOPE, [*about, learnt("It is gone.", 3)])
    (left,) = await memories.all(SCOPE)
    assert [one.change for one in kept] == ["stored", "stored", "replaced"]
    assert ({one.id for one in kept}, left.content) == ({left.id}, "It is gone.")
    assert left.metadata["replaces"] == "It is at :80. Ada owns it."
    await update_memory(memories, SCOPE, left.id, "It is back.", None)
    assert await contents(memories) == ["It is back."]
