"""Run by a test in a process of its own: `store_child.py <backend> <path> <session>` holds a session for a while.

Not a test file.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.contract.store_builders import BACKENDS


async def hold(backend: str, path: str, session_id: str) -> None:
    """Claim the session, say so, and close the store once the parent has said something, or is gone."""
    store = BACKENDS[backend](path)
    await store.open()
    await store.claim(session_id)
    print("ready", flush=True)
    sys.stdin.readline()
    await store.close()


if __name__ == "__main__":
    asyncio.run(hold(*sys.argv[1:]))
