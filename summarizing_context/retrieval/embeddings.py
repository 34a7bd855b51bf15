"""Memories by meaning: texts as vectors of an embedding, by OpenAI's protocol or a function of the user's.

A text is embedded once; vectors are kept in the store under the embedding's recipe. Text is redacted first. Where the
embedding fails, that is reported, and search by words goes on.
"""

from __future__ import annotations

import inspect
import logging
import math
import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Protocol

import anyio.to_thread
import msgspec

from summarizing_context.errors import SettingsError, SummarizerError
from summarizing_context.messages.reading import Message, Reading
from summarizing_context.messages.redaction import Redaction, redact_reading
from summarizing_context.settings import PROVIDERS, Settings
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
        self._recipe = named if isinstance(named, str) else f"unnamed {os.urandom(16).hex()}"
        self._vectors, self._redact, self._timeout = vectors, redact, timeout
        self._one_by_one = anyio.CapacityLimiter(1)
        self.last_error: str | None = None

    async def close(self) -> None:
        """End what the embedder and the vectors hold open, if that can be ended."""
        for held in (self._embedder if self._owned else None, self._vectors):
            if close := getattr(held, "close", None):
                await close()

    async def redacted(self, message: Message, reading: Reading) -> Reading | None:
        """Return what may be sent of a message; None where it cannot be redacted, which is reported."""
        if self._redact is None:
            return reading
        try:
            with anyio.fail_after(self._timeout):
                work = partial(redact_reading, message, reading, self._redact)
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except (SummarizerError, TimeoutError) as error:
            self._report(error, 1)
            return None

    async def near(self, query: str, texts: Mapping[int, str]) -> dict[int, float]:
        """Return the cosine of each text with the query, by its number; what the embedding failed at is left out."""
        if not texts or not query.strip() or not (asked := await self._embedded([query])):
            return {}
        (vector,) = asked
        near = await self._vectors.near(self._recipe, list(texts), vector)
        missing = [number for number in texts if number not in near]

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
        return (near | await self._vectors.near(self._recipe, missing, vector)) if missing else near

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
            self._report(error, len(texts))
            return []

    def _report(self, error: Exception, texts: int) -> None:
        why = str(error) if isinstance(error, SummarizerError) else type(error).__name__
        self.last_error = f"the embedding failed ({why}); what it lacks is found by words alone"
        logger.warning("an embedding failed", extra={"cause": type(error).__name__, "texts": texts})


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
    """Embeds with a model. Safe for any number of tasks of one event loop; close it in the end."""

    def __init__(self, model: str, *, base_url: str, api_key: str, timeout: float = 60.0) -> None:
        """`timeout` is in seconds without a sign of life."""
        self.model = model
        self.recipe = recipe_name("openai-embeddings", model, server=base_url, official=OFFICIAL)
        most = 8_000_000  # bytes of a reply: 32 vectors of 3,072 numbers, written out
        self._connection = Connection(
            "openai.AsyncOpenAI", timeout=timeout, max_bytes=most, base_url=base_url, api_key=api_key
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


def make_embedder(settings: Settings, *, read_only: bool) -> OpenAIEmbedder | None:
    """Return the embedder that the settings name.

    Its address and key are its own, or both of a summarizer of the same provider; never one of each. The key of the
    environment goes to the provider and to the address of the environment alone, unless the summarizer sends it to this
    one too.
    """
    if settings.embedding is None or read_only:  # what only reads sends nothing anywhere
        return None
    if settings.embedding_model is None:
        raise SettingsError(
            "embedding = 'openai' needs embedding_model, for example 'text-embedding-3-small', and there is none"
        )
    address, key, is_same = settings.embedding_base_url, settings.embedding_api_key, settings.summarizer == "openai"
    if address is None and (settings.base_url or settings.api_key):
        if is_same and key is None:
            address, key = settings.base_url, settings.api_key
        elif settings.base_url is not None or (key is None and settings.summarizer not in PROVIDERS):
            raise SettingsError(
                f"api_key and base_url belong to summarizer = {settings.summarizer!r}, and embedding = "
                f"{settings.embedding!r} would send messages to another server; set embedding_base_url, or "
                "embedding_api_key without a base_url"
            )
    usual, place = os.environ.get("OPENAI_BASE_URL") or OFFICIAL, f" or the environment variable {KEY_VARIABLE}"
    is_shared = is_same and address == settings.base_url and not settings.api_key
    address = address or usual
    if is_shared or address.rstrip("/") in (OFFICIAL, usual.rstrip("/")):
        key = key or os.environ.get(KEY_VARIABLE)
    else:
        place = f"; {KEY_VARIABLE} is not sent to an embedding_base_url of your own"
    if not key:
        raise SettingsError(
            f"embedding = 'openai' needs a key and there is none; set embedding_api_key{place} "
            "(any word will do for a server of your own that asks for none)"
        )
    return OpenAIEmbedder(settings.embedding_model, base_url=address, api_key=key, timeout=settings.call_timeout)
