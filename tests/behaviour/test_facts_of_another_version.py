"""What is derived from messages stands beside them in the file; what cannot be used is derived and stored once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from summarizing_context import Settings, open_context

SAID = [{"role": "user", "content": "Never touch main."}, {"role": "assistant", "content": "I leave main alone."}]


def facts(path: Path) -> list[bytes]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("select facts from entries order by branch, position")]


async def test_an_opening_that_may_write_stores_what_it_derives_from_messages(tmp_path: Path):
    path = tmp_path / "run.db"
    settings = Settings(store=path, session_id="s")
    async with open_context(settings) as context:
        for message in SAID:
            await context.add_message(message)
        view = await context.get_messages_for_request()
    first = facts(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("update entries set facts = x''")
    async with open_context(settings, read_only=True) as context:
        assert await context.get_messages_for_request() == view
    assert facts(path) == [b"", b""]
    async with open_context(settings) as context:
        assert await context.get_messages_for_request() == view
    assert facts(path) == first
