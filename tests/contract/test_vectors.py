"""Keepers of vectors, SQLite and Chroma: the same contract."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, StoreError, open_context
from summarizing_context.assembly import make_vectors
from summarizing_context.retrieval.embeddings import packed
from summarizing_context.stores.base import MemoryScope, NewMemory, keep_memories
from tests.contract.store_builders import make_store

of_every_backend = pytest.mark.usefixtures("backend")
needs_chroma = pytest.mark.skipif(find_spec("chromadb") is None, reason="chromadb is not installed: the extra `chroma`")
ONE, OTHER, LONG = packed([1.0, 0.0]), packed([1.0, 1.0]), packed([1.0, 0.0, 0.0])
SCOPE = MemoryScope(None, "s")


def embed(texts: list[str]) -> list[list[float]]:
    """Near to each other are texts about cats, and others."""
    return [[1.0, 0.1] if "cat" in text or "kitten" in text else [0.0, 1.0] for text in texts]


embed.recipe = "cats/1"


@pytest.fixture(params=["sqlite", pytest.param("chroma", marks=needs_chroma)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    pytest.importorskip("numpy")
    return Settings(store=tmp_path / "run.db", session_id="s", vector_store=request.param)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Any]:
    """An open store, and its vectors."""
    store = make_store(settings.store)
    await store.open()
    vectors = make_vectors(settings, store.vectors, read_only=False)
    yield store, vectors
    if close := getattr(vectors, "close", None):
        await close()
        await close()
    await store.close()


@of_every_backend
async def test_vectors_are_kept_and_compared_with_those_of_their_length(settings):
    async with opened(settings) as (_, vectors):
        assert await vectors.near("r", [1, 2], ONE) == {}
        await vectors.save("r", {1: ONE, 2: OTHER, 4: LONG})
        near = await vectors.near("r", [1, 2, 3, 4], ONE)
        assert near == {1: pytest.approx(1.0), 2: pytest.approx(0.7071, abs=1e-4)}
        assert await vectors.near("r", [2], ONE) == {2: near[2]}
        assert await vectors.near("r", [1, 2], LONG) == {}
        await vectors.save("r", {1: LONG})
        assert set(await vectors.near("r", [1, 2], LONG)) == {1}
        await vectors.save("other", {1: ONE})
        assert await vectors.near("other", [1, 2], ONE) == {1: pytest.approx(1.0)}


@of_every_backend
async def test_what_is_forgotten_is_not_found_even_if_its_number_is_used_again(settings):
    async with opened(settings) as (store, vectors):
        await store.claim(SCOPE.session_id)
        id = (await keep_memories(store, SCOPE, [NewMemory("kitten", {})]))[0].id
        number = int(id[1:])
        await vectors.save("r", {number: ONE})
        await store.edit_memories(SCOPE, lambda held, _: held.pop(id))
        assert await vectors.near("r", [number], ONE) == {}
    async with opened(settings) as (_, vectors):
        await vectors.save("r", {number + 1: OTHER})
        assert await vectors.near("r", [number, number + 1], OTHER) == {number + 1: pytest.approx(1.0)}


async def test_memories_are_found_by_meaning(settings):
    for _ in range(2):  # the second time from what is kept
        async with open_context(settings, embedder=embed) as context:
            await context.memory.store("She has a cat")
            await context.memory.store("The invoice was sent")
            assert [hit.snippet for hit in await context.search("kitten")] == ["She has a cat"]
            assert (await context.memory.retrieve("kitten"))[0].content == "She has a cat"


@needs_chroma
async def test_a_chroma_folder_is_private_and_what_it_lost_is_made_anew(tmp_path):
    settings = Settings(store=tmp_path / "run.db", session_id="s", vector_store="chroma")
    folder = tmp_path / "run.db.chroma"
    async with open_context(settings, embedder=embed) as context:
        await context.memory.store("A kitten sleeps")
        assert len(await context.search("cat")) == 1
        assert folder.stat().st_mode & 0o077 == 0
    shutil.rmtree(folder)
    async with open_context(settings, embedder=embed) as context:
        assert [len(await context.search("cat")) for _ in range(2)] == [1, 1]
    for part in folder.rglob("*"):
        if part.is_file():
            part.write_bytes(b"no database" * 100)
    async with open_context(settings, embedder=embed) as context:
        with pytest.raises(StoreError, match=r"run\.db\.chroma: .* remove it"):
            await context.search("cat")
