"""The stores that the laws hold on."""

import pytest

from . import places


@pytest.fixture(autouse=True, scope="session")
def _server(request: pytest.FixtureRequest) -> None:
    if places.STORE == "postgres":
        request.getfixturevalue("postgres")


@pytest.fixture(params=places.STORES)
def each_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law holds on each store."""
    if places.STORE not in ("sqlite", request.param):
        pytest.skip("LAWS_STORE asks for another")
    if request.param == "postgres":
        request.getfixturevalue("postgres")
    monkeypatch.setattr(places, "chosen", request.param)
