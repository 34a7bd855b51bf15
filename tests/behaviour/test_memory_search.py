"""Memories among what a search finds, and how near they have to be."""

from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from tests.behaviour.contexts import begun
from tests.laws.builders import assistant, user


@pytest.mark.parametrize("scope", ["session", "project", "all"])
async def test_a_search_covers_messages_and_memories_of_its_scope(tmp_path: Path, scope: Any):
    for name, project in (("one", "p"), ("other", "q"), ("lone", None)):
        log = [user(f"Tell me about the walrus of {name}."), assistant("It is well.")]
        async with begun(log, of=Settings, store=tmp_path / "a.db", session_id=name, project=project) as context:
            await context.memory.store(f"The walrus of {name} eats herring")
    async with begun(of=Settings, store=tmp_path / "a.db", session_id="two", project="p") as context:
        hits = await context.search("walrus", scope=scope)
    found = tuple(sum(hit.kind == kind for hit in hits) for kind in ("message", "memory"))
    # its project's memories are the session's too
    assert found == {"session": (0, 1), "project": (1, 1), "all": (3, 3)}[scope]
    assert all((hit.id is not None) == (hit.kind == "memory") for hit in hits)
    assert not any(word in hit.snippet for hit in hits if scope != "all" for word in ("other", "lone"))


@pytest.mark.parametrize("threshold", [None, 0.0, 0.7, 0.72, 0.9, 1.0])
async def test_nothing_below_the_similarity_threshold_is_retrieved_by_words(threshold: float | None):
    async with open_context(Settings(similarity_threshold=threshold)) as context:
        for text in ("the walrus", "walrus herring ice floe tusk", "herring", "walrus herring", "the the"):
            await context.memory.store(text)
        found = await context.memory.retrieve("walrus herring ice floe", limit=100)
        scores = {"walrus herring ice floe tusk": 1.0, "walrus herring": 0.84, "the walrus": 0.71, "herring": 0.71}
        assert {one.content: round(one.score, 2) for one in found} == {
            text: score for text, score in scores.items() if score >= (threshold or 0.0)
        }
        hits = await context.search("walrus herring ice floe", limit=100)
        assert {hit.id for hit in hits} == {one.id for one in found}


async def test_nothing_below_the_similarity_threshold_is_retrieved_by_meaning():
    pytest.importorskip("numpy")

    def embed(texts: list[str]) -> list[list[float]]:
        """Animals one way, numbers another, and nothing in between."""
        return [[float("walrus" in text), float("walrus" not in text)] for text in texts]

    async with open_context(Settings(similarity_threshold=0.7), embedder=embed) as context:
        near = await context.memory.store("a walrus")
        await context.memory.store("a number")
        assert [(one.id, round(one.score, 3)) for one in await context.memory.retrieve("walrus")] == [(near, 1.0)]
        assert [hit.id for hit in await context.search("walrus")] == [near]
