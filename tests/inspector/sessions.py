"""Stores with sessions to look at, and the inspector as it is started."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio

from summarizing_context import Settings, SummarizingContext, open_context
from summarizing_context.contrib.inspector import inspector_app
from tests.laws.builders import call, result, session, user
from tests.laws.judge import SMALL

Result = TypeVar("Result")
OPTIONS: dict[str, Any] = {"max_tokens": 3_000, **SMALL}
RULE = "Never push to main without asking me."
HOSTILE = (
    "</pre><script>document.title='stolen'</script><img src=x onerror=\"document.title='stolen'\">"
    "<svg onload=document.title='stolen'>{{7*7}}\u202e\ud800 \u0000 javascript:alert(1)"
)


def writing(store: Path, session_id: str = "s1") -> AbstractAsyncContextManager[SummarizingContext]:
    return open_context(Settings(store=str(store), session_id=session_id, **OPTIONS))


async def fill(store: Path, session_id: str = "s1", count: int = 150, *first: dict[str, Any]) -> None:
    """A session with a rule, a plan and several activations."""
    todos = [{"content": "Write the test", "status": "in_progress"}]
    plan = (call("anthropic", ("plan-1", "TodoWrite", {"todos": todos})), result("anthropic", "plan-1", "ok"))
    async with writing(store, session_id) as context:
        for row in (user(f"Fix the parser. {RULE}"), *first, *plan, *session(5, count)):
            await context.add_message(row)
            await context.get_messages_for_request()
        await context.wait_idle()
        await context.get_messages_for_request()


def fill_store(store: Path, session_id: str = "s1", count: int = 150, *first: dict[str, Any]) -> Path:
    run_apart(partial(fill, store, session_id, count, *first))
    return store


def run_apart(work: Callable[[], Awaitable[Result]]) -> Result:
    """Run in a thread of its own: playwright has an event loop in that of the test."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, work).result()


def app_of(store: Path, **options: Any) -> Any:
    return inspector_app(store, settings=Settings(**SMALL), **options)


COOKIES: dict[str, str] = {}  # that browsers get by the link of each inspector which was started, by its address


@contextmanager
def started(store: Path, folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command in a process of its own: its address, whose cookie is in `COOKIES`, and the process."""
    lines = ["[summarizing_context]", *(f"{name} = {value}" for name, value in SMALL.items())]
    (config := folder / "inspector.toml").write_text("\n".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "summarizing_context", "inspect", "--store", str(store), "--listen", "127.0.0.1:0"]
    command += ["--no-browser", "--json", "-", "--config", str(config)]
    pipes: Any = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={**os.environ, "COLUMNS": "200"}, **pipes) as process:
        try:
            link = process.stderr.readline().split()[0]
            url = link.partition("?")[0]
            said = json.loads(process.stdout.readline())  # a program reads there what serves, and where
            assert (said["serves"], said["store"], said["at"]) == ("inspect", str(store), link)
            with urllib.request.urlopen(link, timeout=120) as page:
                COOKIES[url] = page.headers["Set-Cookie"].partition(";")[0]
            yield url, process
        finally:
            process.kill()
            assert process.stdout.read() == ""
