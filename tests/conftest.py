"""What every test shares: the async back end, and the order of the tests."""

from __future__ import annotations

import pytest


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
