"""The clients' own compaction, each by the door that it has without a screen."""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import Any

from evals.clients.middle import answering, free_port, post
from evals.clients.programs import Claude, Codex, OpenCode, Program, Ready

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
