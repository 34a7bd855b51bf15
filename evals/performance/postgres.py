"""What appending costs in PostgreSQL, beside SQLite on the same machine, and many sessions on one server.

    python -m evals.performance.postgres postgresql://user@host/database --folder /var/tmp

It makes a schema `bench` in the database, and removes it. The server should wait for its disk, as it does by default.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from itertools import chain
from pathlib import Path

import psycopg

from summarizing_context.assembly import open_store
from summarizing_context.stores.base import SessionStore, StoredEntry

_MESSAGE = StoredEntry(b'{"role": "user", "content": "%s"}' % (b"word " * 200), b"facts" * 10)


async def appends(store: SessionStore, tasks: int, each: int) -> list[float]:
    """Milliseconds of each append, of so many tasks at once, each in a session of its own."""

    async def add(number: int) -> list[float]:
        session_id, found = f"s{tasks}-{number}", []
        await store.claim(session_id)
        for _ in range(each):
            began = time.perf_counter()
            await store.append(session_id, [_MESSAGE], lambda: None)
            found.append((time.perf_counter() - began) * 1_000)
        return found

    began = time.perf_counter()
    times = sorted(chain.from_iterable(await asyncio.gather(*map(add, range(tasks)))))
    rate = len(times) / (time.perf_counter() - began)
    p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
    print(f"  {tasks:4} tasks: p50 {p50:7.2f} ms  p99 {p99:7.2f} ms  {rate:8,.0f} appends/s")
    return times


async def measure(store: str) -> None:
    """Appends one after the other, and many at once."""
    opened = await open_store(store)
    for tasks, each in ((1, 500), (16, 100), (100, 30)):
        await appends(opened, tasks, each)
    await opened.close()


async def hold(address: str, host: int, sessions: int) -> float:
    """Open many sessions, as many stores, append to each, and read one back; seconds to open them."""
    began = time.perf_counter()
    stores = [await open_store(address) for _ in range(sessions)]
    await asyncio.gather(*(store.claim(f"h{host}-{at}") for at, store in enumerate(stores)))
    opened = time.perf_counter() - began
    for _ in range(10):
        writes = [store.append(f"h{host}-{at}", [_MESSAGE], lambda: None) for at, store in enumerate(stores)]
        await asyncio.gather(*writes)
    loaded = await stores[-1].load(f"h{host}-{sessions - 1}")
    assert loaded is not None
    assert len(loaded.entries) == 10
    await asyncio.gather(*(store.close() for store in stores))
    return opened


def run_host(address: str, host: int, sessions: int) -> float:
    """One process."""
    return asyncio.run(hold(address, host, sessions))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--folder", type=Path, default=None, help="where the SQLite file is made")
    parser.add_argument("--hosts", type=int, default=10)
    parser.add_argument("--sessions", type=int, default=1_000)
    options = parser.parse_args()
    address = f"{options.address}{'&' if '?' in options.address else '?'}schema=bench"
    try:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            print("SQLite")
            asyncio.run(measure(str(Path(folder) / "bench.db")))
        print("PostgreSQL")
        asyncio.run(measure(address))
        began = time.perf_counter()
        each = options.sessions // options.hosts
        with multiprocessing.get_context("spawn").Pool(options.hosts) as pool:
            opened = pool.starmap(run_host, [(address, host, each) for host in range(options.hosts)])
        took = time.perf_counter() - began
        print(f"{options.sessions} sessions in {options.hosts} processes, 10 appends each: {took:.1f} s in all,")
        print(f"  {each} sessions opened in {min(opened):.2f} to {max(opened):.2f} s")
    finally:
        with psycopg.connect(options.address, autocommit=True) as connection:
            connection.execute("drop schema if exists bench cascade")


if __name__ == "__main__":
    main()
