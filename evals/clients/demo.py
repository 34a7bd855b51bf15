"""A session of 200 steps through the proxy, in front of a provider of the loopback, and a picture of the inspector.

    python -m evals.clients.demo [--steps 200] [--out FOLDER] [--stay]

No key, no network, no npm: the client, the model and the provider are scripted; the proxy and the inspector are real.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from evals.clients.judge import Verdict, judge
from evals.clients.middle import Middle, between
from evals.clients.script import Plan, source_files
from evals.clients.scripted import Agent, sdk
from evals.clients.upstream import Provider, provided

_FIRST = (
    "Read the files of src one after the other and tell me what each of them does. Never push to main. "
    "The staging database listens on port 6543."
)

_SIZES = (("wide", 1366, 900), ("phone", 390, 844))

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")

_HOW = """No picture: it takes chromium, and playwright in this environment. On Debian:
  apt-get install chromium && .venv/bin/python -m pip install playwright"""


def main() -> int:
    """Run the demonstration; 1 where the session does not hold."""
    options = _options()
    console = Console()
    folder: Path = options.out
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("proxy.db*"), *folder.glob("*.png")):
        old.unlink()
    with contextlib.suppress(KeyboardInterrupt):
        holds = asyncio.run(_run(options, folder, console))
        console.print(f"\nThe page again: .venv/bin/summarizing-context inspect --store {folder / 'proxy.db'}")
        return 0 if holds else 1
    return 130


async def _run(options: argparse.Namespace, folder: Path, console: Console) -> bool:
    plan = Plan(options.steps)
    provider = Provider(plan)
    verdict = Verdict("scripted", "", "ours", budget=options.budget)
    async with provided(provider) as upstream, between("ours", upstream, options.budget, folder) as proxy:
        console.print(
            f"The proxy is at [bold]{proxy.address}[/], its inspector at [bold]{await proxy.inspector()}[/]\n"
        )
        words = await _drive(plan, proxy, console)
        verdict.final_arrived = plan.final in words
        await proxy.look()
        judge(verdict, provider.seen, proxy.records, proxy.told)
        console.print(_table(verdict, proxy))
        for words in verdict.problems:
            console.print(f"[red]{words}[/]", highlight=False)
        await _pictures(proxy, folder, console)
        if options.stay:
            console.print(f"Look around: {await proxy.inspector()}  Ctrl-C ends it.")
            await asyncio.Event().wait()
    return verdict.holds


async def _drive(plan: Plan, proxy: Middle, console: Console) -> str:
    """The session from its first words to its last, with a bar; the proxy is asked now and then."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[more]}"))
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("steps", total=plan.steps, more="")
        watching = asyncio.ensure_future(proxy.watch())
        client = sdk(proxy.address)

        def told(_: float) -> None:
            session = max(proxy.told.get("sessions") or [{}], key=lambda each: each.get("messages", 0))
            more = f"history {session.get('tokens', 0):,} tokens, sent {session.get('view_tokens', 0):,}"
            progress.update(bar, advance=1, more=more)

        agent = Agent(client, source_files(plan.seed))
        agent.told = told
        try:
            words = await agent.say(_FIRST)
        finally:
            watching.cancel()
            await client.close()
        progress.update(bar, completed=plan.steps)
    return words


def _table(verdict: Verdict, proxy: Middle) -> Table:
    sessions: Sequence[dict[str, Any]] = proxy.told["sessions"]
    history = max(session["tokens"] for session in sessions)
    unseen = sum(record["tokens"] + record["fixed_tokens"] for record in proxy.records)
    kept = verdict.cached / verdict.tokens
    made = Table(title=f"What the provider saw, with a budget of {verdict.budget:,} tokens", title_justify="left")
    made.add_column("")
    made.add_column("", justify="right")
    rows = (
        ("requests", f"{verdict.requests:,}"),
        ("history of the client at the end, tokens", f"{history:,}"),
        ("largest request, tokens", f"{verdict.most_tokens:,}"),
        ("requests above the budget", f"{verdict.above_budget:,}"),
        ("requests that the strict rules refused", f"{verdict.refused:,}"),
        ("activations", f"{verdict.activations:,}"),
        ("tokens of all requests", f"{verdict.tokens:,}"),
        ("the same without the proxy", f"{unseen:,}"),
        ("share that begins as the request before", f"{kept:.1%}"),
        ("last words of the model arrived", "yes" if verdict.final_arrived else "no"),
    )
    for row in rows:
        made.add_row(*row)
    return made


async def _pictures(proxy: Middle, folder: Path, console: Console) -> None:
    """The inspector as a reader sees it, wide and on a phone, light and dark."""
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        found = None
    if found is None:
        console.print(_HOW, highlight=False)
        return
    session = max(proxy.told["sessions"], key=lambda each: each["messages"])["session"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for name, width, height in _SIZES:
            for scheme in ("light", "dark"):
                page = await browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                await page.goto(f"{await proxy.inspector()}#{quote(session, safe='')}")
                await page.wait_for_selector("body[data-messages]")
                picture = folder / f"inspector-{name}-{scheme}.png"
                await page.screenshot(path=picture)
                console.print(f"picture: {picture}", highlight=False)
                await page.close()
        await browser.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals.clients.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="of the session")
    parser.add_argument("--budget", type=int, default=24_000, help="tokens of a request")
    parser.add_argument("--out", type=Path, default=Path("proxy-demo"), help="the folder of the store and the pictures")
    parser.add_argument("--stay", action="store_true", help="leave the proxy and its inspector running")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
