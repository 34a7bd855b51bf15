"""The entry point: help, errors on one line, exit statuses, cheap to import."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest
from cli.commands import Runner, says, write_transcript

from summarizing_context.cli import build_command
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
from tests.docs.checkout import ROOT, run_python

PLACES = {"ADDRESS", "FILE", "FIRST", "FOLDER", "LOG", "PATH", "RUN", "SECOND", "STORE", "TRANSCRIPT"}
EMPTY = re.compile(r"error: Invalid value for '.*: it is empty; name a file or a folder; see --help\n")


def all_commands() -> dict[tuple[str, ...], Any]:
    """Every command and family by its words. A family may do something by itself, as `proxy` does."""
    found: dict[tuple[str, ...], Any] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), build_command())]
    while waiting:
        words, found[words] = waiting.pop()
        waiting += [((*words, name), one) for name, one in getattr(found[words], "commands", {}).items()]
    return found


def placed(command: Any) -> list[Any]:
    """The parameters of a command that take a path or a store."""
    return [one for one in command.params if PLACES & set(re.findall(r"\w+", one.metavar or ""))]


ALL = all_commands()
COMMANDS = {words: command for words, command in ALL.items() if not hasattr(command, "commands")}
WITH_PLACES = {words: command for words, command in ALL.items() if placed(command)}


def test_the_help_groups_all_commands_and_sets_remarks_above_examples(run: Runner, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("--help").out
    assert "─ Commands ─" not in shown
    for words, command in COMMANDS.items():
        assert f" {words[0]} " in shown
        assert all(len(remark) < 79 for remark in re.findall(r"#[^\[]*", command.epilog or ""))
        assert not re.search(r"\S.*#", re.sub(r"\[/?\w+\]", "", command.epilog or ""))
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_of_a_command_shows_only_its_own_examples_with_options_that_it_has(words: tuple[str, ...]):
    command = COMMANDS[words]
    epilog = re.sub(r"\[dim\].*?\[/dim\]|\[/?bold\]", "", command.epilog or "")
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for example in re.findall(r"^summarizing-context (.+?)\s*$", epilog, re.MULTILINE):
        assert tuple(example.split()[: len(words)]) == words
        assert set(re.findall(r"(?<!\S)--[a-z-]+", example)) <= known


@pytest.mark.parametrize("words", WITH_PLACES, ids=" ".join)
def test_an_empty_path_is_refused_on_one_line(run: Runner, words: tuple[str, ...]):
    assert len(WITH_PLACES) > 30
    arguments = [one for one in WITH_PLACES[words].params if one.param_type_name == "argument"]
    for one in placed(WITH_PLACES[words]):
        before = ["x"] * arguments.index(one) if one in arguments else [one.opts[0], *["locomo"] * (one.nargs == 2)]
        for empty in ("", " \t"):
            ran = run(*words, *before, empty)
            assert (ran.status, ran.out) == (2, "")
            assert EMPTY.fullmatch(ran.err)


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
def test_each_failure_has_its_status_and_one_line(run: Runner, monkeypatch, error, status):
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("summarizing_context.transcripts.find_transcripts", fails)
    ran = run("replay", "any.jsonl")
    assert (ran.status, ran.out, ran.err.count("\n")) == (status, "", 1)
    assert ran.err.startswith("error: ")
    assert "Traceback" not in ran.err


def test_a_module_run_is_the_command(tmp_path):
    ran = run_python(["-m", "summarizing_context", "replay", str(tmp_path / "none.jsonl")], cwd=ROOT)
    assert ran.returncode == 2
    assert f"error: {tmp_path}/none.jsonl: there is no such file or folder; check the path" in ran.stdout


def test_a_reader_who_has_seen_enough_changes_no_exit_status(tmp_path):
    log = tmp_path / "one.jsonl"
    write_transcript(log, [says("system", "word " * 400), says("user", "a"), says("assistant", "b")])
    command = [sys.executable, "-m", "summarizing_context", "replay", str(log), "--budget", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as ran:
        assert ran.stdout
        assert ran.stderr
        ran.stdout.close()
        assert ran.stderr.read().startswith("Replaying 1 file at 100 tokens.")
        assert ran.wait(60) == 3


def test_the_version_is_told(run: Runner):
    assert run("--version").out == f"summarizing-context {version('summarizing_context')}\n"
