"""What the tests of the pool share."""

from collections.abc import Iterator

import pytest

from tests import postgres_server


@pytest.fixture(autouse=True)
def _no_connection_is_left() -> Iterator[None]:
    yield
    postgres_server.stop_looking()
