"""The entry point: help, errors on one line, exit statuses, cheap to import."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from cli.commands import Runner, says, write_transcript

from summarizing_context.cli.app import build_app
from summarizing_context.cli.options import read_tokens
from summarizing_context.cli.output import Status, explain_failure, number, plain
from summarizing_context.errors import (
    BudgetError,
    MessageError,
    SessionInUseError,
    SettingsError,
    StoreCorruptError,
    SummarizerError,
    TranscriptError,
    UndoError,
)

CHECKOUT = Path(__file__).parents[2]
COMMANDS = ("demo", "replay", "sessions", "view", "status")


def test_no_argument_shows_the_help_with_examples(run: Runner):
    shown = run()
    asked = run("--help")
    assert (shown.status, shown.out.strip(), shown.err) == (0, asked.out.strip(), "")
    assert all(command in shown.out for command in (*COMMANDS, "Exit status", "summarizing-context demo"))


def single_commands() -> dict[tuple[str, ...], click.Command]:
    """Every command that does something, by its words."""
    found: dict[tuple[str, ...], click.Command] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), typer.main.get_command(build_app()))]
    while waiting:
        words, command = waiting.pop()
        inner = getattr(command, "commands", None)
        if inner is None:
            found[words] = command
        else:
            waiting += [((*words, name), one) for name, one in inner.items()]
    return found


def test_the_help_groups_all_commands_and_sets_remarks_above_examples(run: Runner, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("--help").out
    assert "─ Commands ─" not in shown
    for words, command in single_commands().items():
        assert f" {words[0]} " in shown
        remarks = re.findall(r"#[^\[]*", command.epilog or "")
        assert all(len(remark) < 79 for remark in remarks)
        assert not re.search(r"\S.*#", re.sub(r"\[/?\w+\]", "", command.epilog or ""))
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("words", single_commands(), ids=" ".join)
def test_the_help_of_a_command_shows_only_its_own_examples_with_options_that_it_has(words: tuple[str, ...]):
    command = single_commands()[words]
    epilog = re.sub(r"\[dim\].*?\[/dim\]|\[/?bold\]", "", command.epilog or "")
    examples = re.findall(r"^(?:eval \"\$\()?summarizing-context (.+?)\s*$", epilog, re.MULTILINE)
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for example in examples:
        assert tuple(example.split()[: len(words)]) == words
        assert set(re.findall(r"(?<!\S)--[a-z-]+", example)) <= known


@pytest.mark.parametrize("command", [*((one,) for one in COMMANDS), ("sessions", "delete")])
def test_each_command_has_a_help(run: Runner, command):
    shown = run(*command, "--help")
    assert (shown.status, shown.err) == (0, "")
    assert "--json" in shown.out or command == ("sessions",)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["repaly"], "replay"),
        (["replay", "x", "--buget", "1"], "--budget"),
        (["replay", "x"], "check the path"),
        (["replay", "--budget", "1k"], "PATH"),
        (["demo", "--budget", "many"], "write it like 16000 or 16k"),
        (["view", "s1"], "--store"),
        (["sessions", "remove"], "remove"),
    ],
)
def test_a_wrong_argument_is_one_line_that_helps(run: Runner, arguments, hint):
    ran = run(*arguments)
    assert ran.status == Status.BAD_INPUT
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert hint in ran.err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TranscriptError("a.jsonl:3: not JSON"), 2),
        (SettingsError("low_water = 2"), 2),
        (MessageError("no role"), 2),
        (BudgetError(900, 100), 3),
        (StoreCorruptError("run.db is damaged"), 4),
        (SessionInUseError("s1", 17), 4),
        (UndoError("there is no activation to undo"), 2),
        (SummarizerError(), 4),
        (PermissionError(13, "Permission denied", "out.json"), 4),
        (ZeroDivisionError("division by zero"), 4),
        (KeyboardInterrupt(), 130),
    ],
)
def test_each_failure_has_its_status_and_one_line(capsys, error, status):
    assert explain_failure(error) == status
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_ctrl_c_is_told_where_a_command_has_no_figures_yet(run: Runner, tmp_path, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    log = write_transcript(tmp_path / "one.jsonl", [says("user", "a"), says("assistant", "b")])
    monkeypatch.setattr("summarizing_context.evaluation.replay.replay_files", interrupted)
    ran = run("replay", log, "--budget", "1k")
    assert (ran.status, ran.out) == (130, "")
    assert ran.err.endswith("error: stopped; nothing that was stored is lost\n")


def test_a_module_run_is_the_command(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "summarizing_context", "replay", str(tmp_path / "none.jsonl"), "--budget", "1k"],
        capture_output=True,
        text=True,
        check=False,
        cwd=CHECKOUT,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"error: {tmp_path}/none.jsonl: there is no such file or folder; check the path\n"


@pytest.mark.parametrize("more", [(), ("--json", "-")])
def test_a_reader_who_has_seen_enough_changes_no_exit_status(tmp_path, more):
    log = tmp_path / "one.jsonl"
    write_transcript(log, [says("system", "word " * 400), says("user", "a"), says("assistant", "b")])
    command = [sys.executable, "-m", "summarizing_context", "replay", str(log), "--budget", "100", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=CHECKOUT) as ran:
        assert ran.stdout
        assert ran.stderr
        ran.stdout.close()
        assert ran.stderr.read().startswith("Replaying 1 file at 100 tokens.")
        assert ran.wait(60) == Status.REFUSED


def test_importing_the_command_line_brings_neither_sdks_nor_tables():
    script = (
        "import sys; from summarizing_context.cli.app import build_app; build_app();"
        "print([name for name in ('openai', 'anthropic', 'tiktoken') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(("text", "tokens"), [("16000", 16_000), ("16k", 16_000), (" 8_000 ", 8_000), ("2K", 2_000)])
def test_tokens_are_read_as_people_write_them(text, tokens):
    assert read_tokens(text) == tokens


@pytest.mark.parametrize("text", ["", "k", "0", "-5", "1.5k", "16 000", "²", "ten"])
def test_what_is_no_number_of_tokens_is_refused(text):
    with pytest.raises(ValueError, match="not a number of tokens"):
        read_tokens(text)


def test_text_of_messages_cannot_drive_the_terminal():
    assert plain("a\x1b[31m b\n\tc \ud800\u202e") == "a·[31m b c ··"
    assert plain("word " * 100, 12) == "word word w…"
    assert len(plain("\n" * 10_000 + "x", 20)) <= 20


def test_numbers_are_grouped():
    assert (number(12345), number(1234.56), number(None)) == ("12,345", "1,234.6", "–")


def test_the_version_is_told(run: Runner):
    assert run("--version").out == f"summarizing-context {version('summarizing-context')}\n"


@pytest.mark.parametrize("family", ["eval", "prompts"])
def test_a_family_alone_shows_its_help_and_no_error(run: Runner, family):
    ran = run(family)
    assert "Commands" in ran.out + ran.err
    assert "error" not in ran.err
