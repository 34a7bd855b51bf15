"""What the SDK really sends for an embedding, and what a reply must hold."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from summarizing_context import Settings
from summarizing_context.assembly import make_embedder
from summarizing_context.errors import SettingsError, SummarizerError, SummarizerRateLimited
from summarizing_context.retrieval.embeddings import OpenAIEmbedder

from .mocking import mocked

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


BAD = [{}, {"data": None}, data([1.0]), data([1.0], []), data([1.0], ["x"]), data([1.0], None)]


@pytest.mark.parametrize(
    ("status", "reply", "error"),
    [*((200, reply, SummarizerError) for reply in BAD), (429, {"error": {"message": "SECRET"}}, SummarizerRateLimited)],
)
async def test_a_reply_without_a_vector_for_each_text_is_refused_and_no_text_is_kept(status, reply, error):
    made = embedder()
    with mocked() as router:
        router.post(f"{URL}/embeddings").respond(status, json=reply)
        with pytest.raises(error) as raised:
            await made.embed(["SECRET", "two"])
        await made.close()
    assert "SECRET" not in f"{raised.value!r} {raised.value.__cause__!r}"


GIVEN = {
    "api_key": "key-of-summarizer",
    "base_url": "https://summarizer.example/v1",
    "embedding_api_key": "key-of-embedding",
    "embedding_base_url": "https://embedding.example/v1",
}
PLACES = [{name: GIVEN[name] for name in names} for many in range(5) for names in itertools.combinations(GIVEN, many)]


@pytest.mark.parametrize("place", PLACES, ids="+".join)
@pytest.mark.parametrize("summarizer", ["extractive", "openai", "anthropic", "host"])
async def test_a_key_goes_only_to_the_provider_it_was_given_for(summarizer, place, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    settings = Settings(summarizer=summarizer, model="m", embedding="openai", embedding_model="e", **place)
    own = {name for name in place if name.startswith("embedding")}
    shares = summarizer == "openai" and not own
    is_unnamed = "base_url" in place and "embedding_base_url" not in place  # messages would go beside the named server
    if not shares and (is_unnamed or (place and not own and summarizer in ("extractive", "host"))):
        with pytest.raises(SettingsError, match="embedding_base_url"):
            make_embedder(settings, read_only=False)
        return
    if own == {"embedding_base_url"}:  # the environment's key is OpenAI's
        with pytest.raises(SettingsError, match="OPENAI_API_KEY is not sent"):
            make_embedder(settings, read_only=False)
        return
    made = make_embedder(settings, read_only=False)
    with mocked() as router:
        route = router.post(url__regex=".*").respond(json=data([1.0]))
        await made.embed(["text"])
        await made.close()
    sent = route.calls[0].request
    if own or summarizer != "openai":
        address, key = place.get("embedding_base_url"), place.get("embedding_api_key")
    else:
        address, key = place.get("base_url"), place.get("api_key")
    assert str(sent.url) == f"{address or 'https://api.openai.com/v1'}/embeddings"
    assert sent.headers["authorization"] == f"Bearer {key or 'key-of-openai'}"


@pytest.mark.parametrize("address", ["https://api.openai.com/v1/", "https://env.example/v1"])
def test_the_key_of_the_environment_goes_to_the_address_of_the_environment(address, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://env.example/v1/")
    OpenAIEmbedder("m", base_url=address)
    with pytest.raises(SettingsError, match="is not sent"):
        OpenAIEmbedder("m", base_url="https://other.example/v1")


def test_at_the_summarizers_address_the_key_of_the_environment_serves_both_or_none(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai")
    address = "https://both.example/v1"
    settings = Settings(
        summarizer="openai", model="m", base_url=address,
        embedding="openai", embedding_model="e", embedding_base_url=address,
    )  # fmt: skip
    assert make_embedder(settings, read_only=False) is not None
    with pytest.raises(SettingsError, match="is not sent"):
        make_embedder(replace(settings, api_key="key-of-summarizer"), read_only=False)
