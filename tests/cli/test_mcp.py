"""`mcp` as it is started: what is wrong is told before a client waits. tests/hosts has the server at work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli.commands import Runner, fill_store, says

from summarizing_context.cli.options import read_address


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("8379", ("127.0.0.1", 8379)),
        (":8379", ("127.0.0.1", 8379)),
        ("localhost:0", ("127.0.0.1", 0)),
        ("[::1]:8379", ("::1", 8379)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
    ],
)
def test_a_port_alone_is_one_of_the_loopback(written: str, address: tuple[str, int]):
    assert read_address(written) == address


@pytest.mark.parametrize(
    ("written", "reason"), [("example.org:80", "not an IP address"), ("127.0.0.1:x", "not a port")]
)
def test_a_wrong_address_is_told(run: Runner, tmp_path: Path, written: str, reason: str):
    done = run("mcp", "--store", tmp_path / "run.db", "--http", written)
    assert (done.status, done.out) == (2, "")
    assert reason in done.err


def test_a_store_that_is_not_there_is_told(run: Runner, tmp_path: Path):
    done = run("mcp", "--store", tmp_path / "none.db")
    assert done.status == 4
    assert "there is no such file" in done.err


def test_a_missing_package_is_named(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.delitem(sys.modules, "summarizing_context.adapters.mcp", raising=False)
    done = run("mcp", "--store", fill_store(tmp_path / "run.db", "s1", [says("user", "Hello.")]))
    assert done.status == 4
    assert "pip install 'summarizing-context[mcp]'" in done.err
