"""Drive real clients through the proxy and judge each request.

    python -m evals.clients --client claude,codex,opencode --steps 100 --json clients.json

A session has tools, parallel calls, a child agent, an interruption, two resumes, and Claude Code's own compaction. The
clients come from npm, into `evals/clients/.programs`; `--programs` names another folder of `npm install`. Everything
stays on the loopback, in a temporary folder. The exit status is 1 where a session does not hold.

`--direct` plays the same sessions without the proxy, as clients compact them alone; the costs of both can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from evals.clients.judge import Verdict, judge
from evals.clients.programs import FOLDER, PINS, PROGRAMS, Program, install
from evals.clients.script import Plan, write_sources
from evals.clients.upstream import Provider, provided

PATIENCE = 60.0  # seconds for the proxy to start
LEG = 900.0  # seconds
MOST_STEPS = 400  # the proxy tells of its newest 500 requests
FIRST = (
    "Read the files of src one after the other and tell me what each of them does. Never push to main. "
    "The staging database listens on port 6543."
)
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by a proxy of the machine


@asynccontextmanager
async def proxied(provider: str, budget: int, store: Path, env: Mapping[str, str], *words: str) -> AsyncIterator[str]:
    """Run the proxy in front of a provider; yield its address. Raise `RuntimeError` if it does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    given = ["proxy", "--store", str(store), "--listen", str(port), "--budget", str(budget), *words]
    log = store.with_suffix(".log")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "summarizing_context", *given, "--anthropic", provider, "--openai", provider),
        env=env,
        stdout=DEVNULL,
        stderr=log.open("wb"),
    )
    try:
        for _ in range(int(PATIENCE / 0.1)):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.1)
        else:
            raise RuntimeError(f"the proxy did not answer: {log.read_text()[-600:]}")
        yield f"http://127.0.0.1:{port}"
    finally:
        await ended(process)


async def started(words: Sequence[str], work: Path, env: Mapping[str, str]) -> Process:
    """Start a program in a folder, away from the terminal of whoever measures."""
    return await asyncio.create_subprocess_exec(
        *words,
        cwd=work,
        env=env,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
        # A shell that runs this in the background has it ignore Ctrl-C, and its children would do so too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


async def ended(process: Process) -> None:
    """End a process that was started here."""
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def run_session(name: str, program: Path, folder: Path, steps: int, budget: int | None) -> Verdict:
    """Drive one client through a session, and return what is said of it; without a budget, there is no proxy."""
    cuts = (steps * 3 // 5, steps * 9 // 10)
    plan = Plan(steps, cuts=cuts, pause=steps * 4 // 5)
    work = write_sources(folder / "work")
    provider, verdict = Provider(plan), Verdict(name, PINS[name][1], budget=budget or 10**9)
    async with provided(provider) as upstream, AsyncExitStack() as stack:
        address = upstream
        if budget is not None:
            env = {**os.environ, "HOME": str(folder), "NO_COLOR": "1"}
            proxy = proxied(upstream, budget, folder / "proxy.db", env, "--no-token")
            address = await stack.enter_async_context(proxy)
        client = PROGRAMS[name](program, folder, address)
        await say(client, FIRST, work, verdict, plan.cut_text(cuts[0]))
        await say(client, "Go on with the next files.", work, verdict, pausing=provider.pausing)
        provider.resumed.set()
        await say(client, "You were interrupted. Go on.", work, verdict, plan.cut_text(cuts[1]))
        if client.compaction:
            await say(client, client.compaction, work, verdict)
        await say(client, "Go on to the end.", work, verdict, plan.final)
        told: dict[str, Any] = {}
        if budget is not None:
            told = json.loads(await asyncio.to_thread(lambda: OPENER.open(f"{address}/_status", timeout=10).read()))
        judge(verdict, provider.seen, told)
    return verdict


async def say(
    client: Program, text: str, work: Path, verdict: Verdict, expected: str = "", pausing: asyncio.Event | None = None
) -> None:
    """Say something; the words that come back have to be the expected ones. With `pausing` the client is sent a signal
    in the middle of a reply."""
    verdict.legs += 1
    process = await started(client.command(text), work, client.environment())
    reading = asyncio.ensure_future(process.communicate())
    was_paused = pausing is None
    if pausing is not None:
        waiting = asyncio.ensure_future(pausing.wait())
        await asyncio.wait({reading, waiting}, timeout=LEG, return_when=asyncio.FIRST_COMPLETED)
        if was_paused := waiting.done():
            await asyncio.sleep(0.3)  # the first half is on the screen
            process.send_signal(signal.SIGINT)
        waiting.cancel()
    done, _ = await asyncio.wait({reading}, timeout=LEG)
    await ended(process)
    output, errors = (data.decode("utf-8", "replace") for data in await reading)
    words = client.heard(output)
    if done and was_paused and expected in words:
        verdict.legs_right += 1
    else:
        verdict.problems.append(f"{text!r}: expected {expected!r}, heard {words[-300:]!r}; {errors[-600:]!r}")


def main() -> int:
    """Run the sessions one after the other, and print what is said of them."""
    parser = argparse.ArgumentParser(prog="python -m evals.clients", description=__doc__.splitlines()[0])
    parser.add_argument("--client", default=",".join(PROGRAMS), help="clients, with commas between them")
    parser.add_argument("--steps", type=int, default=100, help=f"of the main session; from 10 to {MOST_STEPS}")
    parser.add_argument("--budget", type=int, default=40_000, help="tokens of a request")
    parser.add_argument("--direct", action="store_true", help="without the proxy")
    parser.add_argument("--programs", type=Path, default=FOLDER, help="the folder in which npm installs the clients")
    parser.add_argument("--json", type=Path, help="write the verdicts there")
    options = parser.parse_args()
    names = options.client.split(",")
    if set(names) - set(PROGRAMS) or not 10 <= options.steps <= MOST_STEPS:
        parser.error(f"--client: of {', '.join(PROGRAMS)}; --steps: from 10 to {MOST_STEPS}")
    console, verdicts = Console(stderr=True), list[Verdict]()
    budget, title = (None, "without") if options.direct else (options.budget, "through")
    for name in names:
        try:
            program = install(name, options.programs)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            parser.error(f"{name} cannot be installed: {error}")
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder, console.status(name):
            session = run_session(name, program, Path(folder), options.steps, budget)
            verdicts.append(asyncio.run(session))
    made = Table("", *(f"{one.client} {one.version}" for one in verdicts), title=f"Real clients {title} the proxy")
    for figure, _ in list(verdicts[0].asdict().items())[3:-1]:
        made.add_row(figure.replace("_", " "), *(f"{getattr(one, figure):,.6g}" for one in verdicts))
    console.print(made)
    for verdict in verdicts:
        for words in verdict.problems:
            print(f"{verdict.client}: {words}", file=sys.stderr)
    if options.json is not None:
        options.json.write_text(json.dumps([verdict.asdict() for verdict in verdicts], indent=2) + "\n")
    return 0 if all(verdict.holds for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
