"""What the tests of stores that hosts share have in common."""

from pathlib import Path

import pytest

from tests import postgres_server


@pytest.fixture
def address(postgres: str, tmp_path: Path) -> str:
    """A store that is not there yet."""
    return postgres_server.address_for(tmp_path)
