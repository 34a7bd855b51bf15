"""What the shared parts ask of a database: named queries on a connection, its schema, and access to its thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Protocol, TypeVar

from summarizing_context.errors import StoreCorruptError, StoreVersionError

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

    def index_texts(self, texts: Iterable[tuple[int, str]]) -> object:
        """Index the words of texts by the numbers that they have in the index."""

    def may_pass(self, error: Exception) -> bool:
        """Whether the same work may succeed if it is tried again at once."""


Work = Callable[[Any], Result]


class Access(Protocol):
    """What the parts of one store share: its thread, and the checks before a write."""

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
_SCHEMA = re.compile(r"\bstore\.(?=[a-z])")


_SCRIPT = "0001_schema.sql"

VERSION = 1  # of the schema; one version of the package reads and writes one of the schema


def read_queries(package: str) -> dict[str, str]:
    """Queries by name: those that all databases share, and those of the files in the folder `sql` of a package."""
    found: dict[str, str] = {}
    for folder in ("summarizing_context.stores.relational", package):
        for name, text in _sql_files(folder).items():
            if name != _SCRIPT:
                found |= split_queries(text)
    return found


def read_schema(package: str) -> str:
    """The statements that make a new store."""
    return _sql_files(package)[_SCRIPT]


def in_schema(text: str, prefix: str) -> str:
    """A query or script with the name of the schema, and its full stop, in the place of `store.`."""
    return _SCHEMA.sub(prefix, text)


def split_queries(text: str) -> dict[str, str]:
    """Queries by name: each begins with a line `-- name: purpose` and ends where the next begins."""
    parts = _NAME.split(text)
    return {name: body.strip().removesuffix(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _sql_files(package: str) -> dict[str, str]:
    """The texts of the folder `sql` of a package, in the order of their filenames."""
    found = (file for file in (files(package) / "sql").iterdir() if file.name.endswith(".sql"))
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(found, key=lambda file: file.name)}


def check_version(version: int, name: str, instead: str) -> None:
    """Raise `StoreVersionError` for a store of another schema than that of this version of the package."""
    if version != VERSION:
        raise StoreVersionError(
            f"{name}: its schema version is {version} but this version of summarizing-context reads and writes "
            f"{VERSION} only; use the version of summarizing-context that wrote it, or {instead} was left as it is"
        )


def damaged(name: str) -> StoreCorruptError:
    """The store is ours, but what it holds does not fit together."""
    return StoreCorruptError(
        f"{name}: the store is damaged; it was left as it is: restore it from a backup, or name another one"
    )
