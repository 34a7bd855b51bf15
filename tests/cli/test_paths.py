"""No command takes an empty path, which would mean the current folder."""

from __future__ import annotations

import re
from typing import Any, get_type_hints

import pytest
import typer
from cli.commands import Runner

from summarizing_context.cli.app import build_app
from summarizing_context.cli.output import Status

PLACES = {"ADDRESS", "FILE", "FIRST", "FOLDER", "LOG", "PATH", "RUN", "SECOND", "STORE", "TRANSCRIPT"}
REFUSED = re.compile(r"error: Invalid value for '.*: it is empty; name a file or a folder; see --help\n")


def all_commands() -> dict[tuple[str, ...], Any]:
    """Every command by its words. A family may do something by itself, as `proxy` does."""
    found: dict[tuple[str, ...], Any] = {}
    waiting: list[tuple[tuple[str, ...], Any]] = [((), typer.main.get_command(build_app()))]
    while waiting:
        words, found[words] = waiting.pop()
        waiting += [((*words, name), one) for name, one in getattr(found[words], "commands", {}).items()]
    return found


def placed(command: Any) -> list[Any]:
    """The parameters of a command that take a path or a store."""
    return [one for one in command.params if PLACES & set(re.findall(r"\w+", one.metavar or ""))]


COMMANDS = {words: command for words, command in all_commands().items() if placed(command)}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_empty_path_is_refused_on_one_line(run: Runner, words: tuple[str, ...]):
    arguments = [one for one in COMMANDS[words].params if one.param_type_name == "argument"]
    for one in placed(COMMANDS[words]):
        before = ["x"] * arguments.index(one) if one in arguments else [one.opts[0], *["locomo"] * (one.nargs == 2)]
        for empty in ("", " \t"):
            ran = run(*words, *before, empty)
            assert (ran.status, ran.out) == (Status.BAD_INPUT, "")
            assert REFUSED.fullmatch(ran.err)


def test_every_parameter_that_becomes_a_path_is_among_them():
    assert len(COMMANDS) > 30
    for command in all_commands().values():
        paths = {name for name, hint in get_type_hints(command.callback or placed).items() if "Path" in str(hint)}
        assert paths <= {one.name for one in placed(command)}
    assert "paths" in {one.name for one in placed(COMMANDS["replay",])}
