"""Hostile transcripts in a real browser; skipped where there is none. Who may ask is tested over HTTP: `test_pages`."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.inspector.browsing import browser, needs_chromium, opened
from tests.inspector.sessions import fill_store, run_apart, started, writing
from tests.laws.builders import assistant, call, result, user

__all__ = ["browser"]
pytestmark = needs_chromium

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
    with opened(browser, url, viewport={"width": 1366, "height": 900}) as page:
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
