"""Drive real clients through the proxy and judge each request.

    python -m evals.clients --client claude,codex,opencode --steps 100 --json clients.json

A session has tools, parallel calls, a child agent, an interruption, two resumes, and Claude Code's own compaction.
The clients come from npm. Everything else stays on the loopback, in a temporary folder. The exit status is 1 where a
session does not hold.

`--direct` plays the same sessions without the proxy, as clients compact them alone; the costs of both can be compared.
`--plugins` plays a session with our plug-in instead: it is compacted, goes on, and once more when the service is gone.
Then a stored session is continued in the client.
"""

import argparse
import asyncio
import contextlib
import gzip
import json
import signal
import subprocess
import sys
import tempfile
from asyncio import create_subprocess_exec as start
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console
from rich.table import Table

from evals.clients.judge import Verdict, judge
from evals.clients.programs import FOLDER, PROGRAMS, Program
from evals.clients.script import Plan, write_sources
from evals.clients.upstream import Provider, provided

PATIENCE = 60.0  # seconds for the proxy to start
LEG = 900.0  # seconds
FIRST = (
    "Read the files of src one after the other and tell me what each of them does. Never push to main. "
    "The staging database listens on port 6543."
)
ANSWERS = Path(__file__).with_name("answers.jsonl.gz")  # with summaries that clients got for their own compaction
LOG = Path(__file__).parents[1] / "unseen2" / "logs" / "cli-36.jsonl.gz"  # of a session that is handed over
OURS = (sys.executable, "-m", "summarizing_context")
SUMMARIES, PROMPT = "<summary messages=", "[summarizing-context: the first "  # of a view, and of a session handed over


@asynccontextmanager
async def proxied(client: Program, provider: str, budget: int, store: Path, *words: str) -> AsyncIterator[str]:
    """Run the proxy in front of a provider; yield its address. Raise `RuntimeError` if it does not start."""
    given = [*OURS, "proxy", "--store", str(store), "--listen", "0", "--budget", str(budget), "--json", "-", *words]
    given += ["--anthropic", provider, "--openai", provider]
    log = store.with_suffix(".log")
    with log.open("wb") as written:
        process = await start(*given, env=client.environment(), stdout=PIPE, stderr=written)
    try:
        assert process.stdout is not None
        if not (started := await asyncio.wait_for(process.stdout.readline(), PATIENCE)):
            raise RuntimeError(f"the proxy did not start: {log.read_text()[-600:]}")
        yield json.loads(started)["at"]
    finally:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()


async def run(client: Program, words: Sequence[str], work: Path, pausing: asyncio.Event | None = None) -> Sequence[str]:
    """Run a program in a folder, away from the terminal of whoever measures; return what it wrote, and its errors.

    With `pausing` it is sent Ctrl-C in the middle of a reply. Raise `TimeoutError` where it does not end or get there.
    """
    # A shell that runs this in the background has it ignore Ctrl-C, and its children would do so too.
    apart: Any = {"start_new_session": True, "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    apart |= {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE}
    process = await start(*words, cwd=work, env=client.environment(), **apart)
    reading = asyncio.create_task(process.communicate())
    try:
        async with asyncio.timeout(LEG):
            if pausing is not None:
                waiting = asyncio.create_task(pausing.wait())
                await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
                if waiting.cancel():  # it had not come to an end
                    raise TimeoutError
                await asyncio.sleep(0.3)  # the first half is on the screen
                process.send_signal(signal.SIGINT)
            return [each.decode(errors="replace") for each in await reading]
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            process.kill()


async def say(
    client: Program, text: str, work: Path, verdict: Verdict, expected: str = "", pausing: asyncio.Event | None = None
) -> None:
    """Say something; the words that come back have to be the expected ones."""
    try:
        output, errors = await run(client, client.command(text), work, pausing)
    except TimeoutError:
        verdict.check(False, f"{text!r}: the client did not come to its end")
        return
    words = client.heard(output)
    verdict.check(expected in words, f"{text!r}: expected {expected!r}, heard {words[-300:]!r}; {errors[-600:]!r}")


async def run_session(client: Program, verdict: Verdict, steps: int, budget: int | None, away: float) -> None:
    """Drive a client through a session, its user `away` for some seconds, and judge it; no proxy without a budget."""
    cuts = (steps * 3 // 5, steps * 9 // 10)
    plan = Plan(steps, cuts=cuts, pause=steps * 4 // 5)
    summaries = list[str]()
    if client.own_limit:
        with gzip.open(ANSWERS, "rt", encoding="utf-8") as file:
            rows = [row for row in map(json.loads, file) if row["kind"] == "compaction"]
        summaries = [row["text"] for row in rows if row["client"] == client.name]
    work, provider = write_sources(client.folder / "work"), Provider(plan, summaries)
    async with provided(provider) as upstream, AsyncExitStack() as stack:
        client.address = upstream
        if budget is not None:
            proxy = proxied(client, upstream, budget, client.folder / "proxy.db", "--no-token")
            client.address = await stack.enter_async_context(proxy)
        await say(client, FIRST, work, verdict, plan.words(cuts[0]))
        await say(client, "Go on with the next files.", work, verdict, pausing=provider.pausing)
        provider.resumed.set()
        await say(client, "You were interrupted. Go on.", work, verdict, plan.words(cuts[1]))
        if client.compaction:
            await say(client, client.compaction, work, verdict)
        await asyncio.sleep(away)
        await say(client, "Go on to the end.", work, verdict, plan.words())
        told: dict[str, Any] = {}
        if budget is not None:
            async with httpx2.AsyncClient(trust_env=False, timeout=10) as asking:
                told = (await asking.get(f"{client.address}/_status")).json()
        judge(verdict, provider.seen, told)


async def run_plugin(client: Program, verdict: Verdict, steps: int, budget: int) -> None:
    """Drive one client with its plug-in, if it has one, and continue a stored session in it."""
    plan, work, store = Plan(steps), write_sources(client.folder / "work"), client.folder / "proxy.db"
    provider = Provider(plan)
    async with provided(provider) as upstream:
        client.address = upstream
        async with proxied(client, upstream, budget, store) as proxy:
            if client.plugin:
                port = proxy.rpartition(":")[2]
                await run(client, [*OURS, "install", client.plugin, "--yes", "--listen", port], work)
                await say(client, FIRST, work, verdict, plan.words())
                if client.compaction:
                    await say(client, client.compaction, work, verdict)
                await say(client, "And now?", work, verdict, plan.words())
                last = [" ".join(seen.items) for seen in provider.seen if seen.kind == "agent"][-1:]
                has_view = any(SUMMARIES in items.replace("\\", "") for items in last)
                verdict.check(has_view, "the last request holds no summaries")
            if client.takes_over:
                await run(client, [*OURS, "import", str(LOG), "--store", str(store)], work)
                given = ("continue", "cli-36", "--store", str(store), "--budget", "8k", "--in", *client.takes_over)
                _, errors = await run(client, [*OURS, *given], work)
                is_continued = any(PROMPT in item for seen in provider.seen for item in seen.items)
                verdict.check(is_continued, f"the session is not continued: {errors[-600:]!r}")
        if client.plugin:
            before = len(provider.seen)
            await say(client, "Once more.", work, verdict, plan.words())  # without the service
            verdict.check(len(provider.seen) > before, "the client does not go on without the service")
    for seen in provider.seen:
        verdict.note(seen)


def main() -> int:
    """Run the sessions one after the other, and print their verdicts."""
    parser = argparse.ArgumentParser(prog="python -m evals.clients", description=__doc__.splitlines()[0])
    parser.add_argument("--client", default="claude,codex,opencode", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--steps", type=int, default=100, help="of the main session; from 10 to 400")
    parser.add_argument("--budget", type=int, default=40_000, help="tokens of a request")
    parser.add_argument("--away", type=float, default=0.0, help="seconds before the end, in which a cache may expire")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--direct", action="store_true", help="without the proxy")
    ways.add_argument("--own", type=int, default=0, help="the same, with the client's compaction at so many tokens")
    ways.add_argument("--plugins", action="store_true", help="with the plug-ins")
    parser.add_argument("--programs", type=Path, default=FOLDER, help="the folder in which npm installs the clients")
    parser.add_argument("--json", type=Path, help="write the verdicts there")
    options = parser.parse_args()
    names = options.client.split(",")
    if set(names) - set(PROGRAMS) or not 10 <= options.steps <= 400:  # the proxy tells of its newest 500 requests
        parser.error(f"--client: of {', '.join(PROGRAMS)}; --steps: from 10 to 400")
    budget = None if options.direct or options.own or options.plugins else options.budget
    console, verdicts = Console(stderr=True), list[Verdict]()
    for name in names:
        verdict = Verdict(name, PROGRAMS[name].version, budget=budget or 10**9)
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder, console.status(name):
            try:
                client = PROGRAMS[name](options.programs, Path(folder))
                client.own_limit = options.own
            except (OSError, subprocess.SubprocessError) as error:
                parser.error(f"{name} cannot be installed by npm: {error}")
            if options.plugins:
                asyncio.run(run_plugin(client, verdict, options.steps, options.budget))
            else:
                asyncio.run(run_session(client, verdict, options.steps, budget, options.away))
        verdicts.append(verdict)
    made = Table("", *(f"{one.client} {one.version}" for one in verdicts), title="Real clients")
    for figure in [*asdict(verdicts[0])][2:-1]:
        made.add_row(figure.replace("_", " "), *(f"{getattr(one, figure):,.6g}" for one in verdicts))
    console.print(made)
    for words in (f"{one.client}: {words}" for one in verdicts for words in one.problems):
        print(words, file=sys.stderr)
    if options.json is not None:
        told = [{"holds": one.holds, **asdict(one)} for one in verdicts]
        options.json.write_text(json.dumps(told, indent=2) + "\n")
    return 0 if all(verdict.holds for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
