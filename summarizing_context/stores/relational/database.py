"""What the shared parts ask of a database: named queries on a connection, and access to its thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from summarizing_context.errors import StoreCorruptError

Values = Mapping[str, Any] | Sequence[Any]
Result = TypeVar("Result")


class Rows(Protocol):
    """What a query found."""

    def fetchone(self) -> Any: ...

    def fetchmany(self, size: int) -> list[Any]: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection with named queries. It begins and ends no transaction by itself."""

    def run(self, name: str, values: Values = ()) -> Rows:
        """Run a query."""

    def run_many(self, name: str, rows: Iterable[Values]) -> object:
        """Run a query once for each row of values."""

    def insert(self, name: str, values: Values) -> int:
        """Run a query that inserts one row; the number that the row got."""

    def begin_work(self) -> object:
        """Begin a transaction that writes."""

    def commit_work(self) -> object:
        """End it; what was written is durable."""

    def undo_work(self) -> object:
        """Undo the open transaction, if there is one."""

    def interrupt(self) -> object:
        """Cut the running query short. Any thread may call it."""

    def may_pass(self, error: Exception) -> bool:
        """Whether the same work may succeed if it is tried again at once."""


Work = Callable[[Any], Result]


class Access(Protocol):
    """What the parts of one store share: its thread, and who may write."""

    @property
    def name(self) -> str: ...

    @property
    def read_only(self) -> bool: ...

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` on one committed state."""

    async def write(
        self, session_id: str, work: Work[Result], *, committed: Callable[[], None] | None = None
    ) -> Result:
        """Run `work` for a session that this store has claimed; it is durable when this returns."""

    def submit(self, work: Work[Result]) -> asyncio.Future[Result]:
        """Queue `work` that belongs to no session; it is durable when the future is done."""

    def refuse_if_read_only(self, what: str) -> None:
        """Raise `StoreReadOnlyError` where nothing may be written."""


_NAME = re.compile(r"^-- ([a-z_]+): .*$", re.MULTILINE)


def split_queries(text: str) -> dict[str, str]:
    """Queries by name: each begins with a line `-- name: purpose` and ends where the next begins."""
    parts = _NAME.split(text)
    return {name: body.strip().removesuffix(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def damaged(name: str) -> StoreCorruptError:
    """The store is ours, but what it holds does not fit together."""
    return StoreCorruptError(
        f"{name}: the store is damaged; it was left as it is: restore it from a backup, or name another one"
    )
