"""`mcp` without its package. `tests/hosts` has the server at work."""

import sys
from pathlib import Path

import pytest
from cli.commands import Runner, fill_store, says


def test_a_missing_package_is_named(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.delitem(sys.modules, "summarizing_context.adapters.mcp", raising=False)
    done = run("mcp", "--store", fill_store(tmp_path / "run.db", "s1", [says("user", "Hello.")]))
    assert done.status == 4
    assert "pip install 'summarizing-context[mcp]'" in done.err
