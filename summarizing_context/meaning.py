"""Searching by meaning: texts as vectors of an embedding.

Vectors are kept in the store under the embedding's recipe, so that a text is embedded once; what leaves the process is
redacted first. How vectors are compared is the store's matter. Where the embedding fails, that is told and words are
searched alone.
"""

from __future__ import annotations

import inspect
import logging
import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from summarizing_context.errors import SettingsError
from summarizing_context.ports import Embedder
from summarizing_context.shelves import Match, Owner, Scope, VectorKeeper

NEAR = 0.7  # cosine from which on texts are alike, unless `similarity_threshold` says otherwise
_AT_ONCE = 32  # texts in one call
_LONGEST = 8_000  # characters of a text that are embedded
_MOST_NEW = 2_000  # texts that one search embeds, the newest first

logger = logging.getLogger(__name__)


class Meaning:
    """An embedding, and the vectors made by it."""

    def __init__(
        self,
        embedder: Embedder | Callable[[list[str]], Any],
        vectors: VectorKeeper,
        *,
        redact: Callable[[str], str] | None,
        timeout: float,  # seconds for one call
        owned: bool = False,  # to be closed with this
    ) -> None:
        self._embedder, self._owned = embedder, owned
        self._embed: Callable[[list[str]], Any] = getattr(embedder, "embed", embedder)  # type: ignore[arg-type]
        named = getattr(embedder, "recipe", None)
        self._recipe = named if isinstance(named, str) else f"unnamed {id(embedder)}"
        self._vectors = vectors
        self._redact = redact
        self._timeout = timeout
        self.last_error: str | None = None

    async def close(self) -> None:
        """End what the embedder and the vectors hold open, if that can be ended."""
        for held in (self._embedder if self._owned else None, self._vectors):
            close = getattr(held, "close", None)
            if close is not None:
                await close()

    async def near(self, query: str, owner: Owner, texts: Mapping[int, str]) -> dict[int, float]:
        """The cosine of each text with the query, by the texts' numbers; empty where the embedding fails."""
        missing = await self._vectors.missing(owner, self._recipe, list(texts))
        if not await self._make(owner, {number: texts[number] for number in missing}):
            return {}
        return await self._compare(query, owner, list(texts))

    async def matches(self, query: str, scope: Scope, threshold: float, limit: int) -> list[Match]:
        """Messages of the scope whose meaning is near to the query's, the nearest first."""
        rows = await self._vectors.rows(scope)
        missing = (await self._vectors.missing("row", self._recipe, rows))[:_MOST_NEW]
        if not await self._make("row", await self._vectors.texts(missing)):
            return []
        near = await self._compare(query, "row", rows)
        best = sorted((row for row in near if near[row] >= threshold), key=lambda row: (-near[row], row))[:limit]
        return await self._vectors.matches(scope, {row: near[row] for row in best})

    async def _compare(self, query: str, owner: Owner, numbers: Sequence[int]) -> dict[int, float]:
        asked = await self._embedded([query])
        return await self._vectors.near(owner, self._recipe, numbers, asked[0]) if asked else {}

    async def _make(self, owner: Owner, texts: Mapping[int, str]) -> bool:
        """Make and keep the vectors of these texts; False where that failed."""
        numbers = list(texts)
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            vectors = await self._embedded([texts[number] for number in some])
            if not vectors:
                return False
            await self._vectors.save(owner, self._recipe, dict(zip(some, vectors, strict=True)))
        return True

    async def _embedded(self, texts: list[str]) -> list[bytes]:
        """A vector of length 1 for each text; none at all where the embedding fails, which is told."""
        redact = self._redact or (lambda text: text)
        try:
            with anyio.fail_after(self._timeout):
                made = self._embed([redact(text)[:_LONGEST] or " " for text in texts])
                vectors = await made if inspect.isawaitable(made) else made
            return [packed(vector) for vector in _as_many(vectors, len(texts))]
        except Exception as error:  # foreign code; its words may hold the texts
            self.last_error = f"the embedding failed ({type(error).__name__}); words are searched alone"
            logger.warning("an embedding failed", extra={"cause": type(error).__name__, "texts": len(texts)})
            return []


def packed(vector: Sequence[float]) -> bytes:
    """A vector as it is kept: 32-bit floats, brought to length 1. Raises `ValueError` for what has no direction."""
    length = math.sqrt(math.fsum(value * value for value in vector))
    if not length or not math.isfinite(length):
        raise ValueError("an embedding gave a vector without a direction")
    return array("f", (value / length for value in vector)).tobytes()


def check_embedder(embedder: object) -> None:
    """Raise `SettingsError` unless this can embed."""
    if not callable(getattr(embedder, "embed", embedder)):
        raise SettingsError(
            f"embedder is {type(embedder).__name__}; it is a function from a list of texts to a list of vectors, or an "
            "object with such a method `embed`; either may be async"
        )


def _as_many(vectors: Any, count: int) -> list[Sequence[float]]:
    listed = list(vectors)
    if len(listed) != count:
        raise ValueError("an embedding gave another number of vectors than it was given texts")
    return listed
