"""Who may reach the proxy and the inspector: the user who started them, and no other of the machine."""

import json
import resource
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from summarizing_context import Settings, open_context
from tests.laws.builders import user
from tests.proxy.fake import Fake, served

LONG = 120  # seconds; no test waits for as long unless something hangs

HELLO = {"model": "m", "max_tokens": 9, "messages": [user("hi")]}

NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "cross-site"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("SUMMARIZING_CONTEXT_PROXY_TOKEN", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@contextmanager
def started(*words: str | Path, lines: int = 1) -> Iterator[list[str]]:
    """A command that serves, by the first lines that it prints."""
    command = [sys.executable, "-m", "summarizing_context", *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        late = threading.Timer(LONG, process.kill)  # a line that never comes ends the test
        late.start()
        try:
            yield [process.stderr.readline().strip() for _ in range(lines)]
        finally:
            late.cancel()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(LONG)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def proxy(store: Path, upstream: str, *options: str, lines: int = 1) -> Iterator[list[str]]:
    given = ["--store", store, "--listen", "0", "--anthropic", upstream, "--openai", upstream]
    with started("proxy", *given, *options, lines=lines) as printed:
        yield printed


def said_by(*words: str | Path) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "summarizing_context", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=True).stdout


def token_in(home: Path) -> Path:
    """The only file of a home."""
    (kept,) = [path for path in home.rglob("*") if path.is_file()]
    return kept


def asking() -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, timeout=LONG)


def place_of(url: str) -> str:
    """The address of a server, without the path of a URL."""
    return f"http://{urlsplit(url).netloc}"


async def fill(store: Path) -> None:
    async with open_context(Settings(store=str(store), session_id="s1")) as context:
        await context.add_message(user("The database listens on port 6543."))


async def test_a_request_without_the_token_is_refused_and_told_how_to_get_it(home: Path, tmp_path: Path):
    fake = Fake()
    async with served(fake) as upstream, asking() as client:
        with proxy(tmp_path / "run.db", upstream) as (printed,):
            base = printed.split(": ")[0]
            assert f"ANTHROPIC_BASE_URL={base} OPENAI_BASE_URL={base}/v1" in printed
            for path in ("/v1/messages", "/token/0000000000000000/v1/messages", "/_status", "/inspect/"):
                refused = await client.post(f"{place_of(base)}{path}", json=HELLO)
                assert refused.status_code == 401
                assert "proxy" in refused.json()["error"]["message"]
            assert fake.seen == []
            assert (await client.post(f"{base}/v1/messages", json=HELLO)).status_code == 200
    assert [each["path"] for each in fake.seen] == ["/v1/messages"]


async def test_the_token_is_private_the_same_after_a_restart_and_of_no_use_once_others_can_read_it(home, tmp_path):
    with proxy(tmp_path / "run.db", "http://127.0.0.1:1") as (printed,):
        path = urlsplit(printed.split(": ")[0]).path
    kept = token_in(home)
    assert path == f"/token/{kept.read_text().strip()}"
    assert kept.stat().st_mode & 0o777 == 0o600
    telling = [sys.executable, "-c", "import os; print(os.environ['ANTHROPIC_BASE_URL'])"]
    said = said_by("proxy", "run", "--store", tmp_path / "run.db", "--", *telling)
    assert urlsplit(said.strip()).path == path
    kept.chmod(0o644)
    with proxy(tmp_path / "run.db", "http://127.0.0.1:1") as (printed,):
        assert printed.startswith("error: ")
        assert "can be read by others" in printed


def test_where_the_disk_is_full_no_half_of_a_token_is_left(home: Path, tmp_path: Path):
    def fill_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    command = [
        sys.executable,
        "-m",
        "summarizing_context",
        "proxy",
        "run",
        "--store",
        tmp_path / "run.db",
        "--",
        "true",
    ]
    failed = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=False, preexec_fn=fill_disk)
    assert "cannot be read or made" in failed.stderr
    assert [path for path in home.rglob("*") if path.is_file()] == []


async def test_without_a_token_there_is_a_warning_and_no_page_gets_anything_of_the_provider(home: Path, tmp_path: Path):
    async def behave(request: Request, raw: bytes) -> Response:
        return HTMLResponse("<script>fetch('/inspect/')</script>")

    fake = Fake(behave=behave)
    async with served(fake) as upstream, asking() as client:
        with proxy(tmp_path / "run.db", upstream, "--no-token", lines=2) as (printed, warning):
            base = printed.split(": ")[0]
            assert base == place_of(base)
            assert warning.startswith("WARNING: ")
            assert (await client.get(f"{base}/inspect/")).status_code == 401
            for headers in (NAVIGATION, {**NAVIGATION, "sec-fetch-site": "none"}, {"sec-fetch-dest": "iframe"}):
                assert (await client.get(f"{base}/v1/evil", headers=headers)).status_code == 403
            assert fake.seen == []
            answer = await client.get(f"{base}/v1/evil")  # of a browser that does not tell that it navigates
            assert (await client.post(f"{base}/v1/messages", json=HELLO)).status_code == 200
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "allow-" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


async def check_link(link: str) -> None:
    """A link of an inspector opens once, for one browser, and nothing else opens it."""
    base = link.partition("?")[0]
    folder = urlsplit(base).path
    async with asking() as client, asking() as other:
        for url in (f"{place_of(base)}/", base, f"{base}api/sessions", f"{base}static/inspector.js", f"{base}?key=x"):
            assert (await client.get(url)).status_code in (401, 404)
        page = await client.get(link)
        assert (page.status_code, "<html" in page.text) == (200, True)
        marks = page.headers["set-cookie"].split("; ")[1:]
        assert set(marks) == {"HttpOnly", "SameSite=Strict", f"Path={folder}"}
        assert "warn" not in page.text.lower()
        assert (await client.get(f"{base}api/sessions")).json()["sessions"][0]["session_id"] == "s1"
        assert (await client.get(link)).status_code == 200  # the page is loaded again
        used = await other.get(link)
        assert (used.status_code, "summarizing-context inspect" in used.text) == (401, True)
        undo = {"session": "s1", "confirm": "s1"}
        assert (await other.post(f"{base}api/undo", json=undo)).status_code == 401


async def test_the_inspector_opens_by_a_link_once_and_stands_in_a_folder_of_its_own(home: Path, tmp_path: Path):
    await fill(tmp_path / "run.db")
    with started("inspect", "--store", tmp_path / "run.db", "--listen", "0", "--no-browser") as (printed,):
        await check_link(printed.split()[0])


async def test_the_inspector_of_a_proxy_opens_by_links_that_status_prints_anew(home: Path, tmp_path: Path):
    await fill(tmp_path / "run.db")
    with proxy(tmp_path / "run.db", "http://127.0.0.1:1") as (printed,):
        await check_link(printed.rpartition(" ")[2])
        port = str(urlsplit(printed.split(": ")[0]).port)
        told = said_by("proxy", "status", "--listen", port)
        await check_link(told.split("Inspector: ")[1].strip())


# Codex

TELLS = """#!{python}
import json, os, sys
print(json.dumps([sys.argv[1:], dict(os.environ)]))
"""


def run_codex(folder: Path, upstream: str, *words: str, program: Path) -> subprocess.CompletedProcess[str]:
    given = ["--store", folder / "run.db", "--anthropic", upstream, "--openai", upstream]
    command = [sys.executable, "-m", "summarizing_context", "proxy", "run", *given, "--", program, *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=LONG, check=False, stdin=subprocess.DEVNULL, cwd=folder
    )


def false_codex(folder: Path) -> Path:
    program = folder / "codex"
    program.write_text(TELLS.format(python=sys.executable))
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("login", "called"),
    [
        ('{"OPENAI_API_KEY": "sk-test"}', "summarizing-context"),  # else it sends fields that plain providers refuse
        ('{"tokens": {"access_token": "a"}, "OPENAI_API_KEY": null}', "OpenAI"),
    ],
)
def test_codex_is_set_by_its_own_options_and_no_option_holds_the_token(login, called, home, tmp_path):
    (home / ".codex").mkdir()
    (home / ".codex" / "auth.json").write_text(login)
    done = run_codex(tmp_path, "http://127.0.0.1:1", "exec", "hello", program=false_codex(tmp_path))
    words, environment = json.loads(done.stdout)
    assert words[-2:] == ["exec", "hello"]
    assert words[0] == "-c"
    settings = [word for word in words[1:-2:2] if word != "model_provider=summarizing-context"]
    told = tomllib.loads("\n".join(settings))
    ((name, provider),) = told["model_providers"].items()
    assert f"model_provider={name}" in words
    assert provider["name"] == called
    (header,) = provider["env_http_headers"]
    token = environment[provider["env_http_headers"][header]]
    assert header == "x-summarizing-context-token"
    assert token in environment["OPENAI_BASE_URL"]
    assert token not in " ".join(words), "every user of a machine sees the arguments of programs"


def test_a_codex_that_is_set_to_another_provider_is_refused_with_the_reason(home: Path, tmp_path: Path):
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text('model_provider = "azure"\n')
    done = run_codex(tmp_path, "http://127.0.0.1:1", program=false_codex(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "model_provider is 'azure'" in done.stderr
