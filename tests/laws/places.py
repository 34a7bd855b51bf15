"""Where the laws keep their sessions: in SQLite, or each place in a PostgreSQL schema of its own (LAWS_STORE=postgres).

Laws that open a session again ask for the fixture `each_store`: they hold on both in every run. LAWS_STORE=postgres
takes all others there too, but for those that keep nothing.
"""

import os
from pathlib import Path

from tests import postgres_server

STORE = os.environ.get("LAWS_STORE", "sqlite")
STORES = ("sqlite", "postgres")

chosen = STORE  # the fixture `each_store` sets it


def kept_at(path: str | Path = ":memory:") -> str:
    """The store of a path, in the store that is tested."""
    return postgres_server.address_for(path) if chosen == "postgres" else str(path)


def after_kill(path: str | Path) -> None:
    """A process that had a session there was killed: others need not wait for the end of its lease."""
    if chosen == "postgres":
        postgres_server.bury(kept_at(path))


def remove(path: Path) -> None:
    """Nobody will open this place again."""
    if chosen == "postgres":
        postgres_server.drop(kept_at(path))
    else:
        path.unlink(missing_ok=True)
