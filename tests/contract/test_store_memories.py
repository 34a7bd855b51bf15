"""Memories in a store: what was read is marked, and of one subject what was said last is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from summarizing_context.errors import StoreError
from summarizing_context.stores.base import MemoryScope, NewMemory
from tests.contract.store_builders import opened

pytestmark = pytest.mark.usefixtures("backend")
SCOPE = MemoryScope("p", "s")


def learnt(content: str, message: int, session_id: str = "s", **more: Any) -> NewMemory:
    place = {"source": "session", "session_id": session_id, "message": message, "quote": content}
    return NewMemory(content, {**place, "subject": "gate", **more})


async def test_what_is_marked_as_read_is_not_learnt_again_by_the_same_reader(tmp_path: Path):
    async with opened(tmp_path / "a.db", "s") as store:
        memories = store.memories
        (kept,) = await memories.learn(SCOPE, "model", ["a"], [learnt("Gate 1.", 0)], [])
        await memories.forget(SCOPE, kept.id)
        assert await memories.learn(SCOPE, "model", ["a"], [learnt("Gate 1.", 0)], []) == []
        assert await memories.all(SCOPE) == []
        assert await memories.marked(SCOPE, "model", ["a", "b"]) == {"a"}
        assert await memories.marked(SCOPE, "rules", ["a"]) == set()
        for other in (MemoryScope("q", "s"), MemoryScope(None, "s")):
            assert await memories.marked(other, "model", ["a"]) == set()
            assert len(await memories.learn(other, "model", ["a"], [learnt("Gate 1.", 0)], [])) == 1


async def test_memories_of_a_session_without_a_project_are_written_by_its_writer_alone(tmp_path: Path):
    own = MemoryScope(None, "s")
    async with opened(tmp_path / "a.db", "s") as writer, opened(tmp_path / "a.db") as other:
        kept = await writer.memories.add(own, NewMemory("Mine.", {}))
        for write in (
            lambda: other.memories.add(own, NewMemory("Of another host.", {})),
            lambda: other.memories.learn(own, "model", ["a"], [NewMemory("Of another host.", {})], ["Mine."]),
            lambda: other.memories.update(own, kept.id, "Of another host.", None),
            lambda: other.memories.forget(own, kept.id),
        ):
            with pytest.raises(StoreError, match="is not claimed by this store"):
                await write()
        assert [memory.content for memory in await other.memories.all(own)] == ["Mine."]
        await other.memories.add(SCOPE, NewMemory("Ours.", {}))  # those of a project are everybody's
        assert [memory.content for memory in await writer.memories.all(SCOPE)] == ["Ours."]


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
async def test_of_one_session_what_was_said_last_is_kept_in_whatever_order_it_is_read(
    tmp_path: Path, order: tuple[int, int]
):
    async with opened(tmp_path / "a.db", "s") as store:
        for message in order:
            await store.memories.learn(SCOPE, "model", [f"{message}"], [learnt(f"Gate {message}.", message)], [])
        assert [one.content for one in await store.memories.all(SCOPE)] == ["Gate 2."]
