"""Settings in groups: `context_management`, `memory`, `semantic_memory`; and from JSON files."""

import json
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, SettingsError
from tests.behaviour.contexts import begun
from tests.laws.builders import session

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
BLOCKS = [block.partition("```")[0] for block in PAGE.split("```json\n")[1:]]
DOCUMENTED = next(block for block in BLOCKS if '"context_management"' in block)
MANAGED = json.loads(DOCUMENTED)["context_management"]
KEPT = Settings(
    strategy="importance",
    importance_threshold=0.6,
    max_messages=50,
    summarize_threshold=40,
    checkpoint_interval_messages=10,
    memory_include="auto",
    memory_extract=True,
    embedding="openai",
    embedding_model="text-embedding-ada-002",
    vector_store="chroma",
    similarity_threshold=0.7,
)


def problems(given: dict[str, Any]) -> str:
    with pytest.raises(SettingsError) as caught:
        Settings.from_mapping(given)
    return str(caught.value)


def test_a_group_around_all_settings_is_taken_apart():
    whole: dict[str, Any] = {"context_management": MANAGED}
    assert Settings.from_mapping(whole) == KEPT == Settings.from_mapping(MANAGED)
    assert Settings(**whole) == KEPT == Settings.load(environ={}, **whole)
    assert "contains itself" in problems({"context_management": whole})
    assert "enabled = 'yes' is refused; allowed: true or false" in problems({"semantic_memory": {"enabled": "yes"}})


def test_all_problems_are_told_at_once_with_the_place_and_the_nearest_name():
    meaning = {"similarity_treshold": 0.7, "vector_store": "croma", "strategy": "truncate"}
    wrong = {"max_mesages": 50, "summarize_threshold": 0, "strategy": "hierarchic", "semantic_memory": meaning}
    told = problems({"context_management": wrong, "context_managment": {}, "semantic_memory": 5})
    for said in (
        "context_management.max_mesages = 50; did you mean context_management.max_messages?",
        "context_management.summarize_threshold = 0 is refused",
        "did you mean hierarchical?",
        "semantic_memory.similarity_treshold = 0.7; did you mean context_management.semantic_memory.similarity_thresh",
        "context_management.semantic_memory.vector_store = 'croma' is refused (did you mean chroma?)",
        "unknown setting context_management.semantic_memory.strategy",
        "semantic_memory = 5 is refused; allowed: a group of settings",
        "unknown setting context_managment = {}; did you mean context_management?",
    ):
        assert said in told


async def test_from_the_threshold_on_summaries_are_made_before_the_view_needs_them():
    log = session(7, 60)
    for threshold, made in ((None, 0), (len(log), 1), (len(log) + 1, 0)):
        async with begun(max_tokens=1_000_000, summarize_threshold=threshold) as context:
            await context.set_messages(log)
            await context.wait_idle()
            figures = context.statistics()
            assert min(1, figures.summaries_ready) == made, (threshold, figures)
            assert figures.activations == 0


def test_the_documented_configuration_is_taken_as_it_stands(tmp_path: Path):
    file = tmp_path / "agent.json"
    file.write_text(DOCUMENTED)
    assert Settings.from_json(file) == Settings.load(file, environ={}) == KEPT
    file.write_text(json.dumps({"agent": {"name": "x", "context_management": MANAGED}}))
    assert Settings.from_json(file, table="agent.context_management") == KEPT
    with pytest.raises(SettingsError, match=r"unknown setting .*agent\.json: agent"):
        Settings.from_json(file)
