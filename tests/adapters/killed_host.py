"""A process that runs a host's session in a file, saves what hosts save of it, and is killed: run by a test.

`python -m tests.adapters.killed_host FOLDER` leaves `run.db`, `saved.json` (the transcript after the second turn),
`log.json` and `view.json` (all there was at the end) in the folder.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from amplifier_core import ChatResponse, TextBlock

from tests.adapters.host import Model, Row, session_of

SYSTEM: Row = {"role": "system", "content": "Be kind to people and careful with files."}
HOOK: Row = {"role": "system", "content": "The branch is main.", "metadata": {"source": "hook"}}


async def short_answer(request: Any) -> ChatResponse:
    """A summary, as a provider would make one; it finds no rules."""
    if "### user [1]" in str(request.messages[-1].content):
        return ChatResponse(content=[TextBlock(text="none")])
    return ChatResponse(content=[TextBlock(text="- Files were read, and their lines were listed.")])


def config(folder: Path) -> Row:
    """The options of the context: small segments, summaries through the host's provider."""
    small = {"segment_min": 200, "segment_target": 600, "segment_max": 1200, "summary_max_tokens": 60}
    return {"storage_path": str(folder / "run.db"), "summarizer": "host", "model": "m", "idle_after": "never", **small}


def model() -> Model:
    """The provider of both processes."""
    return Model(window=6_000, summarize=short_answer)


def saved_by_host(log: list[Row]) -> list[Row]:
    """What hosts save of a log."""
    return [row for row in log if row["role"] not in ("system", "developer")]


async def run(folder: Path) -> None:
    """Four turns; the host saves after two of them, and dies in the fifth, with a message said."""
    async with session_of(config(folder), model=model()) as session:
        context = session.coordinator.get("context")
        await context.add_message(SYSTEM)
        for turn in range(4):
            await session.execute(f"Turn {turn}: read the next files.")
            if turn == 1:
                await context.add_message(HOOK)
                write(folder / "saved.json", saved_by_host(await context.get_messages()))
        await context.add_message({"role": "user", "content": "Turn 4: what did you read?"})
        write(folder / "view.json", await context.get_messages_for_request(provider=model()))
        write(folder / "log.json", await context.get_messages())
        await context.wait_idle()
        os.kill(os.getpid(), signal.SIGKILL)


def write(path: Path, rows: list[Row]) -> None:
    path.write_text(json.dumps(rows))


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
