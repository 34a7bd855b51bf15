"""A deleted session leaves the file while others go on writing to it."""

import asyncio
import random
import sys
from pathlib import Path

from summarizing_context import Settings, open_context
from tests.laws.builders import user

PATIENCE = 300  # seconds, for what takes a few


def settings(store: Path, session: str) -> Settings:
    return Settings(store=str(store), session_id=session, token_counter="estimate")


def long_log(mark: str, messages: int, words: int) -> list[dict[str, str]]:
    chosen = random.Random(7)
    return [
        {
            "role": "user" if number % 2 == 0 else "assistant",
            "content": f"{mark} {number} " + " ".join(f"{mark}{chosen.randrange(100_000)}" for _ in range(words)),
        }
        for number in range(messages)
    ]


async def sessions(command: str, *arguments: object) -> asyncio.subprocess.Process:
    """The command `sessions`, begun in another process."""
    words = ["sessions", command, *map(str, arguments), "--yes"]
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "summarizing_context", *words)


async def done(child: asyncio.subprocess.Process) -> int:
    try:
        return await asyncio.wait_for(child.wait(), PATIENCE)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_a_deletion_that_is_killed_leaves_a_file_that_purge_puts_in_order(tmp_path: Path):
    store = tmp_path / "run.db"
    async with open_context(settings(store, "long")) as long:
        await long.set_messages(long_log("secret", 800, 20))
    deletion = await sessions("delete", "long", "--store", store)
    async with open_context(settings(store, "other")) as other:
        while deletion.returncode is None and await other.search("secret", scope="all"):
            await other.add_message(user("meanwhile"))
        if deletion.returncode is None:
            deletion.kill()
        await deletion.wait()
    assert await done(await sessions("purge", "--store", store)) == 0
    assert b"secret" not in bytes_of(tmp_path)
    async with open_context(settings(store, "long")) as again:
        assert await again.get_messages() == []
