"""Sessions that a host keeps open at once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from summarizing_context import Settings
from summarizing_context.adapters.open_sessions import Sessions
from summarizing_context.assembly import Options
from summarizing_context.errors import StoreError

pytestmark = pytest.mark.anyio


def stores() -> set[threading.Thread]:
    """The threads of open stores."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("store ")}


def remove(path: Path) -> None:
    for file in path.parent.glob("run.db*"):
        file.unlink()


async def say(sessions: Sessions, name: str) -> int:
    async with sessions.use(name) as context:
        await context.add_message({"role": "user", "content": f"words of {name}"})
        return len(context)


async def test_sessions_of_a_file_share_one_connection_also_where_the_oldest_are_closed(tmp_path: Path):
    sessions = Sessions(Settings(store=tmp_path / "run.db"), Options(), most=4)
    names = [f"s{number}" for number in range(12)]
    others = stores()  # that tests before have left open
    assert set(await asyncio.gather(*(say(sessions, name) for name in names))) == {1}
    assert len(stores() - others) == 1
    assert set(await asyncio.gather(*(say(sessions, name) for name in names))) == {2}
    await sessions.close()
    assert stores() <= others
    assert await say(sessions, "s0") == 3  # opened again
    await sessions.close()


async def test_a_file_that_was_removed_is_made_again_for_sessions_opened_from_then_on(tmp_path: Path):
    path = tmp_path / "run.db"
    sessions = Sessions(Settings(store=path), Options(), most=4)
    await say(sessions, "before")
    remove(path)
    with pytest.raises(StoreError):
        await say(sessions, "before")
    assert await say(sessions, "after") == 1
    await sessions.close()
