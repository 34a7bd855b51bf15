"""Vectors in a Chroma folder beside the store: the extra `chroma`.

Chroma keeps vectors and their numbers, never a text; its own embedder, its telemetry and its server are not used. Which
vectors there are is told by marks in SQLite, so that they are forgotten as there; cosines are as exact as there.
"""

from __future__ import annotations

import hashlib
import logging
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread

from summarizing_context.errors import MissingExtraError, StoreError
from summarizing_context.stores.base import Match, Owner, Scope, VectorStore
from summarizing_context.stores.private_files import make_private_folder
from summarizing_context.stores.relational.search import cosines

_AT_ONCE = 2_000  # vectors in one call; Chroma takes some 5,000

_FLOAT = 4  # bytes

Made = TypeVar("Made")

logger = logging.getLogger(__name__)


class ChromaVectors:
    """A `VectorStore` that hands texts and marks on to another one. One process at a time may use a folder."""

    def __init__(self, marks: VectorStore, folder: Path | None) -> None:
        self._marks = marks
        self._folder = folder  # None: in memory
        self._one_by_one = anyio.CapacityLimiter(1)
        self._swept: set[str] = set()

    def check_usable(self) -> None:
        """Raise `MissingExtraError` where chromadb is not installed."""
        if find_spec("chromadb") is None:
            raise MissingExtraError("chroma", "vector_store = 'chroma' needs chromadb")

    async def close(self) -> None:
        """Let go of the folder. May be called twice."""
        if client := self.__dict__.pop("_client", None):
            await self._run(client.close)

    async def rows(self, scope: Scope) -> list[int]:
        return await self._marks.rows(scope)

    async def messages(self, rows: Sequence[int]) -> dict[int, bytes]:
        return await self._marks.messages(rows)

    async def matches(self, scope: Scope, scores: Mapping[int, float]) -> list[Match]:
        return await self._marks.matches(scope, scores)

    async def missing(self, owner: Owner, recipe: str, numbers: Sequence[int], size: int) -> list[int]:
        return await self._marks.missing(owner, _mark(recipe, size), numbers, 0)

    async def save(self, owner: Owner, recipe: str, vectors: Mapping[int, bytes]) -> None:
        """Keep vectors, then their marks: what is marked is there."""
        sizes: dict[int, dict[int, bytes]] = defaultdict(dict)
        for number, vector in vectors.items():
            sizes[len(vector)][number] = vector
        for size, some in sizes.items():
            name = _collection(owner, recipe, size)
            await self._sweep(owner, _mark(recipe, size), name)
            await self._run(lambda name=name, some=some: self._put(name, some))  # type: ignore[misc]
            await self._marks.save(owner, _mark(recipe, size), dict.fromkeys(some, b""))

    async def drop(self, owner: Owner, recipe: str, numbers: Sequence[int]) -> None:
        for name in [name for name in self._swept if name.startswith(_prefix(owner, recipe))]:
            await self._marks.drop(owner, _mark(recipe, _FLOAT * int(name.rpartition("-")[2])), numbers)
            await self._run(lambda name=name: self._client.delete_collection(name))  # type: ignore[misc]
            self._swept.discard(name)

    async def near(self, owner: Owner, recipe: str, numbers: Sequence[int], query: bytes) -> dict[int, float]:
        missing = set(await self.missing(owner, recipe, numbers, len(query)))
        there = [number for number in numbers if number not in missing]
        name = _collection(owner, recipe, len(query))
        scores = await self._run(lambda: self._cosines(name, there, query)) if there else {}
        if len(scores) < len(there):  # the folder was removed, or is an older copy
            lost = [number for number in there if number not in scores]
            logger.warning("vectors are gone; the next search makes them anew", extra={"vectors": len(lost)})
            await self._marks.drop(owner, _mark(recipe, len(query)), lost)
        return scores

    async def _sweep(self, owner: Owner, mark: str, name: str) -> None:
        """Once for each opening: take out what no mark names any longer."""
        if name not in self._swept:
            self._swept.add(name)
            kept = await self._run(lambda: [int(id) for id in self._table(name).get(include=[])["ids"]])
            gone = await self._marks.missing(owner, mark, kept, 0)
            for start in range(0, len(gone), _AT_ONCE):
                some = [str(number) for number in gone[start : start + _AT_ONCE]]
                await self._run(lambda some=some: self._table(name).delete(ids=some))  # type: ignore[misc]

    def _put(self, name: str, vectors: Mapping[int, bytes]) -> None:
        numbers = list(vectors)
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            table = [array("f", vectors[number]).tolist() for number in some]
            self._table(name).upsert(ids=list(map(str, some)), embeddings=table)

    def _cosines(self, name: str, numbers: Sequence[int], query: bytes) -> dict[int, float]:
        scores: dict[int, float] = {}
        for start in range(0, len(numbers), _AT_ONCE):
            some = [str(number) for number in numbers[start : start + _AT_ONCE]]
            found = self._table(name).get(ids=some, include=["embeddings"])
            vectors = [array("f", vector).tobytes() for vector in found["embeddings"]]
            scores |= cosines(list(zip(map(int, found["ids"]), vectors, strict=True)), query)
        return scores

    def _table(self, name: str) -> Any:
        space = {"hnsw": {"space": "cosine"}}
        return self._client.get_or_create_collection(name, embedding_function=None, configuration=space)

    @cached_property
    def _client(self) -> Any:
        import chromadb
        from chromadb.config import Settings

        silent = Settings(anonymized_telemetry=False)
        if self._folder is None:
            return chromadb.EphemeralClient(settings=silent)
        make_private_folder(self._folder)  # what it makes itself may be read by everybody
        return chromadb.PersistentClient(path=str(self._folder), settings=silent)

    async def _run(self, work: Callable[[], Made]) -> Made:
        """Chroma blocks: it works in a thread, one call at a time."""
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._one_by_one)
        except Exception as error:
            raise StoreError(
                f"{self._folder or 'chroma in memory'}: Chroma failed with {type(error).__name__}; where its folder is "
                "damaged, remove it: the vectors are made anew"
            ) from error


def _mark(recipe: str, size: int) -> str:
    """The recipe under which SQLite says that Chroma has a vector of so many bytes; its own vectors stay apart."""
    return f"chroma {size // _FLOAT} {recipe}"


def _prefix(owner: Owner, recipe: str) -> str:
    return f"{owner}-{hashlib.sha256(recipe.encode()).hexdigest()[:32]}-"


def _collection(owner: Owner, recipe: str, size: int) -> str:
    """A collection holds vectors of one recipe and length; a name is short and plain."""
    return f"{_prefix(owner, recipe)}{size // _FLOAT}"
