"""Vectors in a Chroma folder beside the store: the extra `chroma`.

Chroma keeps vectors and their numbers, never a text; its own embedder, its telemetry and its server are not used. Which
vectors there are is told by marks in SQLite, so that they are forgotten as there; cosines are as exact as there.
"""

from __future__ import annotations

import hashlib
import logging
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread

from summarizing_context.errors import MissingExtraError, StoreError
from summarizing_context.stores.base import VectorStore
from summarizing_context.stores.relational.store import cosines

Made = TypeVar("Made")

logger = logging.getLogger(__name__)


class ChromaVectors:
    """A `VectorStore` that hands marks on to another one. One process at a time may use a folder."""

    def __init__(self, marks: VectorStore, folder: Path | None) -> None:
        """Raise `MissingExtraError` where chromadb is not installed."""
        if find_spec("chromadb") is None:
            raise MissingExtraError("chroma", "vector_store = 'chroma' needs chromadb")
        self._marks = marks
        self._folder = folder  # None: in memory
        self._one_by_one = anyio.CapacityLimiter(1)
        self._swept: set[str] = set()  # collections that hold marked vectors alone
        self._told = False  # that vectors are gone

    async def close(self) -> None:
        """Let go of the folder. May be called twice."""
        if client := self.__dict__.pop("_client", None):
            await self._run(client.close)

    async def save(self, recipe: str, vectors: Mapping[int, bytes]) -> None:
        """Keep vectors, then their marks: what is marked is there."""
        for size in {len(vector) for vector in vectors.values()}:
            some = {number: vector for number, vector in vectors.items() if len(vector) == size}
            name, mark = _names(recipe, size)
            if name not in self._swept:  # once for each opening: take out what no mark names any longer
                self._swept.add(name)
                table = await self._run(partial(self._table, name))
                there = list(map(int, (await self._run(partial(table.get, include=[])))["ids"]))
                marked = await self._marks.near(mark, there, b"")
                for ids in _slices(number for number in there if number not in marked):
                    await self._run(partial(table.delete, ids=ids))
            await self._run(partial(self._put, name, some))
            await self._marks.save(mark, dict.fromkeys(some, b""))

    async def near(self, recipe: str, numbers: Sequence[int], query: bytes) -> dict[int, float]:
        name, mark = _names(recipe, len(query))
        marked = list(await self._marks.near(mark, numbers, b""))
        scores = await self._run(partial(self._cosines, name, marked, query)) if marked else {}
        if len(scores) < len(marked) and not self._told:  # the folder was removed, or is an older copy
            self._told, lost = True, len(marked) - len(scores)
            logger.warning("vectors are gone; they are made again where the embedding works", extra={"vectors": lost})
        return scores

    # What follows runs in a thread, one call at a time: Chroma blocks.

    async def _run(self, work: Callable[[], Made]) -> Made:
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._one_by_one)
        except Exception as error:
            raise StoreError(
                f"{self._folder or 'chroma in memory'}: Chroma failed with {type(error).__name__}; where its folder is "
                "damaged, remove it: the vectors are made again"
            ) from error

    @cached_property
    def _client(self) -> Any:
        import chromadb
        from chromadb.config import Settings

        silent = Settings(anonymized_telemetry=False)
        if self._folder is None:
            return chromadb.EphemeralClient(settings=silent)
        self._folder.mkdir(mode=0o700, exist_ok=True)  # what it makes itself may be read by all users
        return chromadb.PersistentClient(path=str(self._folder), settings=silent)

    def _table(self, name: str) -> Any:
        space = {"hnsw": {"space": "cosine"}}
        return self._client.get_or_create_collection(name, embedding_function=None, configuration=space)

    def _put(self, name: str, vectors: Mapping[int, bytes]) -> None:
        for some in _slices(vectors):
            rows = [array("f", vectors[int(number)]).tolist() for number in some]
            self._table(name).upsert(ids=some, embeddings=rows)

    def _cosines(self, name: str, numbers: Sequence[int], query: bytes) -> dict[int, float]:
        scores: dict[int, float] = {}
        for some in _slices(numbers):
            found = self._table(name).get(ids=some, include=["embeddings"])
            vectors = [array("f", vector).tobytes() for vector in found["embeddings"]]
            scores |= cosines(zip(map(int, found["ids"]), vectors, strict=True), query)
        return scores


def _slices(numbers: Iterable[int]) -> list[list[str]]:
    """Return the ids of one call after another; Chroma takes some 5,000 at once."""
    ids = list(map(str, numbers))
    return [ids[start : start + 2_000] for start in range(0, len(ids), 2_000)]


def _names(recipe: str, size: int) -> tuple[str, str]:
    """Return the name of the collection of the vectors of one recipe that take so many bytes, of 32-bit floats, and the
    recipe under which SQLite says that Chroma has one."""
    return f"memory-{hashlib.sha256(recipe.encode()).hexdigest()[:32]}-{size // 4}", f"chroma {size // 4} {recipe}"
