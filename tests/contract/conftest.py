"""What the tests of the store protocol share."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract import store_builders


@pytest.fixture(params=sorted(store_builders.BACKENDS))
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The backend that is tested, by its name."""
    if request.param == "postgres":
        request.getfixturevalue("postgres")
    monkeypatch.setattr(store_builders, "chosen", request.param)
    return str(request.param)


@pytest.fixture(params=["file", "memory"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store is that may be anywhere."""
    return ":memory:" if request.param == "memory" else str(tmp_path / "run.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that is not there yet."""
    return tmp_path / "run.db"


@pytest.fixture
async def store(where: str, backend: str) -> AsyncIterator[Any]:
    """An open store that has claimed the sessions `s` and `t`."""
    async with store_builders.opened(where, "s", "t") as one:
        yield one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a server both places of `where` are a schema of its own: there a test runs once."""
    for item in list(items):
        named = getattr(item, "callspec", None)
        if named and (named.params.get("backend"), named.params.get("where")) == ("postgres", "memory"):
            items.remove(item)
