"""The gate: style, types and the direction of imports, each by its own tool."""

from __future__ import annotations

import pytest

from tests.house.checkout import run_python

LINT_IMPORTS = "from importlinter.cli import lint_imports_command as main; main()"


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "ruff", "check", "."],
        ["-m", "ruff", "format", "--check", "."],
        ["-m", "mypy"],
        ["-c", LINT_IMPORTS, "--no-logo", "--no-cache"],
    ],
    ids=["ruff", "format", "mypy", "imports"],
)
def test_the_tool_finds_nothing(command: list[str]):
    done = run_python(command)
    assert done.returncode == 0, done.stdout
