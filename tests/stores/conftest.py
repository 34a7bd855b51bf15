"""What the tests of stores that hosts share, and of migrations to them, have in common."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests import postgres_server
from tests.stores.filled import fill


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all that a store holds; tests copy it."""
    path = tmp_path_factory.mktemp("made") / "run.db"
    anyio.run(fill, path)
    return path


@pytest.fixture
def address(postgres: str, tmp_path: Path) -> str:
    """A store that is not there yet."""
    return postgres_server.address_for(tmp_path)
