"""Vectors by a model behind the OpenAI embeddings protocol: OpenAI itself, or any compatible server.

The SDK is imported at the first call. Redaction, limits and what a failure leads to are `meaning`'s.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from summarizing_context.errors import SettingsError, SummarizerError
from summarizing_context.summarizers.openai_chat import KEY_VARIABLE, OFFICIAL, connect
from summarizing_context.summarizers.providers import IDENTITY, Fault, Line, recipe_name

EXAMPLE = "text-embedding-3-small"
_MOST_BYTES = 8_000_000  # of a reply: 32 vectors of 3,072 numbers, written out


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
        now: Callable[[], float] = time.time,  # seconds since 1970, for dates in Retry-After
    ) -> None:
        if model is None or not model.strip():
            raise SettingsError(
                f"embedding = 'openai' needs embedding_model, for example {EXAMPLE!r}, and there is none"
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
        server = None if address.rstrip("/") == OFFICIAL else address
        self.recipe = recipe_name("openai-embeddings", self.model, server=server, options={})
        self._line = Line(lambda: connect(address, key, timeout), now=now, max_bytes=_MOST_BYTES)

    async def embed(self, texts: list[str]) -> list[Sequence[float]]:
        """A vector for each text. Raises `SummarizerError` or a subclass where there is none."""
        reply = await self._line.ask(
            lambda client: client.embeddings.with_streaming_response.create(
                model=self.model, input=texts, encoding_format="float", extra_headers=IDENTITY
            )
        )
        return _vectors(reply, len(texts))

    async def close(self) -> None:
        """Close the connections; afterwards every call fails. May be called twice."""
        await self._line.close()


def _vectors(reply: dict[str, Any], count: int) -> list[Sequence[float]]:
    """The vectors in the order of the texts: each tells its place."""
    listed = reply.get("data")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    placed = {row.get("index"): row.get("embedding") for row in rows}
    found: list[Any] = [placed.get(at) for at in range(count)]
    if not all(map(_is_vector, found)):
        raise SummarizerError(Fault.SHAPE)
    return found


def _is_vector(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(number, int | float) and not isinstance(number, bool) for number in value)
