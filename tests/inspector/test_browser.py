"""The page in a real browser; skipped where playwright or chromium is not there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inspector.browsing import browser, needs_chromium, opened
from tests.inspector.sessions import RULE, fill_store, run_apart, started, writing

__all__ = ["browser"]
pytestmark = needs_chromium


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("inspector")
    store = fill_store(folder / "run.db")
    with started(store, folder) as (url, _):
        yield url, store


def test_the_page_shows_all_of_a_session_and_what_is_added_without_a_reload(browser, served):
    url, store = served

    async def add() -> int:
        async with writing(store) as context:
            await context.add_message({"role": "user", "content": "LIVE: one more"})
            return len(context)

    with opened(browser, url, viewport={"width": 1366, "height": 900}) as page:
        assert page.inner_text("#title").startswith("Fix the parser. ")
        assert page.get_attribute("#title", "title") == "s1"
        assert page.locator(".track").count() == 4
        for name in ("Log", "Segments", "Tree", "View"):
            assert page.get_by_role("group", name=name).locator("button").count() > 0
        page.get_by_role("button", name=re.compile("Activation 1:")).click()
        page.wait_for_selector("dialog .cards")
        assert "What left the view" in page.inner_text("dialog")
        page.locator("dialog .cards .link").first.click()
        page.wait_for_selector("dialog .summary:not(.short)")
        assert "Its source" in page.inner_text("dialog")
        page.wait_for_selector("dialog .said")
        page.keyboard.press("Escape")
        page.get_by_role("tab", name="Rules").click()
        assert RULE in page.inner_text("#panel-rules")
        assert "said by the user in message 0" in page.inner_text("#panel-rules")
        page.get_by_role("tab", name="Plan").click()
        assert "Write the test" in page.inner_text("#panel-plan")
        page.get_by_role("tab", name="Ledger").click()
        page.wait_for_selector("#panel-ledger td")
        page.get_by_role("tab", name="Search").click()
        page.get_by_label("Words in messages").fill("push to main")
        page.keyboard.press("Enter")
        page.wait_for_selector("#hits .link")
        page.get_by_role("tab", name="View").click()
        page.wait_for_selector(f"body[data-messages='{run_apart(add)}']")
        assert "LIVE: one more" in page.inner_text("#panel-view")
        assert page.inner_text("#live") == "Live"


def test_an_undo_needs_the_typed_name_and_a_message_is_pinned_where_it_is_read(browser, tmp_path):
    store = fill_store(tmp_path / "run.db", "mine", 100)

    async def cover() -> None:
        async with writing(store, "mine") as context:
            assert (await context.summarize(3)).activated

    async def pinned() -> list[int | None]:
        async with writing(store, "mine") as context:
            return [one.index for one in context.pins()]

    run_apart(cover)
    with started(store, tmp_path) as (url, _), opened(browser, url) as page:
        before = int(page.get_attribute("body", "data-activations"))
        page.get_by_role("button", name="Undo last activation").click()
        button = page.get_by_role("button", name="Undo it")
        assert button.is_disabled()
        page.get_by_label("to confirm").fill("min")
        assert button.is_disabled()
        page.get_by_label("to confirm").fill("mine")
        button.click()
        page.wait_for_selector(f"body[data-activations='{before + 1}']")
        assert f"undo of {before}" in page.inner_text("#panel-activations")
        assert f"Activation {before} is undone" in page.inner_text("#notice")
        page.get_by_role("group", name="Segments").locator("button").first.click()
        message = page.locator("dialog[open] .said", has_text="#3")
        message.get_by_role("button", name="Pin").click()
        message.get_by_role("button", name="Pinned").wait_for()
    assert run_apart(pinned) == [3]


def test_the_keyboard_reaches_everything_and_everything_that_can_be_pressed_has_a_name(browser, served):
    with opened(browser, served[0], viewport={"width": 1366, "height": 900}) as page:
        buttons = page.locator("button:visible").all()
        assert len(buttons) > 20
        assert all((button.get_attribute("aria-label") or button.inner_text()).strip() for button in buttons)
        assert page.locator("h1:visible").count() == 1
        for label in page.locator("input:visible, select:visible").all():
            assert label.get_attribute("id")
            assert page.locator(f"label[for={label.get_attribute('id')}]").count() == 1
        page.keyboard.press("Tab")
        assert page.evaluate_handle("document.activeElement").as_element().inner_text() == "Skip to the session"
        first = page.get_by_role("group", name="Segments").locator("button").first
        first.focus()
        assert first.get_attribute("aria-label") in page.inner_text("#pointed")
        page.keyboard.press("ArrowRight")
        second = page.get_by_role("group", name="Segments").locator("button").nth(1)
        assert second.get_attribute("aria-label") in page.inner_text("#pointed")
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open] .summary")
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog:not([open])", state="attached")
        page.get_by_role("tab", name="Activations").focus()
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("tab", name="View").get_attribute("aria-selected") == "true"
        assert page.locator("#panel-view").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1366, 390])
def test_nothing_stands_beyond_the_edge(browser, served, width, scheme):
    options = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme}
    with opened(browser, served[0], **options) as page:
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert ground == {"light": "rgb(245, 246, 248)", "dark": "rgb(16, 20, 27)"}[scheme]
        for tab in ("Activations", "View", "Rules", "Plan", "Ledger", "Search"):
            page.get_by_role("tab", name=tab).click()
            shown = page.locator("[role=tabpanel]:visible").bounding_box()
            assert shown["x"] >= 0
            assert shown["x"] + shown["width"] <= width
            for inside in page.locator("[role=tabpanel]:visible").locator("> *, td").all()[:40]:
                box = inside.bounding_box()
                assert box is None or box["x"] + box["width"] <= width
        assert page.locator("#pick").is_visible() == (width < 760)
