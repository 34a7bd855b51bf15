"""Searching as a user of a context sees it."""

from pathlib import Path

import pytest

from summarizing_context import Settings, SettingsError, open_context
from tests.laws.builders import assistant

WRONG = [{"query": 5}, {"query": None}, {"scope": "world"}, *({"limit": bad} for bad in (0, True, "ten", 10**5_000))]


async def test_a_project_is_searched_across_its_sessions(tmp_path: Path):
    for name, project in (("a", "p"), ("b", "p"), ("c", None)):
        async with open_context(Settings(store=tmp_path / "a.db", session_id=name, project=project)) as context:
            await context.add_message(assistant(f"tulip of {name}"))
    async with open_context(Settings(store=tmp_path / "a.db", session_id="a"), read_only=True) as context:
        assert [hit.session_id for hit in await context.search("tulip")] == ["a"]
        assert sorted(hit.session_id for hit in await context.search("tulip", scope="all")) == ["a", "b", "c"]
        with pytest.raises(SettingsError, match="project"):
            await context.search("tulip", scope="project")
        for wrong in WRONG:
            with pytest.raises(SettingsError):
                await context.search(**{"query": "tulip", **wrong})
    async with open_context(Settings(store=tmp_path / "a.db", session_id="a", project="p"), read_only=True) as context:
        assert sorted(hit.session_id for hit in await context.search("tulip", scope="project")) == ["a", "b"]
