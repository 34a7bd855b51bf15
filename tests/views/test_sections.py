"""A section is a function and a line of the table; the recipe in CONTRIBUTING.md, followed with a toy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from summarizing_context.views.builder import Viewer
from summarizing_context.views.header import END
from summarizing_context.views.sections import SECTIONS, Draft, Place, Section
from tests.laws.builders import session
from tests.laws.judge import SMALL


def covered_count(draft: Draft) -> Iterable[str]:
    """How many messages the header stands for."""
    yield f"<covered>{draft.cut.stop} messages</covered>"


async def view_with_toy(place: Place, monkeypatch: pytest.MonkeyPatch) -> tuple[list[dict[str, Any]], str]:
    """A view with one section more, behind all others of its place, and what that says."""
    toy = Section("covered", place, covered_count)
    monkeypatch.setitem(Viewer.__init__.__kwdefaults__, "sections", (*SECTIONS, toy))
    async with open_context(Settings(max_tokens=2_000, **SMALL)) as context:
        await context.set_messages(session(messages=100))
        view = await context.get_messages_for_request()
        return view, f"<covered>{context.activations()[-1].covered_to} messages</covered>"


async def test_a_toy_section_of_the_header_is_its_last_block(monkeypatch: pytest.MonkeyPatch):
    view, said = await view_with_toy("header", monkeypatch)
    (header,) = [row for row in view if isinstance(row["content"], list) and row["content"][-1].get("text") == END]
    assert [block["text"] for block in header["content"]][-2:] == [said, END]


async def test_a_toy_section_behind_the_header_is_a_message_of_its_own(monkeypatch: pytest.MonkeyPatch):
    view, said = await view_with_toy("after", monkeypatch)
    assert view.count({"role": "user", "content": said}) == 1


def test_sections_of_a_place_stand_together_and_each_has_a_name_of_its_own():
    places = [section.place for section in SECTIONS]
    assert places == sorted(places, key=("before", "header", "after").index)
    assert len({section.name for section in SECTIONS}) == len(SECTIONS)
