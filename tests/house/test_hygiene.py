"""Sizes to hold, and what must not be in the checkout."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house.checkout import PACKAGE, ROOT, modules

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_POSITIONAL = 5

# In pieces, so that this file does not hold what it looks for.
MACHINE_PATHS = [f"/{folder}/" for folder in ("root", "work", "tmp/bash_jobs")]
REGISTRIES = [
    rf"{name}\.{end}" for name, end in (("py" + "pi", "org"), ("python" + "hosted", "org"), ("npm" + "js", "(org|com)"))
]
FORBIDDEN = re.compile("|".join(MACHINE_PATHS + REGISTRIES).encode())


def files_of_the_checkout() -> list[Path]:
    """What git has or would take."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in sorted(set(listed.decode().split("\0"))) if name and (path := ROOT / name).is_file()]


class Function(NamedTuple):
    """Where a function stands, and its size."""

    name: str
    lines: int
    positional: list[str]


@cache
def functions() -> list[Function]:
    return [
        Function(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", lines_of(node), positional(node))
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def positional(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    return [name for name in names if name not in ("self", "cls")]


def test_no_file_names_a_place_on_one_machine_or_a_registry():
    found = {str(path.relative_to(ROOT)): FORBIDDEN.search(path.read_bytes()) for path in files_of_the_checkout()}
    assert {name: match[0] for name, match in found.items() if match} == {}


def test_no_file_is_too_large_to_be_source():
    assert [path for path in files_of_the_checkout() if path.stat().st_size > 1_500_000] == []


def test_no_module_is_too_long():
    lengths = {path.relative_to(PACKAGE).as_posix(): len(path.read_text("utf-8").splitlines()) for path in modules()}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_every_module_opens_by_saying_what_it_holds():
    silent = [path for path in modules() if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert silent == []


def test_no_function_is_too_long():
    assert [each.name for each in functions() if each.lines > MAX_FUNCTION_LINES] == []


def test_functions_are_mostly_short():
    assert statistics.median(each.lines for each in functions()) <= 10


def test_no_function_takes_more_than_five_arguments_by_position():
    assert [each.name for each in functions() if len(each.positional) > MAX_POSITIONAL] == []
