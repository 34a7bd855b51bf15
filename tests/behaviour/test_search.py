"""Searching as a user of a context sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from summarizing_context import SearchHit, Settings, SettingsError, SummaryJob, open_context
from tests.laws.builders import assistant, session, user
from tests.laws.judge import SMALL


class Poet:
    """A summarizer with words of its own."""

    recipe = "poet/1"

    async def summarize(self, job: SummaryJob) -> str:
        return "## Done\n- they spoke of tulips"


async def test_messages_are_found_with_their_place_and_their_words():
    async with open_context(Settings()) as context:
        for text in ("Deploy to staging first", "Never touch the billing tables", "Fine"):
            await context.add_message(user(text))
        (hit,) = await context.search("billing")
        assert isinstance(hit, SearchHit)
        assert (hit.session_id, hit.start, hit.stop, hit.kind) == ("default", 1, 2, "message")
        assert hit.snippet == "Never touch the billing tables"
        assert hit.score > 0


async def test_a_summary_is_found_by_words_that_no_message_holds():
    settings = Settings(max_tokens=800, start_at=0, **SMALL)
    async with open_context(settings, summarizer=Poet()) as context:
        log = session(3, 60, size=30)
        for message in log:
            await context.add_message(message)
        await context.get_messages_for_request()
        await context.wait_idle()
        hits = await context.search("tulip")
        assert {hit.kind for hit in hits} == {"summary"}
        assert all(0 <= hit.start < hit.stop <= len(log) for hit in hits)


@pytest.mark.parametrize("scope", ["project", "all"])
async def test_a_fork_and_its_original_are_both_found_wherever_one_asks(tmp_path: Path, scope: str):
    def settings(session_id: str) -> Settings:
        return Settings(
            store=tmp_path / "run.db", session_id=session_id, project="p", max_tokens=800, start_at=0, **SMALL
        )

    async with open_context(settings("monday"), summarizer=Poet()) as context:
        for message in session(3, 60, size=30):
            await context.add_message(message)
        await context.add_message(user("zanzibar fails"))
        await context.get_messages_for_request()
        await context.wait_idle()
        await context.fork(await context.checkpoint(), "tuesday")
    for asking, other in (("monday", "tuesday"), ("tuesday", "monday")):
        async with open_context(settings(asking), summarizer=Poet()) as context:
            await context.wait_idle()
            hits = await context.search("zanzibar", scope=scope)
            assert [(hit.session_id, hit.start) for hit in hits] == [(asking, 60), (other, 60)]
            assert len(await context.search("zanzibar", scope=scope, limit=1)) == 1
            assert [hit.session_id for hit in await context.search("zanzibar")] == [asking]
            summaries = await context.search("tulip", scope=scope)
            assert {(hit.kind, hit.session_id) for hit in summaries} == {("summary", asking), ("summary", other)}


async def test_a_project_is_searched_across_its_sessions(tmp_path: Path):
    for name, project in (("a", "p"), ("b", "p"), ("c", None)):
        async with open_context(Settings(store=tmp_path / "a.db", session_id=name, project=project)) as context:
            await context.add_message(assistant(f"tulip of {name}"))
    async with open_context(Settings(store=tmp_path / "a.db", session_id="a"), read_only=True) as context:
        assert [hit.session_id for hit in await context.search("tulip")] == ["a"]
        assert sorted(hit.session_id for hit in await context.search("tulip", scope="all")) == ["a", "b", "c"]
        with pytest.raises(SettingsError, match="project"):
            await context.search("tulip", scope="project")
    async with open_context(Settings(store=tmp_path / "a.db", session_id="a", project="p"), read_only=True) as context:
        assert sorted(hit.session_id for hit in await context.search("tulip", scope="project")) == ["a", "b"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"query": 5},
        {"query": None},
        {"scope": "world"},
        {"limit": 0},
        {"limit": True},
        {"limit": "ten"},
        {"limit": 10**5_000},
    ],
)
async def test_a_search_that_cannot_be_is_refused(wrong: dict[str, Any]):
    async with open_context(Settings()) as context:
        with pytest.raises(SettingsError):
            await context.search(**{"query": "tulip", **wrong})
