"""What every test shares: the async back end, and the order of the tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# The same examples in every run, so that only a change turns the gate red; HYPOTHESIS_PROFILE=explore seeks new ones.
settings.register_profile("gate", derandomize=True, deadline=None)  # no example is judged by the clock
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The laws run without tracing, which would double their time, and first, for the longest of them are long."""
    laws = [item for item in items if "laws" in item.path.parts]
    for item in laws:
        item.add_marker("no_cover")
    others = [item for item in items if "laws" not in item.path.parts]
    items[:] = sorted(laws, key=lambda item: "random_operations" not in item.path.name) + others
