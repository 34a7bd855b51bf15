"""What the SDK really sends for an embedding, and what a reply must hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from summarizing_context.embedders.openai_embeddings import OpenAIEmbedder
from summarizing_context.errors import SummarizerError, SummarizerRateLimited

from .mocking import mocked

pytestmark = pytest.mark.anyio
URL = "https://embeddings.example/v1"


def data(*vectors: Any) -> dict[str, Any]:
    listed = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    return {"object": "list", "data": listed[::-1], "model": "m", "usage": {"prompt_tokens": 2, "total_tokens": 2}}


def embedder() -> OpenAIEmbedder:
    return OpenAIEmbedder("m", base_url=URL, api_key="key-1")


async def test_texts_are_sent_together_and_vectors_come_back_in_their_order():
    made = embedder()
    with mocked() as router:
        route = router.post(f"{URL}/embeddings").respond(json=data([1.0, 0.0], [0.0, 2]))
        assert await made.embed(["one", "two"]) == [[1.0, 0.0], [0.0, 2]]
        await made.close()
    request = route.calls[0].request
    assert json.loads(request.content) == {"model": "m", "input": ["one", "two"], "encoding_format": "float"}
    assert request.headers["authorization"] == "Bearer key-1"


@pytest.mark.parametrize(
    "reply", [{}, {"data": None}, data([1.0]), data([1.0], []), data([1.0], ["x"]), data([1.0], None)]
)
async def test_a_reply_without_a_vector_for_each_text_is_refused(reply: dict[str, Any]):
    made = embedder()
    with mocked() as router:
        router.post(f"{URL}/embeddings").respond(json=reply)
        with pytest.raises(SummarizerError):
            await made.embed(["one", "two"])
        await made.close()


async def test_a_refusal_of_the_provider_keeps_no_text():
    made = embedder()
    with mocked() as router:
        router.post(f"{URL}/embeddings").respond(429, json={"error": {"message": "SECRET"}})
        with pytest.raises(SummarizerRateLimited) as raised:
            await made.embed(["SECRET"])
        await made.close()
    assert "SECRET" not in f"{raised.value!r} {raised.value.__cause__!r}"


def test_the_recipe_names_the_model_and_a_server_of_ones_own():
    assert "m" in embedder().recipe
    assert embedder().recipe != OpenAIEmbedder("m", base_url="https://other.example/v1", api_key="k").recipe
