"""Run by tests in a process of its own: `store_child.py <what> <arguments>`; says on standard output what happened.

Not a test file.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from summarizing_context.errors import SummarizingContextError
from summarizing_context.stores.base import StoredSummary, SummaryKey
from summarizing_context.stores.sqlite.store import SqliteStore

NOBODY = 65534


def say(text: str) -> None:
    print(text, flush=True)


def next_line() -> str:
    """Wait for the parent; no line when it has gone."""
    return sys.stdin.readline().strip()


async def unprivileged(what: str, path: str) -> None:
    """Open the store as a user who is not root."""
    import encodings.idna  # noqa: F401  # nothing may be left to import when the rights are gone

    if os.getuid() == 0:
        os.setuid(NOBODY)
    store = SqliteStore(path, read_only=what == "read")
    try:
        await store.open()
        session = await store.load("s")
        say(" ".join(entry.message.decode() for entry in session.entries) if session else "no session")
    except SummarizingContextError as error:
        say(f"{type(error).__name__}: {error}")
    finally:
        await store.close()


async def neighbour(backend: str, path: str, session_id: str) -> None:
    """Hold a session, keep a summary, and then look for one as often as the parent asks."""
    from tests.contract.store_builders import BACKENDS

    store = BACKENDS[backend](path)
    await store.open()
    await store.claim(session_id)
    await store.append(session_id, [], lambda: None)
    await store.save_summary(session_id, SummaryKey("range-child", "recipe"), StoredSummary("by the child", 0, 7, 3))
    say("ready")
    while name := next_line():
        asked = SummaryKey(f"range-{name}", "recipe")
        found = await store.find_summaries(session_id, [asked])
        say(found[asked].text if found else "none")
    await store.close()
    say("closed")


if __name__ == "__main__":
    commands = {"unprivileged": unprivileged, "neighbour": neighbour}
    asyncio.run(commands[sys.argv[1]](*sys.argv[2:]))
