"""A storage path that holds the JSON list of the host's own documents: taken over once, and left as it is."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import MessageError, StoreCorruptError, WrongEventLoopError
from summarizing_context.adapters.amplifier import SummarizingContextManager
from summarizing_context.stores.sqlite.store import APPLICATION_ID
from tests.adapters.host import unstamped, until

ROWS = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes?"}]
MORE = {"role": "user", "content": "Go on."}


def manager_of(path: Path, **options: Any) -> SummarizingContextManager:
    return SummarizingContextManager(storage_path=str(path), **options)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ROWS),
        "\ufeff\n " + json.dumps(ROWS, indent=2),
        json.dumps([*ROWS[:1], {**ROWS[1], "cost": float("nan")}]),
        "[]",
    ],
)
async def test_a_list_is_taken_over_once_and_kept(tmp_path, text):
    path = tmp_path / "context.json"
    path.write_text(text, encoding="utf-8")
    threads = set(threading.enumerate())
    for turn in range(3):
        manager = manager_of(path, session_id="s")
        assert len(await manager.get_messages()) == (0 if text == "[]" else 2) + turn
        await manager.add_message(MORE)
        figures = manager.statistics()
        assert figures.store.endswith("context.json.db")
        await manager.close()
    assert path.read_text(encoding="utf-8") == text
    other = manager_of(path, session_id="another")
    assert await other.get_messages() == [], "the list belongs to the session that took it over"
    await other.close()
    await until(lambda: set(threading.enumerate()) <= threads)


def begin(store: str, is_marked: bool) -> None:
    """A store as a crash leaves it: its file, or its file and whose it is."""
    Path(store).touch()
    if is_marked:
        with closing(sqlite3.connect(store)) as connection:
            connection.execute(f"pragma application_id = {APPLICATION_ID:d}")


@pytest.mark.parametrize("how", ["empty", "marked", "without a message"])
async def test_a_crash_before_the_messages_were_kept_takes_them_over_again(tmp_path, how):
    path = tmp_path / "context.json"
    path.write_text(json.dumps(ROWS))
    if how == "without a message":
        empty = manager_of(tmp_path / "context.json.db")
        assert await empty.get_messages() == []
        await empty.close()
    else:
        begin(f"{path}.db", how == "marked")
    manager = manager_of(path)
    assert unstamped(await manager.get_messages()) == ROWS
    figures = manager.statistics()
    assert figures.store == f"{path}.db"
    await manager.close()


async def test_a_list_whose_folder_may_not_be_written_is_read_into_memory(tmp_path, monkeypatch):
    path = tmp_path / "context.json"
    path.write_text(json.dumps(ROWS))
    monkeypatch.setattr("summarizing_context.stores.sqlite.store.os.access", lambda *_: False)  # for any user
    manager = manager_of(path)
    assert unstamped(await manager.get_messages()) == ROWS
    figures = manager.statistics()
    assert "in memory only" in figures.store
    await manager.close()


@pytest.mark.parametrize(
    ("text", "error"), [('[{"role": "user"', StoreCorruptError), ("[5]", MessageError), ('{"a": 1}', StoreCorruptError)]
)
async def test_what_is_no_list_of_messages_is_refused_and_left(tmp_path, text, error):
    path = tmp_path / "context.json"
    path.write_text(text)
    manager = manager_of(path)
    with pytest.raises(error):
        await manager.get_messages()
    await manager.close()
    assert path.read_text() == text


async def test_a_close_in_another_event_loop_is_refused_and_the_session_can_still_be_closed(tmp_path):
    manager = manager_of(tmp_path / "context.db")
    await manager.add_message({"role": "user", "content": "Begin."})
    with pytest.raises(WrongEventLoopError):
        await asyncio.to_thread(lambda: asyncio.run(manager.close()))
    assert len(await manager.get_messages()) == 1
    await manager.close()
    again = manager_of(tmp_path / "context.db")
    assert len(await again.get_messages()) == 1
    await again.close()
