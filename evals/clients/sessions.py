"""A whole session of a real client: its legs, an interruption, being resumed, its own compaction, and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evals.clients.judge import Verdict, judge
from evals.clients.middle import answering, between, free_port, post
from evals.clients.programs import PINS, PROGRAMS, Claude, Codex, OpenCode, Program, Ready
from evals.clients.script import Plan, source_files
from evals.clients.upstream import Provider, provided

_A_LEG = 900.0  # seconds

_FIRST = (
    "Read the files of src one after the other and tell me what each of them does. Never push to main. "
    "The staging database listens on port 6543."
)

Tell = Callable[[str], None]


def planned(steps: int, seed: int = 7) -> Plan:
    """The session: an agent at two fifths, a leg's end at three, an interruption at four, compaction at nine tenths."""
    return Plan(steps, seed, cuts=(steps * 3 // 5, steps * 9 // 10), pause=steps * 4 // 5)


async def run_session(
    name: str,
    program: Path,
    folder: Path,
    *,
    steps: int,
    budget: int,
    tell: Tell = lambda words: None,
) -> tuple[Verdict, Provider]:
    """Drive one client through the session; what is said of it, and the provider that saw it."""
    plan = planned(steps)
    work = folder / "work"
    for path, text in source_files(plan.seed).items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text)
    provider = Provider(plan)
    verdict = Verdict(name, PINS[name][1], budget=budget)
    began = time.monotonic()
    async with provided(provider) as upstream, between(upstream, budget, folder) as stands:
        watching = asyncio.ensure_future(stands.watch())
        try:
            client = PROGRAMS[name](program, folder, stands.address)
            await _Legs(client, provider, verdict, work, tell).run(plan)
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        await stands.look()
        judge(verdict, provider.seen, stands.records, stands.told)
    verdict.seconds = round(time.monotonic() - began, 1)
    return verdict, provider


class _Legs:
    """The parts of a session; each is checked by the words that the client prints."""

    def __init__(self, client: Program, provider: Provider, verdict: Verdict, work: Path, tell: Tell) -> None:
        self._client, self._provider, self._verdict, self._work, self._tell = client, provider, verdict, work, tell

    async def run(self, plan: Plan) -> None:
        first, second = plan.cuts
        await self._say(_FIRST, plan.cut_text(first))
        await self._interrupted("Go on with the next files.")
        await self._say("You were interrupted. Go on.", plan.cut_text(second))
        await self._compact()
        words = await self._say("Go on to the end.", plan.final)
        self._verdict.final_arrived = plan.final in words

    async def _say(self, text: str, expected: str) -> str:
        """Say something; the words that come back have to be the expected ones."""
        self._verdict.legs += 1
        self._tell(text)
        words, errors = await self._run(self._client.say(text))
        if expected in words:
            self._verdict.legs_right += 1
        else:
            self._verdict.problems.append(f"expected {expected!r}, heard {words[-300:]!r}; {errors[-600:]!r}")
        return words

    async def _interrupted(self, text: str) -> None:
        """Say something, and send the client a signal in the middle of a reply."""
        self._verdict.legs += 1
        self._tell(f"{text} (interrupted)")
        process = await started(self._client.say(text), self._work)
        reading = asyncio.ensure_future(process.communicate())
        pausing = asyncio.ensure_future(self._provider.pausing.wait())
        await asyncio.wait({reading, pausing}, timeout=_A_LEG, return_when=asyncio.FIRST_COMPLETED)
        if pausing.done():
            await asyncio.sleep(0.3)  # the first half is on the screen
            process.send_signal(signal.SIGINT)
            self._verdict.legs_right += 1
        pausing.cancel()
        await self._ended(process, reading)
        self._provider.resumed.set()

    async def _compact(self) -> None:
        before = self._compactions()
        self._verdict.legs += 1
        self._tell("its own compaction")
        try:
            await compact(self._client, self._work)
        except (OSError, RuntimeError, TimeoutError) as error:
            self._verdict.problems.append(f"the client did not compact: {error!r}")
        if self._compactions() > before:
            self._verdict.legs_right += 1
        else:
            self._verdict.problems.append("no compaction was asked for")

    def _compactions(self) -> int:
        return sum(seen.kind == "compaction" for seen in self._provider.seen)

    async def _run(self, ready: Ready) -> tuple[str, str]:
        process = await started(ready, self._work)
        return await self._ended(process, asyncio.ensure_future(process.communicate()))

    async def _ended(
        self, process: asyncio.subprocess.Process, reading: asyncio.Future[tuple[bytes, bytes]]
    ) -> tuple[str, str]:
        """What the client said, once it has ended; one that does not end is killed."""
        done, _ = await asyncio.wait({reading}, timeout=_A_LEG)
        if not done:
            process.kill()
            self._verdict.problems.append("the client did not end")
        output, errors = (data.decode("utf-8", "replace") for data in await reading)
        return self._client.heard(output), errors


_WITHIN = 300.0  # seconds

_ENDS = 20.0  # seconds

_LINE = 1 << 26  # bytes that a server may say at once


async def started(ready: Ready, work: Path, *, spoken_to: bool = False) -> Process:
    """Run a client's command in its folder; `spoken_to` is one that reads what it is asked."""
    return await asyncio.create_subprocess_exec(
        *ready.arguments,
        cwd=work,
        env=ready.environment,
        stdin=PIPE if spoken_to else DEVNULL,
        stdout=PIPE,
        stderr=DEVNULL if spoken_to else PIPE,
        limit=_LINE,
        start_new_session=True,  # away from the terminal of whoever measures
        preexec_fn=_interruptible,
    )


def _interruptible() -> None:
    """A shell that runs this in the background has it ignore Ctrl-C, and its children would do so too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def compact(client: Program, work: Path) -> None:
    """Let a client compact its session. Raises `OSError` and `RuntimeError` where it does not."""
    if isinstance(client, Claude):
        process = await started(client.compact(), work)
        await _within(process.communicate(), process)
    elif isinstance(client, Codex):
        process = await started(client.serve(), work, spoken_to=True)
        await _within(_by_lines(process, client.session), process)
    elif isinstance(client, OpenCode):
        process = await started(client.serve(port := free_port()), work, spoken_to=True)
        await _within(_by_http(process, client, f"http://127.0.0.1:{port}"), process)


async def _within(work: Any, process: Process) -> None:
    try:
        await asyncio.wait_for(work, _WITHIN)
    finally:
        if process.returncode is None:
            process.terminate()  # a program of npm passes it on to what it has started
            try:
                await asyncio.wait_for(process.wait(), _ENDS)
            except TimeoutError:
                process.kill()
                await process.wait()


async def _by_http(process: Process, client: OpenCode, address: str) -> None:
    await answering(f"{address}/config", process)
    body = client.compaction_body.encode()
    await asyncio.to_thread(post, address + client.compaction_path, body, timeout=_WITHIN)


async def _by_lines(process: Process, session: str) -> None:
    """Codex's server speaks JSON-RPC, one message a line."""
    about = {"clientInfo": {"name": "evals", "title": "evals", "version": "1"}}
    await _call(process, "initialize", about)
    await _say(process, {"method": "initialized"})
    await _call(process, "thread/resume", {"threadId": session, "excludeTurns": True})
    await _call(process, "thread/compact/start", {"threadId": session})
    while (await _hear(process)).get("method") != "turn/completed":
        pass


async def _call(process: Process, method: str, given: dict[str, Any]) -> None:
    await _say(process, {"id": method, "method": method, "params": given})
    while (said := await _hear(process)).get("id") != method:
        pass
    if "error" in said:
        raise RuntimeError(f"{method} was answered with {said['error']}")


async def _say(process: Process, said: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(said).encode() + b"\n")
    await process.stdin.drain()


async def _hear(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError("the client's server has ended")
    said: dict[str, Any] = json.loads(line)
    return said
