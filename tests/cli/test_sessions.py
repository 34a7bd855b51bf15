"""`sessions`: list, delete, purge."""

import io
from pathlib import Path

import pytest
from cli.commands import Runner, fill_store, says

LOG = [says("user", "the password is tulip-seven"), says("assistant", "noted")]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fill_store(tmp_path / "run.db", "s1", LOG)
    return fill_store(tmp_path / "run.db", "s2", LOG[:1], project="harbour")


def test_sessions_are_listed(run: Runner, store, monkeypatch):
    ran = run("sessions", "list", "--store", store)
    assert ran.status == 0
    assert all(word in ran.out for word in ("s1", "s2", "harbour", "messages", "summaries"))
    found = run("sessions", "list", "--store", store, "--json", "-").document["sessions"]
    assert {info["session_id"]: info["messages"] for info in found} == {"s1": 2, "s2": 1}
    monkeypatch.setenv("SUMMARIZING_CONTEXT_STORE", str(store))
    assert "s1" in run("sessions", "list").out


def test_deleting_asks_unless_told_not_to(run: Runner, store, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    refused = run("sessions", "delete", "s1", "--store", store)
    assert (refused.status, refused.out.strip()) == (2, "")
    assert "nothing was removed" in refused.err
    assert run("sessions", "delete", "s1", "--store", store, "--yes").status == 0
    assert "s1" not in run("sessions", "list", "--store", store).out
    monkeypatch.setattr("sys.stdin", io.StringIO(""))  # no answer
    assert "give --yes" in run("sessions", "delete", "s2", "--store", store).err
    assert "give --yes" in run("sessions", "purge", "--store", store).err
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    purged = run("sessions", "purge", "--store", store, "--yes")
    assert (purged.status, "purging" in purged.err, "0:00:0" in purged.err) == (0, True, True)
