"""Memories by meaning, with a small embedding that knows which words mean the same."""

import math
import re
from typing import Any

import pytest

from summarizing_context import Settings, SummarizingContext, open_context
from tests.contract.store_builders import bytes_beside
from tests.laws.builders import user

TOPICS = ("car auto automobile vehicle", "money invoice bill payment", "fast quick rapid", "cat kitten feline")


class Concepts:
    """One number for each group of words that mean the same; remembers what it was asked, and cannot read POISON."""

    recipe = "concepts/1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, texts: list[str]) -> list[list[float]]:
        if "POISON" in texts:
            raise ValueError
        self.asked += texts
        words = [set(re.findall(r"\w+", text.lower())) for text in texts]
        return [[*(float(len(said & set(topic.split()))) for topic in TOPICS), 0.05] for said in words]


MEMORIES = ["The automobile is in the garage", "The invoice was sent", "A kitten sleeps"]


@pytest.fixture(autouse=True)
def numpy() -> Any:
    return pytest.importorskip("numpy")


async def store(context: SummarizingContext, *contents: str) -> None:
    for content in contents:
        await context.memory.store(content)


async def found(context: SummarizingContext, query: str) -> list[str]:
    return [memory.content for memory in await context.memory.retrieve(query)]


async def test_memories_are_found_by_meaning_and_a_search_has_them_beside_messages():
    async with open_context(Settings(), embedder=Concepts()) as context:
        await store(context, *MEMORIES)
        await context.add_message(user("The vehicle broke down"))
        assert (await found(context, "vehicle"))[0] == MEMORIES[0]
        hits = [(hit.kind, hit.snippet) for hit in await context.search("vehicle")]
        assert hits == [("message", "The vehicle broke down"), ("memory", MEMORIES[0])]


async def test_a_text_is_embedded_once_and_redacted_before_and_a_reader_finds_by_meaning_and_writes_nothing(tmp_path):
    settings = Settings(store=tmp_path / "a.db", project="p")
    embedder, again, readers = Concepts(), Concepts(), Concepts()
    async with open_context(settings, embedder=embedder, redact=lambda text: text.replace("garage", "***")) as context:
        await store(context, *MEMORIES)
        await found(context, "vehicle in the garage")
    assert sorted(embedder.asked) == sorted(["The automobile is in the ***", *MEMORIES[1:], "vehicle in the ***"])
    async with open_context(settings, embedder=again) as context:
        assert (await found(context, "vehicle"))[0] == MEMORIES[0]
    assert again.asked == ["vehicle"]
    async with open_context(Settings(store=tmp_path / "b.db")) as context:
        await store(context, *MEMORIES)
    before = bytes_beside(tmp_path / "b.db")
    async with open_context(Settings(store=tmp_path / "b.db"), embedder=readers, read_only=True) as context:
        for _ in range(2):
            assert (await found(context, "vehicle"))[0] == MEMORIES[0]
    assert len(readers.asked) == len(MEMORIES) + 2
    assert bytes_beside(tmp_path / "b.db") == before


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
async def test_where_the_embedding_fails_words_are_searched_and_it_is_told(embedder: Any, caplog):
    async with open_context(Settings(), embedder=embedder) as context:
        await store(context, *MEMORIES)
        assert await found(context, "invoice") == [MEMORIES[1]]
        assert [hit.kind for hit in await context.search("invoice")] == ["memory"]
        assert "embedding failed" in context.statistics().last_error
        assert "SECRET" not in context.statistics().last_error + caplog.text


async def test_one_text_that_cannot_be_embedded_keeps_no_other_from_being_found():
    async with open_context(Settings(), embedder=Concepts()) as context:
        await store(context, *MEMORIES, "POISON", *(f"row {at}" for at in range(30)))
        assert (await found(context, "vehicle"))[0] == MEMORIES[0]
        assert (await found(context, "vehicle POISON"))[:2] == [MEMORIES[0], "POISON"]
        assert "embedding failed" in context.statistics().last_error
