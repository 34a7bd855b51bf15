"""What the tests of the store protocol share."""

from __future__ import annotations

from pathlib import Path

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
