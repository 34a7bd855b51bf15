"""`search`, and `checkpoint` with its kin."""

from pathlib import Path

import pytest
from cli.commands import Runner, fill_store, says

LOG = [says("user", "Fix the billing tables"), says("assistant", "noted: \x1b[31mred"), says("user", "and the parser")]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fill_store(tmp_path / "run.db", "s1", LOG)
    return fill_store(tmp_path / "run.db", "s2", [says("user", "billing again")], project="harbour")


def found(run: Runner, store: Path, *options: str) -> list[tuple[str, int]]:
    hits = run("search", *options, "--store", store, "--json", "-").document["hits"]
    return sorted((hit["session_id"], hit["start"]) for hit in hits)


def test_words_are_found_in_all_sessions_in_one_or_in_a_project(run: Runner, store):
    fill_store(store, "s4", [says("user", "billing once more")], project="harbour")
    assert found(run, store, "s1", "billing") == [("s1", 0)]
    assert found(run, store, "s2", "billing", "--project") == [("s2", 0), ("s4", 0)]
    assert found(run, store, "s1", "billing", "--all") == [("s1", 0), ("s2", 0), ("s4", 0)]
    assert found(run, store, "s1", "zebra", "--all") == []
    assert "s4" in run("search", "s1", "once", "--all", "--store", store).out


def test_a_session_goes_back_to_a_checkpoint_and_forward_again(run: Runner, store):
    made = run("checkpoint", "s1", "start", "--store", store, "--json", "-").document
    assert made["name"] == "start"
    fill_store(store, "s1", [says("assistant", "more")])
    assert found(run, store, "s1", "more") == [("s1", 3)]
    before = run("restore", "s1", "start", "--store", store, "--json", "-").document["before"]
    assert found(run, store, "s1", "more") == []
    assert "Restored" in run("restore", "s1", before, "--store", store).out
    assert found(run, store, "s1", "more") == [("s1", 3)]
    listed = run("checkpoints", "s1", "--store", store, "--json", "-").document["checkpoints"]
    assert [one["name"] for one in listed][:2] == ["start", f"before restoring {made['id']}"]
    assert "start" in run("checkpoints", "s1", "--store", store).out

    # another session begins at the checkpoint
    assert run("fork", "s1", "start", "s3", "--store", store).status == 0
    assert found(run, store, "s3", "parser") == [("s3", 2)]
    assert {("s1", 2), ("s3", 2)} <= set(found(run, store, "s1", "parser", "--all"))
    taken = run("fork", "s1", "start", "s3", "--store", store)
    assert (taken.status, "'s3' already" in taken.err) == (2, True)
    assert run("fork", "s1", "start", "no name!", "--store", store).status == 2
