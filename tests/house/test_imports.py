"""Which files may know which library, and what pure rooms may not do; import-linter keeps the layers."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.checkout import PACKAGE, modules

# Library -> the files (or folders) that may import it, seen from the package.
HOMES = {
    "amplifier_core": ("adapters/amplifier/", "summarizers/host.py"),
    "anthropic": ("summarizers/anthropic.py",),
    "bpe_openai": (),
    "chromadb": ("stores/chroma.py",),
    "filelock": ("evaluation/cassettes/files.py", "stores/"),
    "gepa": ("evaluation/tuning/gepa_prompts.py",),
    "numpy": ("stores/vectors.py",),
    "openai": ("summarizers/openai.py",),
    "rich": ("cli/",),
    "sqlite3": ("stores/sqlite/",),
    "tenacity": ("evaluation/readers.py", "summarizers/resilience/caller.py"),
    "tiktoken": ("messages/counters.py",),
    "tiktoken_ext": ("messages/counters.py",),
    "typer": ("cli/",),
}
PURE_ROOMS = ("extraction", "log", "messages", "summarizers/extractive", "summarizers/verification", "views")
IMPURE_MODULES = (  # in these rooms, what has to know the event loop, a thread or a file
    "log/intake.py",
    "messages/counters.py",
    "messages/redaction.py",
    "summarizers/extractive/summarizer.py",
)
IMPURE = {"asyncio", "logging", "os", "random", "secrets", "socket", "subprocess", "threading", "time", "uuid", "anyio"}


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported, inside functions too, and also for types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""


@cache
def libraries(path: Path) -> frozenset[str]:
    """Top-level names of the modules that a file imports."""
    return frozenset(module.split(".")[0] for module in imported(ast.parse(path.read_text(encoding="utf-8"))))


def named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("library", HOMES)
def test_a_library_is_imported_only_where_it_belongs(library: str):
    strangers = [
        named(path)
        for path in modules()
        if library in libraries(path) and not named(path).startswith(HOMES[library] or ("nowhere",))
    ]
    assert strangers == []


def pure_modules() -> Iterator[tuple[str, ast.Module]]:
    for room in PURE_ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            if named(path) not in IMPURE_MODULES:
                yield named(path), ast.parse(path.read_text(encoding="utf-8"))


def test_every_pure_room_is_there():
    assert [room for room in PURE_ROOMS if not (PACKAGE / room / "__init__.py").is_file()] == []
    assert [name for name in IMPURE_MODULES if not (PACKAGE / name).is_file()] == []
    assert len(list(pure_modules())) > 50


def test_the_pure_rooms_import_only_the_standard_library_and_msgspec():
    allowed = (sys.stdlib_module_names | {"msgspec", "summarizing_context"}) - IMPURE
    found = [(name, module) for name, tree in pure_modules() for module in imported(tree)]
    assert [(name, module) for name, module in found if module.split(".")[0] not in allowed] == []


def test_the_pure_rooms_await_nothing_and_read_no_file():
    awaiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    for name, tree in pure_modules():
        for node in ast.walk(tree):
            assert not isinstance(node, awaiting), f"{name}:{node.lineno} awaits"
            is_open = (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "print")
            )
            assert not is_open, f"{name}:{getattr(node, 'lineno', 0)} touches the world"
