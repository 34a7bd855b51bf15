"""What one PostgreSQL server carries: what appends and summaries cost it here, and a simulation of larger ones.

    python -m evals.performance.capacity [--json PATH] [--from PATH]

The costs are measured on a server of its own, which waits for the disk of TMPDIR and shares the machine with the hosts.
The simulation first repeats the loads that were measured, beside which their measured rates stand; then it looks for
the most sessions of other machines. `--from` simulates with the costs that `--json` has kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from evals.performance.capacity_simulation import Costs, Load, Server, most_sessions, simulate
from evals.performance.machine import machine
from evals.performance.metrics import percentile
from evals.performance.postgres import MESSAGE, in_schema
from summarizing_context import Settings, SummaryJob
from summarizing_context.fleet import pool_worker
from summarizing_context.pool.client import PoolCaller, queue_name
from summarizing_context.pool.metrics import PoolMetrics
from summarizing_context.stores.postgres.store import PostgresStore
from tests import postgres_server

LOADS = ((1, 1), (1, 16), (1, 100), (4, 25))  # hosts, and tasks of each that append without a pause
SECONDS = 6.0  # of each load
WORKERS = 2
SUMMARIES = 2_000
ASKED = 100  # at once
SEGMENT = "The build failed in src/parser.py, and was mended by a patch of the lexer.\n" * 210  # 4,000 tokens
PAUSE = 5.0  # seconds between two appends of a session: a busy agent
P99 = 0.05  # seconds that an append may take
SHARE = 0.7  # of the time that CPU and disk may be busy
SERVERS = [Server(cores, flush) for cores in (2, 8, 32) for flush in (0.0002, 0.001, 0.005)]
HOSTS = (10, 100, 1_000)
TICK = os.sysconf("SC_CLK_TCK")

_gate: Barrier


class Used(NamedTuple):
    """What a server and its log have used so far."""

    cpu: float  # seconds
    log: float  # bytes
    commits: float  # of appends

    def since(self, before: Used) -> Used:
        return Used(*(now - then for now, then in zip(self, before, strict=True)))


class Measured(NamedTuple):
    """One load of appends."""

    hosts: int
    tasks: int
    appends: int
    seconds: float
    p50: float
    p99: float
    used: Used
    host_cpu: float


def used(server: postgres_server.Server) -> Used:
    with psycopg.connect(server.url) as connection:
        (log,) = connection.execute("select pg_current_wal_insert_lsn() - '0/0'").fetchone() or (0,)
        (commits,) = connection.execute("select coalesce(sum(batch), 0) from bench.writers").fetchone() or (0,)
    return Used(_cpu(server.pid), float(log), float(commits))


def _cpu(pid: int) -> float:
    """Seconds of CPU of a process, its children, and those that have ended."""
    seconds = 0.0
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == pid:
            seconds += sum(map(int, fields[11:13])) / TICK
        if place.parent.name == str(pid):
            seconds += sum(map(int, fields[11:15])) / TICK
    return seconds


def set_gate(gate: Barrier) -> None:
    global _gate
    _gate = gate


def run_host(address: str, number: int, tasks: int, seconds: float) -> tuple[list[float], float]:
    """The seconds of each append, and the CPU of the process, between two meetings of all processes."""
    return asyncio.run(_append(address, number, tasks, seconds))


async def _append(address: str, number: int, tasks: int, seconds: float) -> tuple[list[float], float]:
    store = PostgresStore(address)
    await store.open()
    names = [f"{tasks}-{number}-{task}" for task in range(tasks)]
    for name in names:
        await store.claim(name)
        await store.append(name, [MESSAGE], lambda: None)
    await asyncio.to_thread(_gate.wait)
    times: list[float] = []
    cpu, until = time.process_time(), time.perf_counter() + seconds

    async def add(name: str) -> None:
        while (began := time.perf_counter()) < until:
            await store.append(name, [MESSAGE], lambda: None)
            times.append(time.perf_counter() - began)

    await asyncio.gather(*map(add, names))
    cpu = time.process_time() - cpu
    await asyncio.to_thread(_gate.wait)
    await asyncio.to_thread(_gate.wait)
    await store.close()
    return times, cpu


def measure_appends(server: postgres_server.Server, hosts: int, tasks: int) -> Measured:
    spawn = multiprocessing.get_context("spawn")
    gate = spawn.Barrier(hosts + 1, timeout=120)
    with spawn.Pool(hosts, initializer=set_gate, initargs=(gate,)) as pool:
        given = [(in_schema(server.url), number, tasks, SECONDS) for number in range(hosts)]
        running = pool.starmap_async(run_host, given)
        gate.wait()
        before, began = used(server), time.perf_counter()
        gate.wait()
        seconds, after = time.perf_counter() - began, used(server)
        gate.wait()
        told = running.get(120)
    times = [one for found, _ in told for one in found]
    p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
    return Measured(hosts, tasks, len(times), seconds, p50, p99, after.since(before), sum(cpu for _, cpu in told))


class Instant:
    """A model that answers at once."""

    recipe = "capacity/1"

    async def summarize(self, job: SummaryJob) -> str:
        return "## Done\n" + "- The build failed, and was mended by a patch.\n" * 25


def run_worker(address: str, stop: Any) -> None:
    """A worker of the pool, until told to stop."""

    async def work() -> None:
        store = PostgresStore(address)
        await store.open()
        async with pool_worker(
            Settings(store=address, concurrency=16), store, PoolMetrics(), summarizer=Instant()
        ) as worker:
            running = asyncio.create_task(worker.run())
            await asyncio.to_thread(stop.wait)
            worker.drain()
            await running
        await store.close()

    asyncio.run(work())


async def ask(address: str, first: int, count: int) -> None:
    """Ask the pool for so many summaries."""
    store = PostgresStore(address)
    await store.open()
    model: Any = Instant()
    model.model, model.ready_in = None, lambda: 0.0
    caller = PoolCaller(store, "capacity", store.queue(queue_name(Instant.recipe)), model, own=0)
    numbers = iter(range(first, first + count))

    async def some() -> None:
        for number in numbers:
            await caller.summarize(
                SummaryJob(
                    "segment", "Summarize.", f"{number} {SEGMENT}", 900, 0, 0, 1, 4_000, f"{number:064x}", 1, "r"
                )
            )

    await asyncio.gather(*(some() for _ in range(ASKED)))
    await store.close()


def measure_summaries(server: postgres_server.Server) -> tuple[Used, float]:
    """What the server used for one summary from request to reply; and how many there were in a second."""
    address, spawn = in_schema(server.url), multiprocessing.get_context("spawn")
    stop = spawn.Event()
    workers = [spawn.Process(target=run_worker, args=(address, stop)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    try:
        asyncio.run(ask(address, 0, 100))  # until all is up and warm
        before, began = used(server), time.perf_counter()
        asyncio.run(ask(address, 100, SUMMARIES))
        seconds, taken = time.perf_counter() - began, used(server).since(before)
    finally:
        stop.set()
        for worker in workers:
            worker.join(60)
            worker.kill()
    return Used(*(one / SUMMARIES for one in taken)), SUMMARIES / seconds


def flush_seconds() -> float:
    """How long the disk takes to keep a page of the log."""
    times = []
    with tempfile.TemporaryFile() as file:
        for number in range(200):
            os.pwrite(file.fileno(), bytes(8192), number % 64 * 8192)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def measure() -> dict[str, Any]:
    """All that is measured."""
    with postgres_server.started(on_disk=True) as server:
        asyncio.run(_create(in_schema(server.url)))
        loads = [measure_appends(server, hosts, tasks) for hosts, tasks in LOADS]
        summary, rate = measure_summaries(server)
    one, many = loads[0], loads[2]
    few, batch = one.used.commits / one.appends, many.used.commits / many.appends
    commit, append = _line(few, one.used.cpu / one.appends, batch, many.used.cpu / many.appends)
    host_commit, host_append = _line(few, one.host_cpu / one.appends, batch, many.host_cpu / many.appends)
    log = many.used.log / many.appends
    costs = Costs(commit, append, host_commit, host_append, log, summary.cpu, summary.log)
    told = {"machine": machine(), "flush": flush_seconds(), "summaries_per_second": rate}
    return told | {"costs": costs._asdict(), "loads": [load._asdict() for load in loads]}


async def _create(address: str) -> None:
    store = PostgresStore(address)
    await store.open()
    await store.close()


def _line(x1: float, y1: float, x2: float, y2: float) -> tuple[float, float]:
    """Slope and height of the line through two points."""
    slope = max(0.0, (y1 - y2) / (x1 - x2))
    return slope, y1 - slope * x1


def show(measured: dict[str, Any]) -> None:
    costs, flush = Costs(**measured["costs"]), measured["flush"]
    print("  ".join(measured["machine"].values()))
    print(f"the server's CPU: {costs.commit * 1e6:.0f} us for a commit, {costs.append * 1e6:.0f} us for an append,")
    print(f"  {costs.summary * 1e3:.2f} ms for a summary; {costs.host_append * 1e6:.0f} us of a host for an append")
    print(f"log: {costs.log:,.0f} bytes for an append, {costs.summary_log:,.0f} for a summary")
    print(f"a flush of the log takes {flush * 1e3:.2f} ms")
    print(f"{WORKERS} workers whose model answers at once: {measured['summaries_per_second']:.0f} summaries a second")
    print(f"\n{'hosts':>5} {'tasks':>5}   measured                         simulated")
    cores = Server(os.cpu_count() or 1, flush, shared=True, trip=0.0)
    for load in measured["loads"]:
        hosts, tasks = load["hosts"], load["tasks"]
        guess = simulate(costs, cores, Load(hosts, hosts * tasks, 0.0, 0), seconds=4)
        real = f"{load['appends'] / load['seconds']:6,.0f}/s  p50 {load['p50'] * 1e3:6.2f} ms"
        print(f"{hosts:5} {tasks:5}   {real}   {guess.per_second:6,.0f}/s  p50 {guess.p50 * 1e3:6.2f} ms")
    print(f"\nmost sessions: an append every {PAUSE:g} s, p99 below {P99 * 1e3:g} ms, nothing busy above {SHARE:.0%}")
    print("cores  flush    hosts   sessions  appends/s  summaries/h      p99    CPU   log  host")
    for server in SERVERS:
        for hosts in HOSTS:
            sessions, told = most_sessions(costs, server, Load(hosts, 0, PAUSE), p99=P99, share=SHARE)
            hourly = told.per_second / 7 * 3_600
            figures = f"{sessions:9,}  {told.per_second:9,.0f}  {hourly:11,.0f}  {told.p99 * 1e3:5.1f} ms"
            shares = f"{told.cpu:4.0%}  {told.log:4.0%}  {told.host:4.0%}"
            print(f"{server.cores:5}  {server.flush * 1e3:3.1f} ms  {hosts:5}  {figures}  {shares}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="keep what was measured here")
    parser.add_argument("--from", dest="given", type=Path, help="simulate with what was kept here")
    options = parser.parse_args()
    measured = json.loads(options.given.read_text()) if options.given else measure()
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")
    show(measured)


if __name__ == "__main__":
    main()
