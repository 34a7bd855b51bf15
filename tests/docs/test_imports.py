"""The checkout: what no file of it may hold, which files may know which library, and the names that others import."""

import ast
import re
import subprocess
from functools import cache
from inspect import getmembers_static, isfunction
from pathlib import Path
from typing import get_type_hints

import pytest

import summarizing_context
from summarizing_context import errors
from tests.docs.checkout import PACKAGE, ROOT, run_python

# In pieces, so that this file does not hold what it looks for.
PARTS = ("/r{}oot/", "/w{}ork/", "/t{}mp/bash_jobs/", r"py{}pi\.org", r"python{}hosted\.org", r"npm{}js\.(org|com)")
FORBIDDEN = re.compile("|".join(part.replace("{}", "") for part in PARTS).encode())


def test_no_file_names_a_place_on_one_machine_or_a_registry_or_is_too_large_to_be_source():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]  # what git has or would take
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    files = [path for name in {*listed.decode().split("\0")} if name and (path := ROOT / name).is_file()]
    found = {str(path.relative_to(ROOT)): FORBIDDEN.search(path.read_bytes()) for path in files}
    assert {name: match[0] for name, match in found.items() if match} == {}
    assert [path for path in files if path.stat().st_size > 1_500_000] == []


# Library -> the files (or folders) that may import it, seen from the package.
HOMES = {
    "agents": ("adapters/openai_agents.py",),
    "amplifier_core": ("adapters/amplifier/", "summarizers/host.py"),
    "anthropic": ("summarizers/sdk.py",),
    "bpe_openai": (),
    "chromadb": ("contrib/chroma.py",),
    "filelock": ("stores/",),
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


@cache
def libraries(path: Path) -> set[str]:
    """Top-level names of the modules that a file imports, inside functions too, and also for types alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("library", HOMES)
def test_a_library_is_imported_only_where_it_belongs(library: str):
    names = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if library in libraries(path)]
    assert [name for name in names if not name.startswith(HOMES[library])] == [], "give the library a row in HOMES"


def test_importing_the_package_needs_none_of_the_heavy_libraries():
    heavy = ("openai", "anthropic", "tiktoken", "typer", "rich", "amplifier_core", "bpe_openai", "numpy")
    blocked = f"import sys; sys.modules.update(dict.fromkeys({heavy}))"  # any import of them now fails
    done = run_python(["-c", f"{blocked}; import summarizing_context as sc; sc.Settings()"])
    assert done.returncode == 0, done.stdout


def test_every_error_is_drawn_in_the_tree_and_one_of_the_public_names_which_are_sorted():
    base, names = errors.SummarizingContextError, summarizing_context.__all__
    known = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, base)}
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert [name for name in known if name not in page or name not in names] == []
    assert list(names) == sorted(set(names))


def test_the_hints_of_all_public_functions_methods_and_properties_resolve():
    values = [getattr(summarizing_context, name) for name in summarizing_context.__all__]
    members = [member for value in values if isinstance(value, type) for _, member in getmembers_static(value)]
    found = [getattr(one, "fget", None) or getattr(one, "__func__", one) for one in (*values, *members)]
    ours = [one for one in found if not getattr(one, "__globals__", {}).get("__name__", "").startswith("namedtuple_")]
    hinted = [one for one in ours if isinstance(one, type) or isfunction(one)]
    assert len(hinted) > 200
    assert all(isinstance(get_type_hints(one), dict) for one in hinted)
