"""What partitions of the table of messages, and several databases, bring beyond one server's limit.

    python -m evals.performance.partitions

A store is filled with many messages. Appends, the opening of a session, and a removal are timed, before and after the
table is partitioned as the page on capacity shows. The server waits for the disk of TMPDIR.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from evals.performance.metrics import percentile
from evals.performance.postgres import appends, in_schema
from summarizing_context.stores.postgres.store import PostgresStore
from tests import postgres_server

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "capacity.md"
TASKS, EACH = 16, 100
REMOVED = 5  # sessions


def partitioning(schema: str) -> str:
    """The statements of the page, for a schema."""
    (text,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(text).replace("summarizing_context", schema)


async def fill(store: PostgresStore, url: str, sessions: int, each: int) -> None:
    """Sessions of so many messages of about a kilobyte, which the server makes."""
    for number in range(sessions):
        await store.claim(f"full-{number}")
    statements = (
        "insert into bench.entries (branch, position, message, facts)"
        " select branch, at, convert_to(json_build_object('role', 'user', 'content',"
        " repeat(md5(branch::text || at::text), 30))::text, 'UTF8'), ''"
        f" from bench.sessions cross join generate_series(0, {each - 1}) as at where session_id like 'full-%'",
        f"update bench.sessions set stop = {each} where session_id like 'full-%'",
        f"update bench.branches set indexed = {each} where session_id like 'full-%'",
        "analyze",
        "checkpoint",
    )
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


async def figures(url: str, name: str, removed: Iterator[int], each: int) -> None:
    """Print how long things take now; the store is opened anew, for others have held its sessions."""
    store = PostgresStore(in_schema(url))
    await store.open()
    times, seconds = await appends(store, name, TASKS, EACH)
    opened, gone = [], []
    for _ in range(REMOVED):
        session_id = f"full-{next(removed)}"
        began = time.perf_counter()
        stored = await store.load(session_id)
        opened.append(time.perf_counter() - began)
        assert stored is not None
        assert len(stored.entries) == each
        began = time.perf_counter()
        assert await store.delete_session(session_id)
        gone.append(time.perf_counter() - began)
    await store.close()
    p50, p99, rate = percentile(times, 0.5), percentile(times, 0.99), len(times) / seconds
    print(f"{name:12}  appends p50 {p50:.2f} ms, p99 {p99:.2f} ms, {rate:,.0f} a second", end="; ")
    print(f"opening {min(opened) * 1_000:.0f} ms; removal {min(gone) * 1_000:.0f} ms")


async def compare(url: str, sessions: int, each: int) -> None:
    """One table, and then its partitions."""
    store = PostgresStore(in_schema(url))
    await store.open()
    await fill(store, url, sessions, each)
    await store.close()
    removed = iter(range(sessions))
    await figures(url, "one table", removed, each)
    began = time.perf_counter()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(partitioning("bench").encode())
    print(f"partitioning  {time.perf_counter() - began:.0f} s for {(sessions - REMOVED) * each:,} messages")
    await figures(url, "8 partitions", removed, each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=500, help="of each session")
    options = parser.parse_args()
    with postgres_server.started(on_disk=True) as server:
        asyncio.run(compare(server.url, options.sessions, options.messages))


if __name__ == "__main__":
    main()
