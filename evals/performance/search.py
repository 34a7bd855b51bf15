"""Searching 100,000 messages: how long a query takes, and what the index costs those who append.

Claims checked: a warm search answers in under 50 ms at p95, whatever is asked and wherever; appending is as fast as
without an index, since the store fills it behind the log; opening a file of an older version takes as long as any, its
back-fill goes on behind. Words are drawn as people use them: few very often, most seldom; one message in fifty is as
long as a file. Prints a table; `--json PATH` for machines.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sqlite3
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from summarizing_context import Settings, open_context
from summarizing_context.assembly import open_store
from summarizing_context.log.entries import encode_facts, make_entry
from summarizing_context.messages.estimate import ESTIMATE, estimate_text
from summarizing_context.messages.validation import encode_message
from summarizing_context.stores.base import StoredEntry

VOCABULARY = 30_000  # words
AT_ONCE = 250  # messages that are appended together
QUERIES = 60  # of each kind, in each scope
WARMING = 5  # more, before
SCOPES: tuple[Literal["session", "project", "all"], ...] = ("session", "project", "all")
OTHERS = 9  # sessions that share half of the messages
LONG = 50  # messages, of which one is as long as a file


class Writing:
    """Texts whose words are as frequent as in real ones."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(0)  # the same words for all
        self.words = [self._word(number) for number in range(VOCABULARY)]
        self._weights = list(itertools.accumulate(1 / (rank + 2) for rank in range(VOCABULARY)))
        self._chance.seed(seed)

    def text(self, words: int) -> str:
        return " ".join(self._chance.choices(self.words, cum_weights=self._weights, k=words))

    def queries(self) -> dict[str, str]:
        """A query of each kind."""
        rare = self._chance.choice(self.words[200:])
        path = f"src/module_{self._chance.randrange(100_000)}.py"
        return {
            "common": self.text(2),
            "rare": rare,
            "mixed": f"{self.text(self._chance.randint(0, 4))} {rare} {path if self._chance.random() < 0.3 else ''}",
            "many": " ".join([*self._chance.choices(self.words[200:], k=12), self.text(12)]),
            "quote": f'"{self.text(20)}. {self.text(10)}: {path}"',
        }

    def _word(self, number: int) -> str:
        sounds = (self._chance.choice("bcdfghjklmnprstvwz") + self._chance.choice("aeiou") for _ in range(3))
        return "".join(sounds) + (f"_{number}" if number % 7 == 0 else "")


def entries(count: int, seed: int = 1) -> Iterator[StoredEntry]:
    writing = Writing(seed)
    for at in range(count):
        role = "user" if at % 2 == 0 else "assistant"
        message = {"role": role, "content": f"{writing.text(70 if at % LONG else 2_000)} src/module_{at}.py"}
        entry = make_entry(message, estimate_text, ESTIMATE)
        yield StoredEntry(encode_message(message), encode_facts(entry.facts, ESTIMATE))


async def append(path: Path, log: list[StoredEntry]) -> float:
    """Seconds to append a log, in parts; the index is not waited for."""
    store = await open_store(path)
    others = [f"other{number}" for number in range(OTHERS)]
    for session in ("bench", *others):
        await store.claim(session, project="bench")
    began = time.perf_counter()
    for number, start in enumerate(range(0, len(log), AT_ONCE)):
        session = "bench" if number % 2 else others[number // 2 % OTHERS]
        await store.append(session, log[start : start + AT_ONCE], lambda: None)
    seconds = time.perf_counter() - began
    await store.close()
    return seconds


async def back_fill(path: Path, count: int) -> dict[str, float]:
    """Seconds to open the file as an older version left it, and to index all of it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update branches set indexed = 0")
        connection.execute("insert into search (search) values ('delete-all')")
        connection.commit()
    began = time.perf_counter()
    store = await open_store(path)
    opened = time.perf_counter() - began
    with Progress(transient=True) as progress:
        bar = progress.add_task("indexing", total=count)
        while indexed := await store.index.catch_up():
            progress.advance(bar, indexed)
    seconds = time.perf_counter() - began
    await store.close()
    return {"open_ms": opened * 1e3, "back_fill_s": seconds, "back_fill_us_per_message": seconds / count * 1e6}


async def search(path: Path) -> dict[str, float]:
    writing = Writing(2)
    times: dict[str, list[float]] = defaultdict(list)
    worked: list[float] = []
    found = 0
    settings = Settings(store=path, session_id="bench", project="bench", token_counter="estimate")
    async with open_context(settings) as context:
        for warm, scope in itertools.product([False] * WARMING + [True] * QUERIES, SCOPES):
            for kind, query in writing.queries().items():
                began, at_work = time.perf_counter(), time.process_time()
                found += bool(await context.search(query, scope=scope))
                if warm:
                    times[kind].append((time.perf_counter() - began) * 1e3)
                    times[f"in_{scope}"].append(times[kind][-1])
                    worked.append((time.process_time() - at_work) * 1e3)
    every = [took for name, some in times.items() if not name.startswith("in_") for took in some]
    return {
        "search_ms_p50": statistics.median(every),
        "search_ms_p95": at_95(every),
        "search_ms_max": max(every),
        "search_cpu_ms_p95": at_95(worked),  # what a machine with nothing else to do would need
        **{f"search_ms_p95_{name}": at_95(some) for name, some in times.items()},
        "queries_with_hits": found / (5 * len(SCOPES) * (WARMING + QUERIES)),
    }


def at_95(figures: list[float]) -> float:
    return sorted(figures)[int(0.95 * len(figures))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--json", type=Path, default=None, help="write the figures here as well")
    asked = parser.parse_args()
    log = list(entries(asked.messages))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        figures = {"append_us_per_message": asyncio.run(append(path, log)) / len(log) * 1e6}
        before = path.stat().st_size
        figures |= asyncio.run(back_fill(path, len(log)))
        figures["index_share_of_file"] = 1 - before / path.stat().st_size
        figures |= asyncio.run(search(path))
    table = Table("figure", "value", title=f"searching {asked.messages:,} messages")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.3f}")
    Console().print(table)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
