"""A home of the tests' own: the proxy keeps its token there."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("SUMMARIZING_CONTEXT_PROXY_TOKEN", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home
