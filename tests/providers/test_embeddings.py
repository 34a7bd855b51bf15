"""What the SDK really sends for an embedding, and what a reply must hold."""

import itertools
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from summarizing_context import Settings
from summarizing_context.errors import SettingsError, SummarizerError, SummarizerRateLimited
from summarizing_context.retrieval.embeddings import OpenAIEmbedder, make_embedder

from .mocking import mocked

URL = "https://embeddings.example/v1"


def data(*vectors: Any) -> dict[str, Any]:
    return {"data": [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)][::-1]}


async def asked(embedder: OpenAIEmbedder, *texts: str, **reply: Any) -> tuple[Any, httpx.Request]:
    """The vectors of these texts, and the request for them."""
    with mocked() as router:
        route = router.post(url__regex=".*").respond(**reply)
        try:
            return await embedder.embed(list(texts)), route.calls[0].request
        finally:
            await embedder.close()


async def test_texts_are_sent_together_and_vectors_come_back_in_their_order():
    made = OpenAIEmbedder("m", base_url=URL, api_key="key-1")
    vectors, request = await asked(made, "one", "two", json=data([1.0, 0.0], [0.0, 2]))
    assert vectors == [[1.0, 0.0], [0.0, 2]]
    assert json.loads(request.content) == {"model": "m", "input": ["one", "two"], "encoding_format": "float"}
    assert (str(request.url), request.headers["authorization"]) == (f"{URL}/embeddings", "Bearer key-1")


BAD = [{}, {"data": None}, data([1.0]), data([1.0], []), data([1.0], ["x"]), data([1.0], None)]


@pytest.mark.parametrize(
    ("status", "reply", "error"),
    [*((200, reply, SummarizerError) for reply in BAD), (429, {"error": {"message": "SECRET"}}, SummarizerRateLimited)],
)
async def test_a_reply_without_a_vector_for_each_text_is_refused_and_no_text_is_kept(status, reply, error):
    with pytest.raises(error) as raised:
        await asked(OpenAIEmbedder("m", base_url=URL, api_key="key-1"), "SECRET", "two", status_code=status, json=reply)
    assert "SECRET" not in f"{raised.value!r} {raised.value.__cause__!r}"


GIVEN = {
    "api_key": "key-of-summarizer",
    "base_url": "https://summarizer.example/v1",
    "embedding_api_key": "key-of-embedding",
    "embedding_base_url": "https://embedding.example/v1",
}
PLACES = [{name: GIVEN[name] for name in names} for many in range(5) for names in itertools.combinations(GIVEN, many)]


@pytest.fixture
def key_of_openai(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai")
    return "key-of-openai"


@pytest.mark.parametrize("place", PLACES, ids="+".join)
@pytest.mark.parametrize("summarizer", ["extractive", "openai", "anthropic", "host"])
async def test_a_key_goes_only_to_the_provider_it_was_given_for(summarizer, place, key_of_openai):
    settings = Settings(summarizer=summarizer, model="m", embedding="openai", embedding_model="e", **place)
    own = {name for name in place if name.startswith("embedding")}
    is_shared = summarizer == "openai" and not own
    is_unnamed = "base_url" in place and "embedding_base_url" not in place  # messages would go beside the named server
    refusal = "OPENAI_API_KEY is not sent" if own == {"embedding_base_url"} else ""  # the environment's key is OpenAI's
    if not is_shared and (is_unnamed or (place and not own and summarizer in ("extractive", "host"))):
        refusal = "embedding_base_url"
    if refusal:
        with pytest.raises(SettingsError, match=refusal):
            make_embedder(settings, read_only=False)
        return
    _, sent = await asked(make_embedder(settings, read_only=False), "text", json=data([1.0]))
    address, key = (place.get(f"{'' if is_shared else 'embedding_'}{name}") for name in ("base_url", "api_key"))
    assert str(sent.url) == f"{address or 'https://api.openai.com/v1'}/embeddings"
    assert sent.headers["authorization"] == f"Bearer {key or key_of_openai}"


@pytest.mark.usefixtures("key_of_openai")
def test_the_key_of_the_environment_goes_to_the_address_of_the_environment_or_of_the_summarizer(monkeypatch):
    address = "https://both.example/v1"
    places = {"base_url": address, "embedding_base_url": address}  # the key serves both or none
    settings = Settings(summarizer="openai", model="m", embedding="openai", embedding_model="e", **places)
    assert make_embedder(settings, read_only=False) is not None
    with pytest.raises(SettingsError, match="is not sent"):
        make_embedder(replace(settings, api_key="key-of-summarizer"), read_only=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://env.example/v1/")
    alone = Settings(embedding="openai", embedding_model="e")
    for known in ("https://api.openai.com/v1/", "https://env.example/v1", None):
        assert make_embedder(replace(alone, embedding_base_url=known), read_only=False) is not None
    with pytest.raises(SettingsError, match="is not sent"):
        make_embedder(replace(alone, embedding_base_url="https://other.example/v1"), read_only=False)
