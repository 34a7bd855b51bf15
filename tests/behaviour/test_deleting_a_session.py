"""A deleted session leaves the file while others go on writing to it."""

import random
import sys
from pathlib import Path

import anyio

from summarizing_context import Settings, open_context
from tests.behaviour.contexts import said
from tests.laws.builders import user


def settings(store: Path, session: str) -> Settings:
    return Settings(store=str(store), session_id=session, token_counter="estimate")


def sessions(command: str, *arguments: object) -> list[str]:
    """The command `sessions`, for another process."""
    return [sys.executable, "-m", "summarizing_context", "sessions", command, *map(str, arguments), "--yes"]


def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_a_deletion_that_is_killed_leaves_a_file_that_purge_puts_in_order(tmp_path: Path):
    store, draw = tmp_path / "run.db", random.Random(7)
    words = (" ".join(f"secret{draw.randrange(100_000)}" for _ in range(20)) for _ in range(800))
    async with open_context(settings(store, "long")) as long:
        await long.set_messages([said(at, f"secret {text}") for at, text in enumerate(words)])
    with anyio.fail_after(300):
        async with (
            await anyio.open_process(sessions("delete", "long", "--store", store)) as deletion,
            open_context(settings(store, "other")) as other,
        ):
            while deletion.returncode is None and await other.search("secret", scope="all"):
                await other.add_message(user("meanwhile"))
            if deletion.returncode is None:
                deletion.kill()
            await deletion.wait()
        assert (await anyio.run_process(sessions("purge", "--store", store))).returncode == 0
    assert b"secret" not in bytes_of(tmp_path)
    async with open_context(settings(store, "long")) as again:
        assert await again.get_messages() == []
