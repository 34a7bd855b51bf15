"""Which files may know which library; import-linter keeps the layers."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.checkout import PACKAGE, modules

# Library -> the files (or folders) that may import it, seen from the package.
HOMES = {
    "agents": ("adapters/openai_agents.py",),
    "amplifier_core": ("adapters/amplifier/", "summarizers/host.py"),
    "anthropic": ("summarizers/sdk.py",),
    "bpe_openai": (),
    "chromadb": ("contrib/chroma.py",),
    "filelock": ("evaluation/cassettes.py", "stores/"),
    "genai_prices": ("models.py",),
    "gepa": ("evaluation/tune.py",),
    "langchain": ("adapters/langchain.py",),
    "langchain_core": ("adapters/langchain.py",),
    "httpx2": ("contrib/proxy/",),
    "mcp": ("adapters/mcp.py",),
    "numpy": ("stores/relational/store.py",),
    "openai": ("summarizers/sdk.py",),
    "opentelemetry": ("adapters/opentelemetry.py",),
    "psycopg": ("contrib/postgres/",),
    "pydantic_ai": ("adapters/pydantic_ai.py",),
    "pydantic_core": ("adapters/pydantic_ai.py",),
    "rich": ("cli/",),
    "sqlite3": ("stores/sqlite/", "transcripts/parts.py"),
    "starlette": ("contrib/inspector/", "contrib/proxy/"),
    "tenacity": ("summarizers/resilience.py",),
    "tiktoken": ("messages/tokens.py",),
    "typer": ("cli/",),
    "uvicorn": ("contrib/serving.py",),
}


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


@pytest.mark.parametrize("library", HOMES)
def test_a_library_is_imported_only_where_it_belongs(library: str):
    names = [path.relative_to(PACKAGE).as_posix() for path in modules() if library in libraries(path)]
    assert [name for name in names if not name.startswith(HOMES[library])] == [], "give the library a row in HOMES"
