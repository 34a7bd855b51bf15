"""`expand`, `recall`, `summarize`, `memory`, `budget` on a stored session, and completion."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cli.commands import Runner, fill_store, says

LOG = [says("user", "The walrus is called Ursula.\x1b[31m")] + [
    says("assistant", f"Step {n}. " * 60) for n in range(60)
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return fill_store(tmp_path / "run.db", "s1", LOG, max_tokens=4_000)


def test_messages_of_a_stored_session_are_expanded_page_by_page(run: Runner, store):
    page = run("expand", "s1", "0..60", "--store", store, "--json", "-").document
    assert (page["start"], page["text"].count("Ursula")) == (0, 1)
    onward = run("expand", "s1", "0..60", "--store", store, "--cursor", page["next_cursor"], "--json", "-").document
    assert onward["start"] > 0
    shown = run("expand", "s1", "0", "--store", store, "--detail", "line")
    assert shown.status == 0
    assert "[message 0: user]" in shown.out
    assert "\x1b" not in shown.out


def test_a_stored_session_is_asked_and_summarized(run: Runner, store):
    assert "Ursula" in run("recall", "s1", "walrus", "name", "--store", store, "--budget", "4k").out
    assert run("budget", "s1", "--store", store, "--budget", "4k", "--json", "-").document["max_tokens"] == 4_000
    assert "No memory" in run("memory", "s1", "walrus", "--store", store).out
    assert run("ledger", "s1", "--store", store, "--only", "zebra", "--json", "-").document == {"facts": []}
    report = run("summarize", "s1", "--store", store, "--budget", "8k", "--topic", "walrus", "--json", "-").document
    assert report["reason"] == "explicit"


def test_a_stored_session_keeps_what_is_pinned(run: Runner, store):
    id = run("pin", "s1", "Ursula bites", "--store", store, "--json", "-").document["id"]
    assert run("pins", "s1", "--store", store, "--json", "-").document["pins"][0]["text"] == "Ursula bites"
    assert run("compress", "s1", "--store", store, "--budget", "4k", "--json", "-").document["reason"] == "explicit"
    assert "Ursula bites" in run("view", "s1", "--store", store, "--budget", "4k", "--json", "-").out
    assert run("unpin", "s1", id, "--store", store).status == 0
    assert run("pins", "s1", "--store", store, "--json", "-").document == {"pins": []}


def test_what_is_wrong_ends_with_the_status_of_bad_input(run: Runner, store):
    for arguments in (
        ("expand", "s1", "900"),
        ("expand", "s2", "0"),
        ("recall", "s1", "?!"),
        ("expand", "s1", "0", "--detail", "x"),
        ("pin", "s1", "900"),
        ("unpin", "s1", "nothing"),
        ("compress", "s1", "--importance", "2"),
    ):
        ran = run(*arguments, "--store", store)
        assert (ran.status, ran.out) == (2, "")
        assert ran.err.strip()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_completes(run: Runner, shell):
    script = run("completion", shell)
    assert script.status == 0
    assert f"_SUMMARIZING_CONTEXT_COMPLETE=complete_{shell}" in script.out
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script.out, text=True, check=False).returncode == 0


def test_commands_are_completed_where_a_shell_asks(run: Runner, monkeypatch, capsys):
    monkeypatch.setenv("_SUMMARIZING_CONTEXT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "summarizing-context exp")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit):
        run()
    assert capsys.readouterr().out.split() == ["expand"]


def test_other_shells_are_refused(run: Runner):
    assert run("completion", "tcsh").status == 2
