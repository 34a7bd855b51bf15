"""Who may reach the proxy and the inspector: the user who started them, and no other of the machine."""

import json
import os
import resource
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from summarizing_context import Settings
from summarizing_context.cli import main
from tests.behaviour.contexts import begun
from tests.laws.builders import user
from tests.proxy.clients import status
from tests.proxy.fake import Fake, served
from tests.proxy.test_attacks import asked, said

LONG = 120  # seconds; no test waits for as long unless something hangs
NOWHERE = "http://127.0.0.1:1"
PROGRAM = [sys.executable, "-m", "summarizing_context"]
HELLO = {"model": "m", "max_tokens": 9, "messages": [user("hi")]}
NAVIGATION = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "sec-fetch-site": "cross-site"}


@pytest.fixture(autouse=True, scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HOME", str(home := tmp_path_factory.mktemp("home")))
        for name in ("SUMMARIZING_CONTEXT_PROXY_TOKEN", "CODEX_HOME"):
            patched.delenv(name, raising=False)
        yield home


@contextmanager
def started(*words: str | Path, lines: int = 1) -> Iterator[list[str]]:
    """A command that serves, by the first lines that it prints."""
    printing: Any = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([*PROGRAM, *map(str, words)], **printing) as process:
        late = threading.Timer(LONG, process.kill)  # what never comes ends the test
        late.start()
        try:
            yield [process.stderr.readline().strip() for _ in range(lines)]
        finally:
            process.terminate()
            process.wait()
            late.cancel()


def proxy(store: Path | str, upstream: str, *options: str, lines: int = 1) -> Any:
    given = ["--store", store, "--listen", "0", "--anthropic", upstream, "--openai", upstream]
    return started("proxy", *given, *options, lines=lines)


@pytest.fixture(scope="module")
def running(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fake, str]]:
    """A provider, and what a proxy in front of it has printed. `httptools` lets through what `h11` refuses, and loses
    bodies; uvicorn takes it wherever it can be imported."""
    folder, fake = tmp_path_factory.mktemp("proxy"), Fake()
    (folder / "httptools.py").write_text("raise RuntimeError('the proxy took httptools')\n")
    anyio.run(keep_session, folder / "run.db")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(served(fake)) as upstream,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        with proxy(folder / "run.db", upstream) as (printed,):
            yield fake, printed


async def keep_session(store: Path) -> None:
    async with begun([user("The database listens on port 6543.")], of=Settings, store=store, session_id="s1"):
        pass


def run_behind(store: Path, *program: str | Path) -> int:
    """Run a program behind a proxy in this process, which it does not end; the exit status."""
    given = ["--store", store, "--anthropic", NOWHERE, "--openai", NOWHERE, "--", *program]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("summarizing_context.contrib.proxy.server.end_process_in_time", lambda status: None)
        return main(["proxy", "run", *map(str, given)])


def asking() -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, timeout=LONG)


def place_of(url: str) -> str:
    """The address of a server, without the path of a URL."""
    return f"http://{urlsplit(url).netloc}"


async def test_a_request_without_the_token_is_refused_and_told_how_to_get_it_by_the_parser_of_the_guards(running):
    fake, printed = running
    base = printed.split(": ")[0]
    assert f"ANTHROPIC_BASE_URL={base} OPENAI_BASE_URL={base}/v1" in printed
    async with asking() as client:
        for path in ("/v1/messages", "/token/0000000000000000/v1/messages", "/_status", "/inspect/"):
            refused = await client.post(f"{place_of(base)}{path}", json=HELLO)
            assert (refused.status_code, "proxy" in refused.json()["error"]["message"]) == (401, True)
        for lines in (b"Host: 127.0.0.1\r\nHost: evil.example", b"Host: 127.0.0.1\r\nX-A: " + b"a" * 300_000):
            answer = await said(base, b"GET /_status HTTP/1.1\r\n" + lines + b"\r\n\r\n")
            assert answer[9:12] in (b"400", b"431", b"")
        answer = await said(base, asked(b"http://evil.example/_status", method=b"GET", body=b""))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert ((await status(base))["requests"], fake.seen) == (0, [])
        assert (await client.post(f"{base}/v1/messages", json=HELLO)).status_code == 200
    assert [each["path"] for each in fake.seen] == ["/v1/messages"]


def test_the_token_is_private_the_same_after_a_restart_and_of_no_use_once_others_can_read_it(
    home, running, tmp_path, capsys, monkeypatch
):
    (kept,) = (path for path in home.rglob("*") if path.is_file())
    path = f"/token/{kept.read_text().strip()}"
    assert urlsplit(running[1].split(": ")[0]).path == path
    assert kept.stat().st_mode & 0o777 == 0o600
    tell = "import os, sys; open(sys.argv[1], 'w').write(os.environ['ANTHROPIC_BASE_URL'])"
    assert run_behind(tmp_path / "run.db", sys.executable, "-c", tell, tmp_path / "told") == 0
    assert urlsplit((tmp_path / "told").read_text()).path == path
    kept.chmod(0o644)
    try:
        assert run_behind(tmp_path / "run.db", "true") != 0
    finally:
        kept.chmod(0o600)
    told = capsys.readouterr().err
    assert (told.startswith("error: "), "can be read by others" in told) == (True, True)
    # where the disk is full, no half of one is left
    monkeypatch.setenv("HOME", str(empty := tmp_path / "empty"))
    empty.mkdir()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        assert run_behind(tmp_path / "run.db", "true") != 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "cannot be read or made" in capsys.readouterr().err
    assert [path for path in empty.rglob("*") if path.is_file()] == []


async def test_without_a_token_there_is_a_warning_and_no_page_gets_anything_of_the_provider(tmp_path: Path):
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
    policy = answer.headers["content-security-policy"]
    assert ("sandbox" in policy, "allow-" in policy) == (True, False)
    assert answer.headers["x-content-type-options"] == "nosniff"


async def check_link(link: str) -> None:
    """A link of an inspector opens once, for one browser, and nothing else opens it."""
    base = link.partition("?")[0]
    async with asking() as client, asking() as other:
        for url in (f"{place_of(base)}/", base, f"{base}api/sessions", f"{base}static/inspector.js", f"{base}?key=x"):
            assert (await client.get(url)).status_code in (401, 404)
        page = await client.get(link)
        assert (page.status_code, "<html" in page.text) == (200, True)
        marks = page.headers["set-cookie"].split("; ")[1:]
        assert set(marks) == {"HttpOnly", "SameSite=Strict", f"Path={urlsplit(base).path}"}
        assert "warn" not in page.text.lower()
        assert (await client.get(f"{base}api/sessions")).json()["sessions"][0]["session_id"] == "s1"
        assert (await client.get(link)).status_code == 200  # the page is loaded again
        used = await other.get(link)
        assert (used.status_code, "summarizing-context inspect" in used.text) == (401, True)
        undo = {"session": "s1", "confirm": "s1"}
        assert (await other.post(f"{base}api/undo", json=undo)).status_code == 401


async def test_the_inspector_opens_by_a_link_once_and_stands_in_a_folder_of_its_own(running, tmp_path: Path, capsys):
    await keep_session(tmp_path / "run.db")
    with started("inspect", "--store", tmp_path / "run.db", "--listen", "0", "--no-browser") as (printed,):
        await check_link(printed.split()[0])
    await check_link(running[1].rpartition(" ")[2])
    ask = ["proxy", "status", "--listen", str(urlsplit(running[1].split(": ")[0]).port)]
    assert await anyio.to_thread.run_sync(main, ask) == 0
    await check_link(capsys.readouterr().out.split("Inspector: ")[1].strip())  # a new one each time


@pytest.mark.parametrize(
    ("kept", "text", "called"),
    [
        # with a key, a name of its own: else it sends fields that plain providers refuse
        ("auth.json", '{"OPENAI_API_KEY": "sk-test"}', "summarizing-context"),
        ("auth.json", '{"tokens": {"access_token": "a"}, "OPENAI_API_KEY": null}', "OpenAI"),
        ("config.toml", 'model_provider = "azure"\n', None),  # refused, with the reason
    ],
)
def test_codex_is_set_by_its_own_options_and_no_option_holds_the_token(
    kept, text, called, tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / kept).write_text(text)
    program = tmp_path / "codex"  # a false one that tells how it was called
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nprint(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
    )
    program.chmod(0o755)
    status = run_behind(tmp_path / "run.db", program, "exec", "hello")
    out, err = capfd.readouterr()
    if called is None:
        assert (status, out, "model_provider is 'azure'" in err) == (2, "", True)
        return
    words, environment = json.loads(out)
    assert words[-2:] == ["exec", "hello"]
    assert words[0] == "-c"
    settings = [word for word in words[1:-2:2] if word != "model_provider=summarizing-context"]
    ((name, provider),) = tomllib.loads("\n".join(settings))["model_providers"].items()
    assert f"model_provider={name}" in words
    assert provider["name"] == called
    ((header, variable),) = provider["env_http_headers"].items()
    assert header == "x-summarizing-context-token"
    assert environment[variable] in environment["OPENAI_BASE_URL"]
    assert environment[variable] not in " ".join(words), "every user of a machine sees the arguments of programs"
