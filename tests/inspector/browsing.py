"""A real browser for tests of the page. Tests that import this are skipped where playwright or chromium is missing."""

from collections.abc import Iterator
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


def enter(page: Any, url: str) -> None:
    """Go to an inspector as a browser that has opened its link."""
    name, _, value = COOKIES[url.partition("#")[0]].partition("=")
    page.context.add_cookies([{"name": name, "value": value, "url": url.partition("#")[0], "sameSite": "Strict"}])
    page.goto(url)


class Opened:
    """A page, and what went wrong in it."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.troubles: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda line: line.type == "error" and self.troubles.append(line.text))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", lambda dialog: self.troubles.append(dialog.message))
        enter(self.page, url)
        self.page.wait_for_selector("body[data-messages]")

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, *_: object) -> None:
        self.page.close()
        assert self.troubles == []
