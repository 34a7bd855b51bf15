"""Commands of one stored session: `expand`, `recall`, `summarize`, `pin`, `checkpoint` and their kin."""

import shlex
from pathlib import Path

import pytest
from cli.commands import Runner, fill_store, says

from summarizing_context.commands import COMMANDS

LOG = [
    says("user", "The walrus is called Ursula.\x1b[31m"),
    *(says("assistant", f"Step {n}. " * 60) for n in range(60)),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return fill_store(tmp_path / "run.db", "s1", LOG, max_tokens=4_000)


def test_a_stored_session_is_asked_and_summarized(run: Runner, store):
    assert "Ursula" in run("recall", "s1", "walrus", "name", "--store", store, "--budget", "4k").out
    assert "No memory" in run("memory", "s1", "walrus", "--store", store).out
    assert run("ledger", "s1", "zebra", "--store", store, "--json", "-").document == {"facts": []}
    shown = run("expand", "s1", "0", "line", "--store", store)
    assert (shown.status, "[message 0: user]" in shown.out, "\x1b" in shown.out) == (0, True, False)
    report = run("summarize", "s1", "walrus", "--store", store, "--budget", "8k", "--json", "-").document
    assert report["activated"]

    id = run("pin", "s1", "Ursula bites", "--store", store, "--json", "-").document["id"]
    assert run("pins", "s1", "--store", store, "--json", "-").document["pins"][0]["text"] == "Ursula bites"
    assert run("compress", "s1", "--store", store, "--budget", "2k", "--json", "-").document["activated"]
    assert "Ursula bites" in run("view", "s1", "--store", store, "--budget", "2k", "--json", "-").out
    assert run("unpin", "s1", id, "--store", store).status == 0
    assert run("pins", "s1", "--store", store, "--json", "-").document == {"pins": []}


def test_what_to_type_next_is_told_in_the_words_of_a_shell(run: Runner, store):
    def typed(said: str) -> str:
        line = said.strip().splitlines()[-1]
        program, *arguments = shlex.split(line[line.index("summarizing-context") :])
        ran = run(*arguments)
        assert (program, ran.status) == ("summarizing-context", 0), ran.err
        return ran.out

    onward = typed(run("expand", "s1", "0..60", "--store", store).out)
    assert '<recalled messages="' in onward
    back = run("checkpoint", "s1", "the start", "--store", store).out
    typed(typed(back))
    typed(run("pin", "s1", "0", "--store", store).out)
    assert "/context" not in onward + back
    named = " ".join(run("--help").out.split()).partition("as /context in a host")[2]
    assert all(f"{name}," in named for name in COMMANDS if name != "help")
