"""Memories by meaning: texts as vectors of an embedding, by OpenAI's protocol or a function of the user's.

A text is embedded once; vectors are kept in the store under the embedding's recipe. Text is redacted first. Where the
embedding fails, that is reported, and search by words goes on.
"""

from __future__ import annotations

import inspect
import logging
import math
import os
import uuid
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Protocol

import anyio.to_thread
import msgspec

from summarizing_context.errors import SettingsError, SummarizerError
from summarizing_context.messages.redaction import Redaction
from summarizing_context.stores.base import VectorStore
from summarizing_context.summarizers.sdk import KEY_VARIABLE, OFFICIAL, Connection, Fault, recipe_name


class Embedder(Protocol):
    """Turns texts into vectors. An attribute `recipe: str`, if present, names how, so that vectors can be kept."""

    async def embed(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """Return a vector for each text, all of one length."""


NEAR = 0.7  # cosine from which on texts are alike, unless `similarity_threshold` says otherwise

_AT_ONCE = 32  # texts in one call
logger = logging.getLogger(__name__)


class EmbeddingSearch:
    """An embedding, and the vectors made by it."""

    def __init__(
        self,
        embedder: Embedder | Callable[[list[str]], Any],
        vectors: VectorStore,
        *,
        redact: Redaction | None,
        timeout: float,  # seconds for one call
        owned: bool = False,  # to be closed with this
    ) -> None:
        self._embedder, self._owned = embedder, owned
        self._embed: Callable[[list[str]], Any] = getattr(embedder, "embed", embedder)  # type: ignore[arg-type]
        named = getattr(embedder, "recipe", None)
        self._recipe = named if isinstance(named, str) else f"unnamed {uuid.uuid4().hex}"
        self._vectors, self._redact, self._timeout = vectors, redact, timeout
        self._one_by_one = anyio.CapacityLimiter(1)
        self.last_error: str | None = None

    async def close(self) -> None:
        """End what the embedder and the vectors hold open, if that can be ended."""
        for held in (self._embedder if self._owned else None, self._vectors):
            if close := getattr(held, "close", None):
                await close()

    async def near(self, query: str, texts: Mapping[int, str]) -> dict[int, float]:
        """Return the cosine of each text with the query, by its number; what the embedding failed at is left out."""
        if not texts or not query.strip() or not (asked := await self._embedded([query])):
            return {}
        (vector,) = asked
        missing = await self._vectors.missing(self._recipe, list(texts), len(vector))

        # make and keep those that are missing; where a call fails its halves are tried: one text may be why
        pending = [missing[start : start + _AT_ONCE] for start in range(0, len(missing), _AT_ONCE)][::-1]
        failures, until = 0, anyio.current_time() + self._timeout
        while pending and failures < 8 and not (failures and anyio.current_time() > until):  # one text of 32 takes 6
            some = pending.pop()
            if vectors := await self._embedded([texts[number] for number in some], len(vector)):
                await self._vectors.save(self._recipe, dict(zip(some, vectors, strict=True)))
            else:
                failures, middle = failures + 1, len(some) // 2
                pending += [some[middle:], some[:middle]] if middle else []
        return await self._vectors.near(self._recipe, list(texts), vector)

    async def _embedded(self, texts: Sequence[str], size: int | None = None) -> list[bytes]:
        """Return a vector of length 1 for each text; none at all where the embedding fails, which is reported."""

        def sent(text: str) -> str:
            redacted = self._redact(text) if self._redact else text
            # no model sees more tokens in a text than bytes
            return redacted.encode("utf-8", "replace")[:8_000].decode("utf-8", "ignore") or " "

        try:
            with anyio.fail_after(self._timeout):
                given = await anyio.to_thread.run_sync(lambda: list(map(sent, texts)), abandon_on_cancel=True)
                if inspect.iscoroutinefunction(self._embed):
                    made = self._embed(given)
                else:  # a plain function may compute for long: it runs in a thread, one call at a time
                    made = await anyio.to_thread.run_sync(
                        partial(self._embed, given), abandon_on_cancel=True, limiter=self._one_by_one
                    )
                vectors = await made if inspect.isawaitable(made) else made
                kept = await anyio.to_thread.run_sync(lambda: list(map(packed, vectors)))
            if len(kept) != len(texts) or any(len(vector) != (size or len(kept[0])) for vector in kept):
                raise ValueError("an embedding gave too few or too many vectors, or some of other lengths")
            return kept
        except Exception as error:  # foreign code; its words may hold the texts
            why = str(error) if isinstance(error, SummarizerError) else type(error).__name__
            self.last_error = f"the embedding failed ({why}); what it lacks is found by words alone"
            logger.warning("an embedding failed", extra={"cause": type(error).__name__, "texts": len(texts)})
            return []


def packed(vector: Sequence[float]) -> bytes:
    """Return a vector as it is kept: 32-bit floats, brought to length 1. Raise `ValueError` for zeros."""
    length = math.sqrt(math.fsum(value * value for value in vector))
    if not length or not math.isfinite(length):
        raise ValueError("an embedding gave a vector without a direction")
    return array("f", (value / length for value in vector)).tobytes()


class _Row(msgspec.Struct):  # of a reply
    index: int
    embedding: Annotated[list[float], msgspec.Meta(min_length=1)]


class OpenAIEmbedder:
    """Embeds with a model. Safe for any number of tasks of one event loop; close it in the end.

    Without `base_url` or `api_key` the SDK's environment variables hold; the key of the environment for the provider
    and the address of the environment alone, unless `shares_key` says that the summarizer sends it to this one too.
    """

    def __init__(
        self,
        model: str | None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        shares_key: bool = False,
        timeout: float = 60.0,  # seconds without a sign of life
    ) -> None:
        if model is None or not model.strip():
            raise SettingsError(
                "embedding = 'openai' needs embedding_model, for example 'text-embedding-3-small', and there is none"
            )
        self.model = model
        address = base_url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL
        its_own = {OFFICIAL, os.environ.get("OPENAI_BASE_URL", OFFICIAL).rstrip("/")}
        if shares_key or address.rstrip("/") in its_own:
            key, place = api_key or os.environ.get(KEY_VARIABLE), f" or the environment variable {KEY_VARIABLE}"
        else:
            key, place = api_key, f"; {KEY_VARIABLE} is not sent to an embedding_base_url of your own"
        if not key:
            raise SettingsError(
                f"embedding = 'openai' needs a key and there is none; set embedding_api_key{place} "
                "(any word will do for a server of your own that asks for none)"
            )
        self.recipe = recipe_name("openai-embeddings", self.model, server=address, official=OFFICIAL)
        most = 8_000_000  # bytes of a reply: 32 vectors of 3,072 numbers, written out
        self._connection = Connection(
            "openai.AsyncOpenAI", timeout=timeout, max_bytes=most, base_url=address, api_key=key
        )

    async def embed(self, texts: list[str]) -> list[Sequence[float]]:
        """Return a vector for each text. Raise `SummarizerError` or a subclass where there is none."""
        method = "embeddings.with_streaming_response.create"
        reply = await self._connection.request(method, model=self.model, input=texts, encoding_format="float")
        try:
            placed = {row.index: row.embedding for row in msgspec.convert(reply.get("data"), list[_Row])}
            return [placed[at] for at in range(len(texts))]
        except (msgspec.ValidationError, KeyError):
            raise SummarizerError(Fault.SHAPE) from None

    async def close(self) -> None:
        """Close the connections; afterwards every call fails. May be called twice."""
        await self._connection.close()
