"""Searching by meaning, with a small embedding that knows which words mean the same."""

from __future__ import annotations

import asyncio
import math
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import MissingExtraError, Settings, SettingsError, open_context
from summarizing_context.retrieval.embeddings import packed
from tests.contract.store_builders import bytes_beside, sql
from tests.laws.builders import assistant, user

pytestmark = pytest.mark.anyio

TOPICS = ("car auto automobile vehicle", "money invoice bill payment", "fast quick rapid", "cat kitten feline")


class Concepts:
    """One number for each group of words that mean the same; remembers what it was asked."""

    recipe = "concepts/1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, texts: list[str]) -> list[list[float]]:
        self.asked += texts
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        words = set(re.findall(r"\w+", text.lower()))
        return [*(float(len(words & set(topic.split()))) for topic in TOPICS), 0.05]


LOG = [user("The automobile is in the garage"), assistant("The invoice was sent"), user("A kitten sleeps")]


@pytest.fixture
def numpy() -> Any:
    return pytest.importorskip("numpy")


async def test_what_words_miss_is_found_by_meaning(numpy):
    async with open_context(Settings()) as context:
        for message in LOG:
            await context.add_message(message)
        assert await context.search("vehicle") == []
    async with open_context(Settings(), embedder=Concepts()) as context:
        for message in LOG:
            await context.add_message(message)
        (hit,) = await context.search("vehicle")
        assert (hit.start, hit.kind, hit.snippet) == (0, "message", "The automobile is in the garage")
        assert {hit.start for hit in await context.search("payment feline")} == {1, 2}


async def test_words_and_meaning_are_fused_and_a_hit_in_both_comes_first(numpy):
    async with open_context(Settings(), embedder=Concepts()) as context:
        for text in ("the bill", "a quick payment", "the bill for a quick cat"):
            await context.add_message(user(text))
        hits = await context.search("bill")
        assert hits[0].start == 0
        assert {hit.start for hit in hits} == {0, 1, 2}


async def test_a_threshold_keeps_out_what_is_far(numpy):
    async with open_context(Settings(similarity_threshold=0.9), embedder=Concepts()) as context:
        for text in ("quick car", "automobile"):
            await context.add_message(user(text))
        assert [hit.start for hit in await context.search("vehicle")] == [1]


async def test_a_text_is_embedded_once_and_redacted_before(numpy, tmp_path: Path):
    settings = Settings(store=tmp_path / "a.db")
    embedder = Concepts()
    async with open_context(settings, embedder=embedder, redact=lambda text: text.replace("garage", "***")) as context:
        for message in LOG:
            await context.add_message(message)
        await context.search("vehicle")
        await context.search("vehicle")
    again = Concepts()
    async with open_context(settings, embedder=again) as context:
        assert len(await context.search("vehicle")) == 1
    assert sorted(embedder.asked) == sorted(
        ["The automobile is in the ***", "The invoice was sent", "A kitten sleeps", "vehicle"]
    )
    assert again.asked == ["vehicle"]


async def test_memories_are_retrieved_and_included_by_meaning(numpy, tmp_path: Path):
    settings = Settings(store=tmp_path / "a.db", project="p", memory_include="auto")
    async with open_context(settings, embedder=Concepts()) as context:
        await context.memory.store("The automobile needs oil")
        await context.memory.store("A kitten needs milk")
        found = await context.memory.retrieve("vehicle")
        assert found[0].content == "The automobile needs oil"
        assert found[0].score > 0.9
        assert found[1].score < 0.1
        await context.add_message(user("what about my vehicle"))
        await context.get_messages_for_request()
        assert context.memory._looking is not None
        await context.memory._looking  # in the background: no view waits for it
        for at in range(20):
            await context.add_message(assistant(f"{at} words " * 50))
        await context.get_messages_for_request(800)
        blocks = [row["content"] for row in await context.get_messages_for_request(800) if "<memories>" in str(row)]
        assert len(blocks) == 1
        assert "automobile" in blocks[0]
        assert "kitten" not in blocks[0]


class Failing:
    async def embed(self, texts: list[str]) -> list[list[float]]:
        raise RuntimeError(f"SECRET {texts}")


@pytest.mark.parametrize(
    "embedder",
    [
        Failing(),
        lambda texts: [],
        lambda texts: [[0.0, 0.0] for _ in texts],
        lambda texts: [[math.nan] for _ in texts],
        lambda texts: ["no vector" for _ in texts],
        lambda texts: None,
    ],
)
async def test_where_the_embedding_fails_words_are_searched_and_it_is_told(numpy, embedder: Any, caplog):
    async with open_context(Settings(), embedder=embedder) as context:
        for message in LOG:
            await context.add_message(message)
        assert [hit.start for hit in await context.search("invoice")] == [1]
        await context.memory.store("An invoice")
        assert len(await context.memory.retrieve("invoice")) == 1
        assert "embedding failed" in context.statistics().last_error
        assert "SECRET" not in context.statistics().last_error + caplog.text


async def test_one_text_that_cannot_be_embedded_keeps_no_other_from_being_found(numpy):
    concepts = Concepts()

    def picky(texts: list[str]) -> list[list[float]]:
        if "POISON" in texts:
            raise ValueError
        return [concepts.vector(text) for text in texts]

    async with open_context(Settings(), embedder=picky) as context:
        for message in (*LOG, user("POISON"), *(user(f"row {at}") for at in range(30))):
            await context.add_message(message)
        assert [hit.start for hit in await context.search("vehicle")] == [0]
        assert "embedding failed" in context.statistics().last_error
        await context.memory.store("The automobile needs oil")
        await context.memory.store("POISON")
        assert [found.content for found in await context.memory.retrieve("vehicle POISON")] == [
            "The automobile needs oil",
            "POISON",
        ]


async def test_searches_at_once_embed_no_text_twice(numpy):
    embedder = Concepts()
    async with open_context(Settings(), embedder=embedder) as context:
        for message in LOG:
            await context.add_message(message)
        found = await asyncio.gather(*(context.search("vehicle") for _ in range(3)))
    assert [[hit.start for hit in hits] for hits in found] == [[0]] * 3
    assert sorted(embedder.asked) == sorted([*(message["content"] for message in LOG), "vehicle"])


async def test_vectors_of_several_lengths_are_refused(numpy):
    def uneven(texts: list[str]) -> list[list[float]]:
        return [[1.0] * len(text) for text in texts]

    async with open_context(Settings(), embedder=uneven) as context:
        for message in LOG:
            await context.add_message(message)
        assert [hit.start for hit in await context.search("invoice")] == [1]
        assert "embedding failed (ValueError)" in context.statistics().last_error


async def test_a_reader_finds_by_meaning_too_and_writes_nothing(numpy, tmp_path: Path):
    settings = Settings(store=tmp_path / "a.db")
    async with open_context(settings) as context:
        for message in LOG:
            await context.add_message(message)
    before = bytes_beside(tmp_path / "a.db")
    embedder = Concepts()
    async with open_context(settings, embedder=embedder, read_only=True) as context:
        for _ in range(2):
            assert [hit.start for hit in await context.search("vehicle")] == [0]
    assert len(embedder.asked) == len(LOG) + 1
    assert bytes_beside(tmp_path / "a.db") == before


async def test_purging_removes_what_a_killed_process_embedded_without_a_name(numpy, tmp_path: Path):
    async with open_context(Settings(store=tmp_path / "a.db")) as context:
        store = context._session.store
        for recipe in ("unnamed 1", "chroma 2 unnamed 1", "named/1"):
            await store.vectors.save("memory", recipe, {1: packed([1.0])})
        await store.purge()
        missing = [await store.vectors.missing("memory", recipe, [1], 4) for recipe in ("unnamed 1", "named/1")]
        assert missing == [[1], []]


async def test_texts_are_cut_to_what_every_model_takes(numpy):
    asked: list[str] = []

    def heard(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return [[1.0] for _ in texts]

    async with open_context(Settings(), embedder=heard) as context:
        for text in ("日" * 9_000, "x" * 9_000):
            await context.add_message(user(text))
        await context.search("x")
    assert sorted(len(text.encode()) for text in asked) == [1, 7_998, 8_000]


async def test_a_plain_function_runs_beside_the_event_loop(numpy):
    threads: set[int] = set()

    def embed(texts: list[str]) -> list[list[float]]:
        threads.add(threading.get_ident())
        return [[1.0] for _ in texts]

    async with open_context(Settings(), embedder=embed) as context:
        await context.add_message(LOG[0])
        await context.search("vehicle")
    assert threads
    assert threading.get_ident() not in threads


async def test_a_plain_function_may_embed(numpy):
    concepts = Concepts()
    async with open_context(Settings(), embedder=lambda texts: [concepts.vector(text) for text in texts]) as context:
        await context.add_message(LOG[0])
        assert len(await context.search("vehicle")) == 1


async def test_deleted_sessions_take_their_vectors_along(numpy, tmp_path: Path):
    from tests.contract.store_builders import sql

    async with open_context(Settings(store=tmp_path / "a.db"), embedder=Concepts()) as context:
        await context.add_message(LOG[0])
        await context.memory.store("A kitten")
        await context.search("vehicle")
        await context.memory.retrieve("cat")
        await context._session.store.delete_session("default")
    with sql(tmp_path / "a.db") as connection:
        assert connection.execute("select count(*) from vectors").fetchone() == (0,)


async def test_without_numpy_an_embedding_is_refused_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setattr("summarizing_context.stores.relational.vectors.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"summarizing-context\[vectors\]") as raised:
        async with open_context(Settings(), embedder=Concepts()):
            pass
    assert raised.value.extra == "vectors"
    assert isinstance(raised.value, ImportError)


async def test_an_embedder_that_cannot_embed_is_refused():
    with pytest.raises(SettingsError, match="embedder"):
        async with open_context(Settings(), embedder=5):  # type: ignore[arg-type]
            pass


@pytest.mark.parametrize("settings", [{"embedding": "openai"}, {"embedding": "openai", "embedding_model": "m"}])
async def test_an_embedding_of_openai_needs_a_model_and_a_key(settings: dict[str, Any], monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SettingsError, match="needs"):
        async with open_context(Settings(**settings)):
            pass


async def test_a_search_that_outlives_its_session_leaves_no_vectors_without_a_name(numpy, tmp_path: Path):
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def embed(texts: list[str]) -> list[list[float]]:
        if len(texts) > 1:
            asked.set()
            await go_on.wait()
        return [[1.0, float(len(text))] for text in texts]

    settings = Settings(store=tmp_path / "run.db", session_id="s")
    async with open_context(settings, embedder=embed) as context:
        for message in LOG:
            await context.add_message(message)
        await context.memory.store("a")
        await context.memory.retrieve("b")
        search = asyncio.create_task(context.search("vehicle"))
        await asked.wait()
        closing = asyncio.create_task(context.close())
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(search, closing, return_exceptions=True)
    with sql(tmp_path / "run.db") as connection:
        assert connection.execute("select count(*) from vectors").fetchone() == (0,)
