"""Which job queue loses nothing: summaries asked by hosts, workers killed with SIGKILL, the server restarted twice.

    python -m evals.performance.queue_proof saq saq-quick pgqueuer --summaries 15000 --kills 100

Hosts ask for summaries in rounds, a fourth of them also asked by another host. Workers hold the claim of a key while
they call a model, as the package does, and note each call in a file before it begins and once its summary is kept.
Kills and restarts fall on the same numbers of kept summaries for every queue. It needs the packages saq[postgres] and
pgqueuer, and the programs of a PostgreSQL server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

from evals.performance.queues import QUEUES, JobQueue
from summarizing_context.errors import StoreError
from summarizing_context.stores.base import StoredSummary, SummaryKey
from summarizing_context.stores.postgres.store import PostgresStore
from tests import postgres_server

HOST_PROCESSES = 4
HOSTS = 20
WORKERS = 4
CONCURRENCY = 16  # calls of a worker at once
ROUND = 25  # summaries that a host asks for at once
CALL = (0.03, 0.08)  # seconds of a call of the model
CLAIM = 60.0  # seconds
PATIENCE = 120.0  # seconds without any summary, after which a host goes on without those that are missing
LOOK = 0.2  # seconds between two looks at how far it is
LEASE = 3  # seconds
ALONE = 60  # summaries that are asked one by one at the end


def summary_key(name: str) -> SummaryKey:
    return SummaryKey(name, "proof")


class Calls:
    """The calls of all workers, in one file that outlives them: a line when one begins, another when it is kept."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "calls"
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, what: str, name: str) -> None:
        os.write(self._file, f"{what} {name} {os.getpid()}\n".encode())

    def read(self) -> list[list[str]]:
        return [line.split() for line in self._path.read_text().splitlines()]


async def work(queue: JobQueue, store: PostgresStore, calls: Calls) -> None:
    """Make what is asked until killed."""

    async def make(name: str) -> None:
        key = summary_key(name)
        while True:
            try:
                async with store.claims.held(key, CLAIM):  # type: ignore[union-attr]
                    if not await store.find_summaries("proof", [key]):
                        await pay(key)
                return
            except StoreError:  # the server is away for long
                await asyncio.sleep(0.2)

    async def pay(key: SummaryKey) -> None:
        calls.note("began", key.range_hash)
        await asyncio.sleep(random.uniform(*CALL))
        while True:
            try:
                await store.save_summary("proof", key, StoredSummary("x" * 1_200, 0, 4_000, 300), {})
                break
            except StoreError:
                await asyncio.sleep(0.2)
        calls.note("kept", key.range_hash)

    await queue.work(make, CONCURRENCY)


async def ask(queue: JobQueue, store: PostgresStore, names: list[str], size: int) -> list[float]:
    """Ask for these in rounds, and wait for each; the seconds that each summary took. Missing ones are left out."""
    times: list[float] = []
    for at in range(0, len(names), size):
        began = heard = time.monotonic()
        left = {summary_key(name) for name in names[at : at + size]}
        await queue.ask([key.range_hash for key in left])
        while left and time.monotonic() - heard < PATIENCE:
            try:
                found = await store.find_summaries("proof", sorted(left))
            except StoreError:
                continue
            if found:
                heard = time.monotonic()
                times += [heard - began] * len(found)
                left -= found.keys()
            await asyncio.sleep(0.05 if size > 1 else 0.005)
    return times


def names_of(host: int, count: int) -> list[str]:
    """What a host asks for: its own part, and every fourth of its neighbour's, in an order of its own."""
    own = [f"{number:06}" for number in range(host, count, HOSTS)]
    other = [f"{number:06}" for number in range((host + 1) % HOSTS, count, HOSTS)][::4]
    names = own + other
    random.Random(host // 2).shuffle(names)
    return names


async def child(options: argparse.Namespace) -> None:
    """A worker, or some of the hosts; told by the command line."""
    queue = QUEUES[options.queue](options.url)
    store = PostgresStore(f"{options.url}&schema=proof&lease={LEASE}")
    await store.open()
    if options.role == "worker":
        await work(queue, store, Calls(options.folder))
        return
    hosts = range(options.first, HOSTS, HOST_PROCESSES)
    answers = (ask(queue, store, names_of(host, options.summaries), ROUND) for host in hosts)
    times = [time for found in await asyncio.gather(*answers) for time in found]
    (options.folder / f"times-{options.first}").write_text(json.dumps(times))
    await store.close()


class Fleet:
    """The processes of a run."""

    def __init__(self, queue: str, url: str, folder: Path, summaries: int) -> None:
        self._common = ["--queue", queue, "--url", url, "--folder", str(folder), "--summaries", str(summaries)]
        self.hosts = [self._start("host", "--first", str(first)) for first in range(HOST_PROCESSES)]
        self.workers = [self._start("worker") for _ in range(WORKERS)]

    def _start(self, role: str, *more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "evals.performance.queue_proof", "--role", role, *self._common, *more]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL if role == "worker" else None)

    def kill_worker(self, rng: random.Random, calls: Calls) -> bool:
        """Kill one that has begun to work; whether there was one."""
        known = {int(pid) for _, _, pid in calls.read()}
        working = [at for at, one in enumerate(self.workers) if one.pid in known]
        if not working:
            return False
        at = rng.choice(working)
        self.workers[at].kill()
        self.workers[at].wait()
        self.workers[at] = self._start("worker")
        return True

    def end(self) -> None:
        for one in (*self.workers, *self.hosts):
            one.kill()
            one.wait()


def made(url: str) -> int:
    """How many summaries there are; -1 while the server is away."""
    try:
        with psycopg.connect(url, connect_timeout=2) as connection:
            row = connection.execute("select count(*) from proof.summaries").fetchone()
            return int(row[0]) if row else 0
    except psycopg.Error:
        return -1


def drive(
    fleet: Fleet, server: postgres_server.Server, calls: Calls, options: argparse.Namespace
) -> dict[str, int | bool]:
    """Kill workers, and restart the server at a third and at two thirds, until the hosts or the time have ended."""
    rng = random.Random(7)
    marks = sorted(rng.sample(range(1, options.summaries * 19 // 20), options.kills))
    signals = [signal.SIGINT, signal.SIGKILL]
    kills = restarts = 0
    until = time.monotonic() + options.seconds
    while (is_running := any(host.poll() is None for host in fleet.hosts)) and time.monotonic() < until:
        time.sleep(LOOK)
        kept = made(server.url)
        if kills < len(marks) and kept >= marks[kills]:
            kills += fleet.kill_worker(rng, calls)
        if restarts < 2 and kept >= options.summaries * (restarts + 1) // 3:
            server.stop(signals[restarts])
            time.sleep(1.0)
            server.start()
            restarts += 1
    return {"kills": kills, "restarts": restarts, "ended": not is_running}


async def settle(queue: str, url: str) -> dict[str, Any]:
    """What is left in the queue, and how long one ask takes from a host to its summary while nothing else is done."""
    one, store = QUEUES[queue](url), PostgresStore(f"{url}&schema=proof&lease={LEASE}")
    await store.open()
    until = time.monotonic() + 60
    while (left := await one.left()) and time.monotonic() < until:  # noqa: ASYNC110 - it is another process's
        await asyncio.sleep(0.5)
    times = sorted(await ask(one, store, [f"alone-{number}" for number in range(ALONE)], 1))
    await store.close()
    return {"jobs_left": left, "alone_p50_ms": _ms(times, 0.5), "alone_p90_ms": _ms(times, 0.9)}


def _ms(times: list[float], share: float) -> float:
    return round(times[int(len(times) * share)] * 1_000, 1)


def paid(calls: list[list[str]]) -> dict[str, int]:
    """Calls of a key beyond its first and beyond those that ended with their worker."""
    began, kept = (Counter(name for did, name, _ in calls if did == what) for what in ("began", "kept"))
    return {
        "calls": began.total(),
        "calls_killed": sum(began[name] - kept[name] for name in began),
        "paid_twice": sum(max(0, kept[name] - 1) for name in began),
    }


async def prepare(queue: str, url: str) -> None:
    await QUEUES[queue](url).prepare()
    store = PostgresStore(f"{url}&schema=proof&lease={LEASE}")
    await store.open()
    await store.close()


def prove(queue: str, options: argparse.Namespace) -> dict[str, Any]:
    """One run of one queue on a server of its own that waits for its disk."""
    with postgres_server.started(on_disk=True) as server, tempfile.TemporaryDirectory() as folder:
        asyncio.run(prepare(queue, server.url))
        began = time.monotonic()
        fleet = Fleet(queue, server.url, Path(folder), options.summaries)
        try:
            done = drive(fleet, server, Calls(Path(folder)), options)
            took, kept = time.monotonic() - began, made(server.url)
            figures = {"queue": queue, "summaries": options.summaries, "kept": kept, **done}
            figures |= {"seconds": round(took, 1), "per_second": round(kept / took, 1)}
            if done["ended"]:
                times = sorted(one for path in Path(folder).glob("times-*") for one in json.loads(path.read_text()))
                figures |= {"p50_ms": _ms(times, 0.5), "p99_ms": _ms(times, 0.99), "longest_s": round(times[-1], 1)}
                figures |= asyncio.run(settle(queue, server.url))
                figures["lost"] = options.summaries + ALONE - made(server.url)
            return figures | paid(Calls(Path(folder)).read())
        finally:
            fleet.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queues", nargs="*", choices=[*QUEUES, []], help="the queues to try, one after the other")
    parser.add_argument("--summaries", type=int, default=1_500)
    parser.add_argument("--kills", type=int, default=30, help="workers that are killed")
    parser.add_argument("--seconds", type=float, default=900.0, help="the longest that one queue may take")
    for hidden in ("--role", "--queue", "--url"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    if options.role:
        asyncio.run(child(options))
        return
    for queue in options.queues or QUEUES:
        print(json.dumps(prove(queue, options)), flush=True)


if __name__ == "__main__":
    main()
