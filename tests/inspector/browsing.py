"""A real browser for tests of the page. Tests that import this are skipped where playwright or chromium is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.sessions import COOKIES

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = Path("/usr/bin/chromium")
needs_chromium = pytest.mark.skipif(not CHROMIUM.exists(), reason="chromium is not installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--host-resolver-rules=MAP *.example 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=options)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    """A page of an inspector whose link was opened; nothing goes wrong in it, and it asks no other host."""
    page = browser.new_page(**options)
    troubles, asked = list[str](), list[str]()
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda line: line.type == "error" and troubles.append(line.text))
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: troubles.append(dialog.message))
    place = url.partition("#")[0]
    name, _, value = COOKIES[place].partition("=")
    page.context.add_cookies([{"name": name, "value": value, "url": place, "sameSite": "Strict"}])
    page.goto(url)
    page.wait_for_selector("body[data-messages]")
    yield page
    page.close()
    assert troubles == []
    assert {one.split("/")[2] for one in asked} == {url.split("/")[2]}
