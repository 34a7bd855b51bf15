"""Searching by meaning, with a small embedding that knows which words mean the same."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from tests.behaviour.contexts import fill
from tests.contract.store_builders import bytes_beside
from tests.laws.builders import assistant, user

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


async def test_words_and_meaning_are_fused_and_a_hit_in_both_comes_first(numpy):
    async with open_context(Settings(), embedder=Concepts()) as context:
        await fill(context, map(user, ("the bill", "a quick payment", "the bill for a quick cat")))
        hits = await context.search("bill")
        assert hits[0].start == 0
        assert {hit.start for hit in hits} == {0, 1, 2}


async def test_a_text_is_embedded_once_and_redacted_before(numpy, tmp_path: Path):
    settings = Settings(store=tmp_path / "a.db")
    embedder = Concepts()
    async with open_context(settings, embedder=embedder, redact=lambda text: text.replace("garage", "***")) as context:
        await fill(context, LOG)
        await context.search("vehicle")
        await context.search("vehicle")
    again = Concepts()
    async with open_context(settings, embedder=again) as context:
        assert len(await context.search("vehicle")) == 1
    assert sorted(embedder.asked) == sorted(
        ["The automobile is in the ***", "The invoice was sent", "A kitten sleeps", "vehicle"]
    )
    assert again.asked == ["vehicle"]


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
        await fill(context, LOG)
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
        await fill(context, (*LOG, user("POISON"), *(user(f"row {at}") for at in range(30))))
        assert [hit.start for hit in await context.search("vehicle")] == [0]
        assert "embedding failed" in context.statistics().last_error
        await context.memory.store("The automobile needs oil")
        await context.memory.store("POISON")
        assert [found.content for found in await context.memory.retrieve("vehicle POISON")] == [
            "The automobile needs oil",
            "POISON",
        ]


async def test_a_reader_finds_by_meaning_too_and_writes_nothing(numpy, tmp_path: Path):
    settings = Settings(store=tmp_path / "a.db")
    async with open_context(settings) as context:
        await fill(context, LOG)
    before = bytes_beside(tmp_path / "a.db")
    embedder = Concepts()
    async with open_context(settings, embedder=embedder, read_only=True) as context:
        for _ in range(2):
            assert [hit.start for hit in await context.search("vehicle")] == [0]
    assert len(embedder.asked) == len(LOG) + 1
    assert bytes_beside(tmp_path / "a.db") == before
