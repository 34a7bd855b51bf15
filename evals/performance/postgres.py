"""What PostgreSQL costs as a store: appends beside SQLite's, vectors beside numpy's.

    python -m evals.performance.postgres appends
    python -m evals.performance.postgres vectors

Each starts a server of its own, which waits for the disk of TMPDIR as SQLite does, unless --address names a database.
There it makes a schema `bench`, and removes it.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
import psycopg

from evals.performance.metrics import percentile
from summarizing_context.assembly import open_store
from summarizing_context.retrieval.embeddings import packed
from summarizing_context.stores.base import SessionStore, StoredEntry
from summarizing_context.stores.postgres.store import PostgresStore
from tests import postgres_server

MESSAGE = StoredEntry(b'{"role": "user", "content": "%s"}' % (b"word " * 200), b"facts" * 10)
ROUNDS = 5  # of both stores in turn, so that both meet what else the machine does
LOADS = ((1, 100), (16, 50), (100, 15))  # tasks at once, and appends of each


@contextmanager
def database(address: str | None) -> Iterator[str]:
    """The address of a database: the one that is named, or that of a server for the length of the block."""
    if address is None:
        with postgres_server.started(on_disk=True) as server:
            yield server.url
        return
    try:
        yield address
    finally:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("drop schema if exists bench cascade")


def in_schema(address: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}schema=bench"


async def appends(store: SessionStore, name: str, tasks: int, each: int) -> tuple[list[float], float]:
    """Milliseconds of each append, of so many tasks at once, each in a session of its own; and seconds in all."""

    async def add(number: int) -> list[float]:
        session_id, found = f"{name}-{tasks}-{number}", []
        await store.claim(session_id)
        for _ in range(each):
            began = time.perf_counter()
            await store.append(session_id, [MESSAGE], lambda: None)
            found.append((time.perf_counter() - began) * 1_000)
        return found

    began = time.perf_counter()
    times = list(chain.from_iterable(await asyncio.gather(*map(add, range(tasks)))))
    return times, time.perf_counter() - began


async def compare_appends(address: str) -> None:
    """Appends of one task, and of many at once, to both stores in turn."""
    with tempfile.TemporaryDirectory() as folder:
        stores = {
            "SQLite": await open_store(Path(folder) / "bench.db"),
            "PostgreSQL": await open_store(in_schema(address)),
        }
        print(f"{'tasks':>5}  {'store':10}  {'p50':>8}  {'p99':>8}  appends a second")
        for tasks, each in LOADS:
            medians = {}
            for name, (times, seconds) in (await alternate(stores, tasks, each)).items():
                medians[name] = percentile(times, 0.5)
                shown = f"{medians[name]:5.2f} ms  {percentile(times, 0.99):5.2f} ms  {len(times) / seconds:,.0f}"
                print(f"{tasks:5}  {name:10}  {shown}")
            print(f"{tasks:5}  p50 is {medians['PostgreSQL'] / medians['SQLite']:.1f} times SQLite's")
        for store in stores.values():
            await store.close()


async def alternate(stores: dict[str, SessionStore], tasks: int, each: int) -> dict[str, tuple[list[float], float]]:
    """The times of some rounds of each store, and their seconds."""
    found: dict[str, tuple[list[float], float]] = {name: ([], 0.0) for name in stores}
    for number in range(ROUNDS):
        for name, store in stores.items():
            times, seconds = await appends(store, f"round-{number}", tasks, each)
            found[name] = found[name][0] + times, found[name][1] + seconds
    return found


async def compare_vectors(address: str, count: int, dimensions: int) -> None:
    """Seconds of a search by meaning among so many vectors, compared by numpy, and by pgvector."""
    rows = np.random.default_rng(1).standard_normal((count, dimensions))
    vectors = {number: packed(row.tolist()) for number, row in enumerate(rows)}
    for extension in (False, True):
        if extension:
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("create extension vector")
        store = PostgresStore(in_schema(address))
        await store.open()
        if not extension:
            await store.vectors.save("row", "bench", vectors)
        while extension and await lacking(address):
            await store.vectors.near("row", "bench", list(vectors), vectors[0])
        times = []
        for number in range(7):
            began = time.perf_counter()
            near = await store.vectors.near("row", "bench", list(vectors), vectors[number])
            times.append(time.perf_counter() - began)
            assert len(near) == count
            assert max(near, key=lambda one: near[one]) == number
        await store.close()
        print(f"{'pgvector' if extension else 'numpy':8}  {count:,} vectors of {dimensions}: {min(times):.3f} s")


async def lacking(address: str) -> bool:
    """Whether vectors are not kept for pgvector yet."""
    async with await psycopg.AsyncConnection.connect(address) as connection:
        found = await connection.execute("select from bench.vectors where meaning is null limit 1")
        return await found.fetchone() is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["appends", "vectors"])
    parser.add_argument("--address", help="postgresql://user@host/database")
    parser.add_argument("--vectors", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, default=768)
    options = parser.parse_args()
    with database(options.address) as address:
        if options.what == "appends":
            asyncio.run(compare_appends(address))
        else:
            asyncio.run(compare_vectors(address, options.vectors, options.dimensions))


if __name__ == "__main__":
    main()
