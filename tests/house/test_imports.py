"""Which files may know which library, and what the pure part may not do; import-linter keeps the layers."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.checkout import PACKAGE, modules

# Library -> the files (or folders) that may import it, seen from the package.
HOMES = {
    "amplifier_core": ("adapters/amplifier_errors.py", "adapters/amplifier_tool.py", "summarizers/host_provider.py"),
    "anthropic": ("summarizers/anthropic_messages.py",),
    "bpe_openai": (),
    "chromadb": ("stores/chroma_vectors.py",),
    "filelock": ("evaluation/cassettes/files.py", "stores/"),
    "gepa": ("evaluation/tuning/gepa_prompts.py",),
    "numpy": ("stores/vectors.py",),
    "openai": ("summarizers/openai_chat.py",),
    "rich": ("cli/",),
    "sqlite3": ("stores/",),
    "tenacity": ("evaluation/answering/asker.py", "summarizers/resilient.py"),
    "tiktoken": ("tiktoken_counter.py",),
    "tiktoken_ext": ("tiktoken_counter.py",),
    "typer": ("cli/",),
}
IMPURE = {"asyncio", "logging", "os", "random", "secrets", "socket", "subprocess", "threading", "time", "uuid", "anyio"}


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported, inside functions too, and also for types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""


def named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("library", HOMES)
def test_a_library_is_imported_only_where_it_belongs(library: str):
    strangers = [
        named(path)
        for path in modules()
        if any(module.split(".")[0] == library for module in imported(ast.parse(path.read_text(encoding="utf-8"))))
        and not named(path).startswith(HOMES[library] or ("nowhere",))
    ]
    assert strangers == []


def test_the_pure_part_imports_only_the_standard_library_msgspec_and_errors():
    found = {
        (named(path), module)
        for path in (PACKAGE / "core").rglob("*.py")
        for module in imported(ast.parse(path.read_text(encoding="utf-8")))
    }
    own = ("summarizing_context.core", "summarizing_context.errors")
    strangers = [
        (path, module)
        for path, module in sorted(found)
        if not module.startswith(own) and module.split(".")[0] not in (sys.stdlib_module_names | {"msgspec"}) - IMPURE
    ]
    assert strangers == []


def test_the_pure_part_awaits_nothing_and_reads_no_file():
    awaiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    for path in (PACKAGE / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not isinstance(node, awaiting), f"{named(path)}:{node.lineno} awaits"
            is_open = (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "print")
            )
            assert not is_open, f"{named(path)}:{getattr(node, 'lineno', 0)} touches the world"
