"""What 1,000 checkpoints cost that are made while a session grows to 10,000 messages, one every ten.

Claim checked: under 1 MB. Most of it is how views begin, and what costs is how often that changes: a small budget and a
long history cost most. Texts are drawn, or taken from transcripts, one after the other. Prints a table.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from evals.performance.search import Writing
from summarizing_context import BudgetError, Settings, open_context
from summarizing_context.transcripts import find_transcripts, read_session

MESSAGES, EVERY, BETWEEN_VIEWS = 10_000, 10, 5
_COLUMNS = ("budget", "messages", "history tokens", "activations", "checkpoints", "their megabytes")


class Measured(NamedTuple):
    """One session with its checkpoints."""

    budget: int
    messages: int
    history_tokens: int
    activations: int
    checkpoints: int
    megabytes: float  # pages of the tables that hold them


def drawn() -> Iterator[dict[str, Any]]:
    writing = Writing(1)
    while True:
        yield {"role": "user", "content": f"{writing.text(20)} Never touch {writing.queries()['rare']}."}
        for _ in range(9):
            yield {"role": "assistant", "content": writing.text(80)}


def recorded(paths: list[Path]) -> Iterator[dict[str, Any]]:
    for path in find_transcripts(paths):
        yield from read_session(path).messages


async def measure(path: Path, messages: Iterator[dict[str, Any]], budget: int) -> Measured:
    settings = Settings(store=path, max_tokens=budget, token_counter="estimate", checkpoint_interval_messages=EVERY)
    async with open_context(settings) as context:
        for at, message in enumerate(islice(messages, MESSAGES)):
            await context.add_message(message)
            if at % BETWEEN_VIEWS == 0:
                await context.get_messages_for_request()
        figures, made = context.statistics(), await context.list_checkpoints()
    return Measured(
        budget, figures.messages, figures.history_tokens, figures.activations, len(made), _size(path) / 1_000_000
    )


def _size(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        query = "select coalesce(sum(pgsize), 0) from dbstat where name like 'checkpoint%'"
        return int(connection.execute(query).fetchone()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("paths", nargs="*", type=Path, help="transcripts, or folders of them; drawn texts if not given")
    given = parser.parse_args().paths
    table = Table(*_COLUMNS, title="Checkpoints of a growing session")
    with tempfile.TemporaryDirectory() as folder:
        for budget in (8_000, 16_000, 64_000):
            messages = recorded(given) if given else drawn()
            try:
                row = asyncio.run(measure(Path(folder) / f"{budget}.db", messages, budget))
            except BudgetError as error:  # of the recorded ones some begin with more than that
                Console(stderr=True).print(f"{budget:,}: {error}")
                continue
            table.add_row(*(f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" for value in row))
    Console().print(table)


if __name__ == "__main__":
    main()
