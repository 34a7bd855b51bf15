"""The page in a real browser, hostile transcripts too; skipped without playwright. `make test-browser` runs it."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.sessions import COOKIES, RULE, fill_store, run_apart, started, writing
from tests.laws.builders import assistant, call, result, user

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or pytest.fail("install chromium or google-chrome")
WIDE = {"viewport": {"width": 1366, "height": 900}}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--host-resolver-rules=MAP *.example 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
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

    with opened(browser, url, **WIDE) as page:
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
    with opened(browser, served[0], **WIDE) as page:
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


# Hostile transcripts

RUN = "window.ran=(window.ran||0)+1;document.title='stolen'"
PAYLOADS = (
    f"<script>{RUN}</script>",
    f'</pre></code></td></table><img src=x onerror="{RUN}">',
    f'<svg/onload="{RUN}"><animate onbegin="{RUN}" attributeName=x></svg>',
    f'<svg><script>{RUN}</script><foreignObject><iframe srcdoc="<script>parent.{RUN}</script>"></foreignObject></svg>',
    f'<a href="javascript:{RUN}" autofocus onfocus="{RUN}">open</a> [open](javascript:{RUN})',
    f'<math><mtext><table><mglyph><style><!--</style><img src=x onerror="{RUN}">',
    f'"><input autofocus onfocus="{RUN}"><details open ontoggle="{RUN}">',
    f"' onmouseover='{RUN}' style='background:url(http://evil.example/x)' x='",
    "<link rel=stylesheet href=http://evil.example/x.css><style>@import 'http://evil.example/y.css';*{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=http://evil.example/'><base href=http://evil.example/>",
    f"{{{{constructor.constructor('{RUN}')()}}}} ${{{RUN}}} <%= {RUN} %> #{{{RUN}}} {{% {RUN} %}}",
    f"</script><!--<script>{RUN}//--></script> ]]>  \u2028{RUN}\u2029 &lt;script&gt;{RUN}&lt;/script&gt;",
    f"data:text/html,<script>{RUN}</script> vbscript:{RUN} file:///etc/passwd",
    "\u202egnp.exe\u202c \u2066hidden\u2069 \u200bzero\ufeff \u0000NUL \u001b]8;;http://evil.example\u0007link",
    "half a character \ud800 and the other \udfff",
    "__proto__ constructor toString hasOwnProperty",
)
ALL = "\n".join(PAYLOADS)
LINE = f'<img src=x onerror="{RUN}">' * 30_000  # about a megabyte without a break

TAGS = {
    "article", "b", "blockquote", "button", "caption", "code", "dd", "details", "div", "dl", "dt", "em", "form",
    "h1", "h2", "h3", "header", "i", "input", "label", "li", "meter", "p", "pre", "section", "small", "span",
    "option", "select", "strong", "summary", "table", "tbody", "td", "th", "thead", "time", "tr", "ul",
}  # fmt: skip

SHOWN = """() => [...document.querySelectorAll('main *, dialog *, nav *')].map((node) => [
    node.tagName.toLowerCase(), ...node.getAttributeNames().filter((name) => /^(on.*|href|src.*|action)$/.test(name))
])"""


def hostile_rows() -> Iterator[dict[str, Any]]:
    yield user(f"Never run {PAYLOADS[0]} again. Always call me {PAYLOADS[1]}. {ALL}")
    for at, payload in enumerate(PAYLOADS):
        called = (f"{payload}{at}", payload, {payload: payload, "path": payload})
        yield call("anthropic", called, text=f"Decision: we use {payload}")
        yield result("anthropic", called[0], f"Error: {payload}", failed=True)
        yield user(payload)
        yield assistant([{"type": payload, "text": payload, payload: payload}])
    for name, given in (("write_file", {"path": f"src/{PAYLOADS[1]}.py", "content": ALL}), ("bash", {"command": ALL})):
        yield from (call("anthropic", (name, name, given)), result("anthropic", name, ALL))
    yield user(LINE)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("hostile")
    store = fill_store(folder / "run.db", "s1", 120, *hostile_rows())
    readable = [payload for payload in PAYLOADS if "\ud800" not in payload]  # no JSON holds half a character
    todos = [{"content": payload, "status": "pending", "activeForm": payload} for payload in readable]

    async def plan() -> None:
        async with writing(store) as context:
            await context.add_message(call("anthropic", ("plan", "TodoWrite", {"todos": todos})))
            await context.add_message(result("anthropic", "plan", ALL))

    run_apart(plan)
    with started(store, folder) as (url, _):
        yield url


def check(page: Any) -> None:
    """Nothing of the transcript has become more than text."""
    for tag, *attributes in page.evaluate(SHOWN):
        assert tag in TAGS, tag
        assert not attributes
    assert page.evaluate("window.ran") is None
    assert "stolen" not in page.title()


def test_a_hostile_transcript_stays_text_wherever_it_is_shown(browser, url):
    with opened(browser, url, **WIDE) as page:
        check(page)
        for tab in ("View", "Rules", "Plan", "Ledger", "Search"):
            page.get_by_role("tab", name=tab).click()
            if tab == "Ledger":
                page.wait_for_selector("#panel-ledger td")
            if tab == "Search":
                page.get_by_label("Words in messages").fill("stolen <script> evil")
                page.keyboard.press("Enter")
                page.wait_for_selector("#hits .link")
            text = page.inner_text(f"#panel-{tab.lower()}")
            assert "'stolen'" in text
            if tab == "Plan":  # what would hide text or turn it round is a dot
                assert "·gnp.exe·" in text
                assert not set("\u202e\u202c\u2066\u2069\u200b\ufeff\u0000\u001b") & set(text)
            check(page)
        page.get_by_role("tab", name="Activations").click()
        for link in page.locator("#panel-activations .link").all():
            link.click()
            page.wait_for_selector("dialog[open] h3")
            check(page)
            if page.locator("dialog .cards .link").count():
                page.locator("dialog .cards .link").first.click()
                page.wait_for_selector("dialog .summary:not(.short)")
                page.wait_for_selector("dialog .said")
                check(page)
            page.keyboard.press("Escape")
        for row in ("Segments", "Tree"):
            page.get_by_role("group", name=row).locator("button").first.focus()
            check(page)
            page.keyboard.press("Enter")
            page.wait_for_selector("dialog[open] .said")
            check(page)
            page.keyboard.press("Escape")


def test_a_line_of_a_megabyte_is_read_to_its_end_and_stays_inside_the_page(browser, url):
    length = "() => Math.max(...[...document.querySelectorAll('dialog pre')].map((pre) => pre.textContent.length))"
    with opened(browser, url, viewport={"width": 390, "height": 844}) as page:
        widths = "(bars) => bars.map((bar) => bar.offsetWidth)"
        log = page.get_by_role("group", name="Log").locator("button")
        sizes = log.evaluate_all(widths)
        log.nth(sizes.index(max(sizes))).click()
        page.wait_for_function(f"(whole) => ({length})() === whole", arg=len(LINE))
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        check(page)
        page.keyboard.press("Escape")
        page.locator("#panel-activations .link").last.click()
        page.locator("dialog .said .link", has_text="more characters").first.click()  # of a message that left the view
        page.wait_for_function(f"() => ({length})() > 400")
        check(page)


@pytest.mark.parametrize(
    "fragment", ["<img src=x onerror=alert(1)>", "javascript:alert(1)", "none", "%3Cscript%3E", "%", "%E0%A4%A"]
)
def test_a_hostile_address_chooses_no_session_and_runs_nothing(browser, url, fragment):
    with opened(browser, f"{url}#{fragment}") as page:
        assert page.get_attribute("#title", "title") == "s1"
        check(page)
