"""What the tests of the store protocol share."""

from __future__ import annotations

import pytest

from tests.contract import store_builders


@pytest.fixture(params=sorted(store_builders.BACKENDS))
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The backend that is tested, by its name."""
    monkeypatch.setattr(store_builders, "chosen", request.param)
    return str(request.param)
