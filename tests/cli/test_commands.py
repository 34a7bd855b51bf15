"""`expand`, `recall`, `summarize`, `memory`, `budget` on a stored session, and completion."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from cli.commands import Runner, fill_store, says

from summarizing_context import ActivationReport, CommandResult, Settings, SummarizingContext, open_context
from summarizing_context.cli.commands import cover
from tests.laws.builders import session
from tests.laws.summarizers import Counting

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
    assert run("compress", "s1", "--store", store, "--budget", "2k", "--json", "-").document["reason"] == "explicit"
    assert "Ursula bites" in run("view", "s1", "--store", store, "--budget", "2k", "--json", "-").out
    typed(run, run("pin", "s1", "0", "--store", store).out)
    assert run("unpin", "s1", id, "--store", store).status == 0
    assert run("pins", "s1", "--store", store, "--json", "-").document == {"pins": []}


def typed(run: Runner, said: str) -> str:
    """What the command prints that another one told to type."""
    line = said.strip().splitlines()[-1]
    program, *arguments = shlex.split(line[line.index("summarizing-context") :])
    ran = run(*arguments)
    assert (program, ran.status) == ("summarizing-context", 0), ran.err
    return ran.out


def test_what_to_type_next_is_told_in_the_words_of_a_shell(run: Runner, store):
    onward = typed(run, run("expand", "s1", "0..60", "--store", store).out)
    assert '<recalled messages="' in onward
    back = run("checkpoint", "s1", "--name", "the start", "--store", store).out
    typed(run, typed(run, back))
    assert "/context" not in onward + back


def test_a_topic_that_is_a_number_is_a_topic(run: Runner, store):
    run("summarize", "s1", "--store", store, "--budget", "4k", "--topic", "31")
    nodes = run("view", "s1", "--store", store, "--budget", "4k", "--explain", "--json", "-").document["header"]
    assert [node["form"] for node in nodes].count("note") == 1


def test_what_is_wrong_ends_with_the_status_of_bad_input(run: Runner, store):
    for arguments in (
        ("expand", "s1", "900"),
        ("expand", "s2", "0"),
        ("recall", "s1", "?!"),
        ("expand", "s1", "0", "--detail", "x"),
        ("pin", "s1", "900"),
        ("unpin", "s1", "nothing"),
        ("unpin", "s1", ""),
        ("expand", "s1", " "),
        ("restore", "s1", "c77"),
        ("checkpoint", "s1", "--name", "c12"),
        ("summarize", "s1", "--topic", " "),
        ("compress", "s1", "--importance", "2"),
    ):
        ran = run(*arguments, "--store", store)
        assert (ran.status, ran.out) == (2, "")
        assert ran.err.strip()
        assert not {"/context", "()"} & set(ran.err.replace("'", " ").split())


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


def completed(run: Runner, monkeypatch, capsys, typed: str) -> list[str]:
    monkeypatch.setenv("_SUMMARIZING_CONTEXT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    with pytest.raises(SystemExit):
        run()
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("view --store {store} s", ["s1"]),
        ("pin --store {store} x", []),
        ("view --store {store}.none s", []),
        ("prompts show foc", ["focus/v1"]),
        ("replay --strategy hierarchical,tr", ["hierarchical,truncate"]),
        ("eval run wri", ["written"]),
    ],
)
def test_names_are_completed(run: Runner, store, monkeypatch, capsys, words, offered):
    monkeypatch.chdir(Path(__file__).parents[2])
    assert completed(run, monkeypatch, capsys, f"summarizing-context {words.format(store=store)}") == offered


def test_sessions_are_completed_from_the_store_of_the_environment(run: Runner, store, monkeypatch, capsys):
    monkeypatch.setenv("SUMMARIZING_CONTEXT_STORE", str(store))
    assert completed(run, monkeypatch, capsys, "summarizing-context status s") == ["s1"]


def test_other_shells_are_refused(run: Runner):
    assert run("completion", "tcsh").status == 2


@pytest.mark.anyio
async def test_compress_in_another_process_waits_for_the_model_as_summarize_does(tmp_path: Path):
    model = Counting("shared/1")

    async def covered(ask: Callable[[SummarizingContext], Awaitable[ActivationReport]]) -> CommandResult:
        settings = Settings(store=tmp_path / "run.db", session_id="s1", token_counter="estimate")
        async with open_context(settings, summarizer=model) as context:
            if not len(context):
                await context.set_messages(session(1, 40, rules=""))
            return await cover(ask, context)

    for ask in (lambda context: context.summarize(10), lambda context: context.compress(0.6)):
        before, report = len(model.jobs), await covered(ask)
        assert len(model.jobs) > before
        assert (report.data["activated"], report.data["stand_ins"]) == (True, 0)
        assert report.data["freed"] == report.data["tokens_before"] - report.data["tokens_after"]


def test_the_tables_of_a_session_fit_into_80_columns_and_cut_no_path(run: Runner, tmp_path: Path, monkeypatch):
    path = f"src/{'deeply/' * 8}parser.py"
    call = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": read_of(path)}]}
    answer = {"role": "tool", "tool_call_id": "1", "content": "x = 1"}
    store = fill_store(tmp_path / "run.db", "s1", [says("user", "Read it."), call, answer, *LOG], max_tokens=4_000)
    monkeypatch.setenv("COLUMNS", "80")
    ledger = run("ledger", "s1", "--store", store)
    assert path in "".join(ledger.out.split())
    activations = run("activations", "s1", "--store", store)
    assert activations.out.splitlines()[2].endswith("  nearly full")
    status = run("status", "s1", "--store", store)
    assert ": nearly full" in status.out
    for shown in (ledger, activations, status):
        assert max(map(len, shown.out.splitlines())) <= 80
    assert "none yet" in run("checkpoints", "s1", "--store", store).out


def read_of(path: str) -> dict[str, str]:
    return {"name": "read_file", "arguments": json.dumps({"path": path})}
