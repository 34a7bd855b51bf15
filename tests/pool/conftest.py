"""What the tests of the pool share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres_server


@pytest.fixture
def address(postgres: str, tmp_path: Path) -> Iterator[str]:
    """A store that is not there yet."""
    yield postgres_server.address_for(tmp_path)
    postgres_server.stop_looking()
