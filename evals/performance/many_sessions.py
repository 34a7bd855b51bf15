"""Many sessions open at once, in a few processes on one PostgreSQL server: connections, memory, latency, and the logs.

    python -m evals.performance.many_sessions --sessions 1000 --hosts 10

Each session is a whole context. While all are open, each adds a message, asks for a view and adds the answer, and so
on, with a pause as of a model between. At the end a reader compares the log of every session with what was added. The
server waits for the disk of TMPDIR. Exit status 1 where a message is lost or another than was added.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from evals.performance.clockwork import resident
from evals.performance.metrics import percentile
from summarizing_context import Settings, SummarizingContext, open_context
from tests import postgres_server

PATIENCE = 600.0  # seconds
_MB = 1 << 20

_gate: Barrier  # of all processes and the one that looks on


class Told(NamedTuple):
    """What a process tells of its sessions."""

    opening: float  # seconds until all were open
    closing: float
    appends: list[float]  # seconds of each
    views: list[float]
    bytes_before: int
    bytes_after: int


def text(session: int, step: int) -> str:
    """What is said in a step: a few hundred tokens."""
    told = hashlib.sha256(f"{session} {step}".encode()).hexdigest()
    return f"Step {step} of session {session}: the build of {told[:12]} failed in src/{told[12:20]}.py. " * 8


def settings(address: str, session: int) -> Settings:
    return Settings(store=address, session_id=f"session-{session}", max_tokens=4_000, token_counter="estimate")


async def live(context: SummarizingContext, session: int, steps: int, pause: float) -> tuple[list[float], list[float]]:
    """The steps of one session, and the seconds that its appends and views took."""
    rng = random.Random(session)
    appends: list[float] = []
    views: list[float] = []
    await asyncio.sleep(pause * rng.random())
    for step in range(steps):
        for row in (
            {"role": "user", "content": text(session, step)},
            {"role": "assistant", "content": f"Done {step}."},
        ):
            began = time.perf_counter()
            await context.add_message(row)
            appends.append(time.perf_counter() - began)
            if row["role"] == "user":
                began = time.perf_counter()
                await context.get_messages_for_request()
                views.append(time.perf_counter() - began)
                await asyncio.sleep(pause * rng.uniform(0.5, 1.5))
    return appends, views


async def host(address: str, sessions: range, steps: int, pause: float) -> Told:
    """One process: open its sessions, wait for the others, live, and wait again before it closes them."""
    before, began = resident(), time.perf_counter()
    async with AsyncExitStack() as stack:
        contexts = [await stack.enter_async_context(open_context(settings(address, one))) for one in sessions]
        opening = time.perf_counter() - began
        await asyncio.to_thread(_gate.wait)
        found = await asyncio.gather(
            *(live(context, one, steps, pause) for context, one in zip(contexts, sessions, strict=True))
        )
        after = resident()
        await asyncio.to_thread(_gate.wait)
        await asyncio.to_thread(_gate.wait)
        began = time.perf_counter()
    appends, views = ([one for pair in found for one in pair[which]] for which in (0, 1))
    return Told(opening, time.perf_counter() - began, appends, views, before, after)


def run_host(address: str, sessions: range, steps: int, pause: float) -> Told:
    return asyncio.run(host(address, sessions, steps, pause))


def set_gate(gate: Barrier) -> None:
    global _gate
    _gate = gate


def connections(url: str) -> list[tuple[int]]:
    """The server's processes for the hosts."""
    with psycopg.connect(url) as one:
        asked = "select pid from pg_stat_activity where application_name = 'summarizing-context'"
        return one.execute(asked).fetchall()


def own_memory(pids: list[tuple[int]]) -> Iterator[int]:
    """Bytes that a process has alone, its share of what several have included."""
    for (pid,) in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        yield sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


async def missing(address: str, sessions: int, steps: int) -> int:
    """How many sessions do not hold what was added to them."""
    wrong = 0
    for session in range(sessions):
        async with open_context(settings(address, session), read_only=True) as context:
            rows = [row["content"] for row in await context.get_messages()]
            added = (row for step in range(steps) for row in (text(session, step), f"Done {step}."))
            wrong += rows != list(added)
    return wrong


def run(options: argparse.Namespace, server: postgres_server.Server) -> bool:
    """The whole measurement; whether all is there."""
    address, each = f"{server.url}&schema=bench", options.sessions // options.hosts
    spawn = multiprocessing.get_context("spawn")
    gate = spawn.Barrier(options.hosts + 1, timeout=PATIENCE)
    with spawn.Pool(options.hosts, initializer=set_gate, initargs=(gate,)) as pool:
        parts = [range(at * each, (at + 1) * each) for at in range(options.hosts)]
        running = pool.starmap_async(run_host, [(address, part, options.steps, options.pause) for part in parts])
        gate.wait()
        began = time.perf_counter()
        gate.wait()
        seconds, pids = time.perf_counter() - began, connections(server.url)
        memory = list(own_memory(pids))
        gate.wait()
        told: list[Told] = running.get(PATIENCE)
    show(options, told, seconds, memory)
    wrong = asyncio.run(missing(address, each * options.hosts, options.steps))
    print(f"  {each * options.hosts - wrong} of {each * options.hosts} sessions hold every message as it was added")
    return wrong == 0


def show(options: argparse.Namespace, told: list[Told], seconds: float, memory: list[int]) -> None:
    each = options.sessions // options.hosts
    figures: dict[str, Any] = {
        name: [one * 1_000 for process in told for one in getattr(process, name)] for name in ("appends", "views")
    }
    grown = [(one.bytes_after - one.bytes_before) / each for one in told]
    print(
        f"{each * options.hosts} sessions in {options.hosts} processes; {os.cpu_count()} cores for all and the server"
    )
    print(f"  opened in {max(one.opening for one in told):.1f} s, closed in {max(one.closing for one in told):.1f} s")
    print(f"  {len(memory)} connections, {sum(memory) / len(memory) / _MB:.1f} MB of the server for each")
    print(
        f"  a process has {max(one.bytes_after for one in told) / _MB:.0f} MB, {max(grown) / 1024:.0f} KB for a session"
    )
    for name, times in figures.items():
        p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
        print(f"  {len(times):,} {name}, {len(times) / seconds:.0f} a second: p50 {p50:.2f} ms, p99 {p99:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=10, help="processes")
    parser.add_argument("--sessions", type=int, default=1_000, help="of all processes")
    parser.add_argument("--steps", type=int, default=8, help="of each session")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds between two messages of a session, about")
    options = parser.parse_args()
    with postgres_server.started(on_disk=True) as server:
        is_well = run(options, server)
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
