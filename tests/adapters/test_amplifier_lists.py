"""A storage path that holds the JSON list of the host's own documents: taken over once, and left as it is."""

import json
import sqlite3
import threading
from contextlib import closing

import pytest

from summarizing_context import MessageError, StoreCorruptError
from summarizing_context.stores.sqlite.store import APPLICATION_ID
from tests.adapters.host import mounted, unstamped, until

ROWS = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes?"}]
MORE = {"role": "user", "content": "Go on."}


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
        async with mounted({"storage_path": str(path), "session_id": "s"}) as manager:
            assert len(await manager.get_messages()) == (0 if text == "[]" else 2) + turn
            await manager.add_message(MORE)
            assert manager.statistics().store.endswith("context.json.db")
    assert path.read_text(encoding="utf-8") == text
    async with mounted({"storage_path": str(path), "session_id": "another"}) as other:
        assert await other.get_messages() == [], "the list belongs to the session that took it over"
    await until(lambda: set(threading.enumerate()) <= threads)


@pytest.mark.parametrize("how", ["empty", "marked", "without a message"])
async def test_a_crash_before_the_messages_were_kept_takes_them_over_again(tmp_path, how):
    path, store = tmp_path / "context.json", tmp_path / "context.json.db"
    path.write_text(json.dumps(ROWS))
    if how == "without a message":
        async with mounted({"storage_path": str(store)}) as empty:
            assert await empty.get_messages() == []
    else:
        store.touch()
    if how == "marked":
        with closing(sqlite3.connect(store)) as connection:
            connection.execute(f"pragma application_id = {APPLICATION_ID:d}")
    async with mounted({"storage_path": str(path)}) as manager:
        assert unstamped(await manager.get_messages()) == ROWS
        assert manager.statistics().store == str(store)


async def test_a_list_whose_folder_may_not_be_written_is_read_into_memory(tmp_path, monkeypatch):
    path = tmp_path / "context.json"
    path.write_text(json.dumps(ROWS))
    monkeypatch.setattr("summarizing_context.stores.sqlite.store.os.access", lambda *_: False)  # for any user
    async with mounted({"storage_path": str(path)}) as manager:
        assert unstamped(await manager.get_messages()) == ROWS
        assert "in memory only" in manager.statistics().store


@pytest.mark.parametrize(
    ("text", "error"), [('[{"role": "user"', StoreCorruptError), ("[5]", MessageError), ('{"a": 1}', StoreCorruptError)]
)
async def test_what_is_no_list_of_messages_is_refused_and_left(tmp_path, text, error):
    path = tmp_path / "context.json"
    path.write_text(text)
    async with mounted({"storage_path": str(path)}) as manager:
        with pytest.raises(error):
            await manager.get_messages()
    assert path.read_text() == text
