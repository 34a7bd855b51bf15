"""Hostile transcripts and pages of other origins, in a real browser; skipped where there is none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.browsing import Opened, browser, enter, needs_chromium
from tests.inspector.sessions import fill_store, run_apart, started, writing

__all__ = ["browser"]
pytestmark = needs_chromium

ATTACK = Path(__file__).with_name("attack.html")
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
    yield {"role": "user", "content": f"Never run {PAYLOADS[0]} again. Always call me {PAYLOADS[1]}. {ALL}"}
    for at, payload in enumerate(PAYLOADS):
        call = {
            "type": "tool_use",
            "id": f"{payload}{at}",
            "name": payload,
            "input": {payload: payload, "path": payload},
        }
        result = {
            "type": "tool_result",
            "tool_use_id": f"{payload}{at}",
            "content": f"Error: {payload}",
            "is_error": True,
        }
        yield {"role": "assistant", "content": [{"type": "text", "text": f"Decision: we use {payload}"}, call]}
        yield {"role": "user", "content": [result]}
        yield {"role": payload, "content": payload}
        yield {"role": "assistant", "content": [{"type": payload, "text": payload, payload: payload}]}
    for name, given in (("write_file", {"path": f"src/{PAYLOADS[1]}.py", "content": ALL}), ("bash", {"command": ALL})):
        yield {"role": "assistant", "content": [{"type": "tool_use", "id": name, "name": name, "input": given}]}
        yield {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": ALL}]}
    yield {"role": "user", "content": LINE}


def hostile_plan() -> Iterator[dict[str, Any]]:
    readable = [payload for payload in PAYLOADS if "\ud800" not in payload]  # no JSON holds half a character
    todos = [{"content": payload, "status": "pending", "activeForm": payload} for payload in readable]
    plan = {"type": "tool_use", "id": "plan", "name": "TodoWrite", "input": {"todos": todos}}
    yield {"role": "assistant", "content": [plan]}
    yield {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "plan", "content": ALL}]}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("hostile")
    store = fill_store(folder / "run.db", "s1", 120, *hostile_rows())

    async def plan() -> None:
        async with writing(store) as context:
            for row in hostile_plan():
                await context.add_message(row)

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


def test_a_hostile_transcript_stays_text_wherever_it_is_shown(browser: Any, url: str) -> None:
    opened = Opened(browser, url, viewport={"width": 1366, "height": 900})
    with opened as page:
        check(page)
        for tab in ("View", "Rules", "Plan", "Ledger", "Search"):
            page.get_by_role("tab", name=tab).click()
            if tab == "Ledger":
                page.wait_for_selector("#panel-ledger td")
            if tab == "Search":
                page.get_by_label("Words in messages").fill("stolen <script> evil")
                page.keyboard.press("Enter")
                page.wait_for_selector("#hits .link")
            assert "'stolen'" in page.inner_text(f"#panel-{tab.lower()}")
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
    assert {asked.split("/")[2] for asked in opened.asked} == {url.split("/")[2]}


def test_a_line_of_a_megabyte_is_read_to_its_end_and_stays_inside_the_page(browser: Any, url: str) -> None:
    length = "() => Math.max(...[...document.querySelectorAll('dialog pre')].map((pre) => pre.textContent.length))"
    with Opened(browser, url, viewport={"width": 390, "height": 844}) as page:
        widths = "(bars) => bars.map((bar) => bar.offsetWidth)"
        log = page.get_by_role("group", name="Log").locator("button")
        sizes = log.evaluate_all(widths)
        log.nth(sizes.index(max(sizes))).click()
        rest = page.locator("dialog .rest .link")
        rest.first.wait_for()
        while rest.count():
            before = page.evaluate(length)
            rest.first.click()
            page.wait_for_function(f"(before) => ({length})() > before", arg=before)
        assert page.evaluate(length) == len(LINE)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        check(page)


def test_what_would_hide_or_turn_text_round_is_shown_as_dots(browser: Any, url: str) -> None:
    with Opened(browser, url) as page:
        page.get_by_role("tab", name="Plan").click()
        text = page.inner_text("#panel-plan")
        assert "·gnp.exe·" in text
        assert not set("\u202e\u202c\u2066\u2069\u200b\ufeff\u0000\u001b") & set(text)


INJECTED = {
    "innerHTML": "() => { document.body.innerHTML = '<img src=x onerror=\"window.ran=1\">' }",
    "insertAdjacentHTML": "() => document.body.insertAdjacentHTML('beforeend', '<b>x</b>')",
    "document.write": "() => document.write('<b>x</b>')",
    "script": "() => { const s = document.createElement('script'); s.text = 'window.ran=1'; document.body.append(s) }",
    "srcdoc": "() => { const f = document.createElement('iframe'); f.srcdoc = '<b>x</b>'; document.body.append(f) }",
    "DOMParser": "() => new DOMParser().parseFromString('<b>x</b>', 'text/html')",
    "worker": "() => new Worker('static/dom.js')",
    "policy": "() => trustedTypes.createPolicy('mine', { createHTML: (text) => text })",
}


@pytest.mark.parametrize("way", INJECTED)
def test_a_script_that_gets_in_finds_every_way_to_more_closed(browser: Any, url: str, way: str) -> None:
    page = browser.new_page()
    enter(page, url)
    page.wait_for_selector("body[data-messages]")
    refused = page.evaluate(
        f"() => {{ try {{ ({INJECTED[way]})(); return '' }} catch (error) {{ return String(error) }} }}"
    )
    page.wait_for_timeout(100)
    assert refused
    assert page.evaluate("window.ran") is None
    page.close()


SENT = {
    "fetch": "(to) => fetch(to)",
    "events": "(to) => new Promise((yes, no) => { const s = new EventSource(to); s.onopen = yes; s.onerror = no; })",
    "image": "(to) => new Promise((yes, no) => { const i = new Image(); i.onload = yes; i.onerror = no; i.src = to; })",
    "form": """(to) => new Promise((_, no) => {
        const form = document.createElement('form');
        addEventListener('securitypolicyviolation', no);
        Object.assign(form, { action: to, method: 'post' });
        document.body.append(form);
        form.submit();
    })""",
    "frame": """(to) => new Promise((_, no) => {
        const frame = document.createElement('iframe');
        addEventListener('securitypolicyviolation', no);
        frame.src = to;
        document.body.append(frame);
    })""",
    "style": """(to) => new Promise((yes, no) => {
        const style = document.createElement('link');
        Object.assign(style, { rel: 'stylesheet', href: to, onload: yes, onerror: no });
        document.head.append(style);
    })""",
}


@pytest.mark.parametrize("way", SENT)
def test_nothing_is_loaded_from_or_sent_to_another_host(browser: Any, url: str, way: str) -> None:
    page = browser.new_page()
    enter(page, url)
    page.wait_for_selector("body[data-messages]")
    with another_origin() as (port, asked):
        tried = f"(to) => ({SENT[way]})(to).then(() => 'sent', () => 'refused')"
        assert page.evaluate(tried, f"http://127.0.0.1:{port}/") == "refused"
    assert asked == []
    assert page.url == url
    page.close()


@contextmanager
def another_origin() -> Iterator[tuple[int, list[str]]]:
    """A server on a port of its own, and what it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(ATTACK.read_bytes())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost"])
def test_pages_of_other_origins_read_nothing_and_undo_nothing(browser: Any, url: str, host: str) -> None:
    page = browser.new_page()
    with another_origin() as (port, _):
        page.goto(f"http://{host}:{port}/?at={url}")
        page.wait_for_selector("body[data-told]", timeout=120_000)
        told = page.evaluate("JSON.parse(document.body.dataset.told)")
    assert told.pop("plain") in ("", "refused")  # that page may not read the refusal
    assert set(told.values()) == {"refused"}
    enter(page, url)
    page.wait_for_selector("body[data-messages]")
    assert "undo of" not in page.inner_text("#panel-activations")
    page.close()


def test_a_name_that_is_made_to_point_here_is_refused(browser: Any, url: str) -> None:
    page = browser.new_page()
    answer = page.goto(url.replace("127.0.0.1", "evil.example"))
    assert answer.status == 403
    assert "names no address of this machine" in page.content()
    page.close()


@pytest.mark.parametrize(
    "fragment", ["<img src=x onerror=alert(1)>", "javascript:alert(1)", "none", "%3Cscript%3E", "%", "%E0%A4%A"]
)
def test_a_hostile_address_chooses_no_session_and_runs_nothing(browser: Any, url: str, fragment: str) -> None:
    with Opened(browser, f"{url}#{fragment}") as page:
        assert page.inner_text("#title") == "s1"
        check(page)
