"""A section is a function and a line of the table; the recipe in CONTRIBUTING.md, followed with a toy."""

from __future__ import annotations

from collections.abc import Iterable

from summarizing_context.views.builder import Viewer
from summarizing_context.views.header import END
from summarizing_context.views.sections import SECTIONS, Draft, Place, Section
from tests.making import PRICE, session, texts_of
from tests.views.test_viewer import Host, cost


def covered_count(draft: Draft) -> Iterable[str]:
    """How many messages the header stands for."""
    yield f"<covered>{draft.cut.stop} messages</covered>"


class HostWithToy(Host):
    """A host whose views have one section more, behind all others of its place."""

    def __init__(self, place: Place) -> None:
        self.place = place
        super().__init__()

    def fresh(self, counter: str = "estimate") -> Viewer:
        toy = Section("covered", self.place, covered_count)
        return Viewer(self.timeline, self.book, self.policy, PRICE, counter, sections=(*SECTIONS, toy))


def test_a_toy_section_of_the_header_is_its_last_block_and_is_paid_for():
    host = HostWithToy("header")
    view = host.run(session(messages=100))
    state = host.viewer.latest.state
    assert texts_of(state.header)[-2:] == [f"<covered>{state.stop} messages</covered>", END]
    assert state.header in view.messages
    assert view.tokens == cost(view)


def test_a_toy_section_behind_the_header_is_a_message_of_its_own():
    host = HostWithToy("after")
    view = host.run(session(messages=100))
    state = host.viewer.latest.state
    toy = {"role": "user", "content": f"<covered>{state.stop} messages</covered>"}
    assert state.after[-1] == toy
    assert view.messages.count(toy) == 1
    assert view.tokens == cost(view)


def test_sections_of_a_place_stand_together_and_each_has_a_name_of_its_own():
    places = [section.place for section in SECTIONS]
    assert places == sorted(places, key=("before", "header", "after").index)
    assert len({section.name for section in SECTIONS}) == len(SECTIONS)
