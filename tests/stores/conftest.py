"""What the tests of migrations share."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.stores.filled import fill


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all that a store holds; tests copy it."""
    path = tmp_path_factory.mktemp("made") / "run.db"
    anyio.run(fill, path)
    return path
