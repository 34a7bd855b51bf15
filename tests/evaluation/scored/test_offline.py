"""The evals run without a network: what tries to connect is told."""

from __future__ import annotations

from tests.house.checkout import ROOT, run_python


def test_a_connection_is_refused_where_evals_run():
    script = "import socket; socket.create_connection(('127.0.0.1', 9))"
    done = run_python(["-c", script], env={"PYTHONPATH": str(ROOT / "evals" / "offline")})
    assert "without a network" in done.stdout
