"""Which files may know which library, and what pure rooms may not do; import-linter keeps the layers."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from evals.performance import house
from summarizing_context.settings.providers import PROVIDERS
from tests.house.checkout import PACKAGE, ROOT, modules

# Library -> the files (or folders) that may import it, seen from the package.
HOMES = {
    "agents": ("adapters/openai_agents.py",),
    "amplifier_core": ("adapters/amplifier/", "summarizers/host.py"),
    "anthropic": ("summarizers/anthropic.py",),
    "bpe_openai": (),
    "chromadb": ("stores/chroma.py",),
    "filelock": ("evaluation/cassettes/files.py", "stores/"),
    "gepa": ("evaluation/tuning/gepa_prompts.py",),
    "langchain": ("adapters/langchain/",),
    "langchain_core": ("adapters/langchain/",),
    "httpx2": ("proxy/",),
    "mcp": ("adapters/mcp.py",),
    "numpy": ("stores/vectors.py",),
    "openai": ("summarizers/openai.py",),
    "opentelemetry": ("adapters/opentelemetry.py",),
    "pgqueuer": ("stores/postgres/queue.py",),
    "prometheus_client": ("pool/metrics.py",),
    "psycopg": ("stores/postgres/",),
    "pydantic_ai": ("adapters/pydantic_ai.py",),
    "pydantic_core": ("adapters/pydantic_ai.py",),
    "rich": ("cli/",),
    "sqlite3": ("stores/sqlite/", "transcripts/opencode.py"),
    "starlette": ("inspector/", "proxy/"),
    "tenacity": ("evaluation/models.py", "summarizers/resilience/caller.py"),
    "tiktoken": ("messages/counters.py",),
    "tiktoken_ext": ("messages/counters.py",),
    "typer": ("cli/",),
    "uvicorn": ("adapters/mcp.py", "inspector/server.py", "proxy/"),
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


CONTRACTS = {
    contract["id"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
}
MOST_FLOORS = 12
SHARED_BY_STORES = ("base", "private_files", "requests", "vectors")  # modules of `stores` that are no backend


def test_the_house_has_at_most_twelve_floors():
    assert len(CONTRACTS["layers"]["layers"]) <= MOST_FLOORS


def below_assembly() -> set[str]:
    """The rooms and modules that stand under `assembly`."""
    layers = [set(re.findall(r"\w+", layer)) for layer in CONTRACTS["layers"]["layers"]]
    at = next(number for number, layer in enumerate(layers) if "assembly" in layer)
    return set().union(*layers[at + 1 :])


def test_every_room_under_assembly_is_kept_from_concrete_classes():
    sources = {name.removeprefix("summarizing_context.") for name in CONTRACTS["concrete"]["source_modules"]}
    assert sources == below_assembly() - {"stores", "summarizers"}


def test_every_backend_and_every_provider_is_a_concrete_class():
    stores = {path.stem for path in (PACKAGE / "stores").iterdir() if not path.stem.startswith("__")}
    backends = {f"summarizing_context.stores.{name}" for name in stores.difference(SHARED_BY_STORES)}
    providers = {place.partition(":")[0] for place in PROVIDERS.values()} | {"summarizing_context.summarizers.host"}
    assert set(CONTRACTS["concrete"]["forbidden_modules"]) == backends | providers


def test_a_module_that_only_its_own_room_imports_is_private():
    """`cli`, `evaluation` and the adapters stand on top: no other room may import them at all."""
    known = {name for contract in CONTRACTS.values() for name in contract.get("protected_modules", ())}
    places = {name: by for name, by in house.importers(house.modules()).items() if by and name.count(".") > 1}
    private = {name for name, by in places.items() if all(room_of(other) == room_of(name) for other in by)}
    assert {name for name in private if room_of(name) not in ("cli", "evaluation", "adapters")} - known == set()


def room_of(module: str) -> str:
    return module.split(".")[1]
