"""Which files may know which library, and what pure rooms may not do; import-linter keeps the layers."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Container, Iterator
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
    "filelock": ("evaluation/cassettes.py", "stores/"),
    "gepa": ("evaluation/tuning/gepa_prompts.py",),
    "langchain": ("adapters/langchain/",),
    "langchain_core": ("adapters/langchain/",),
    "httpx2": ("proxy/",),
    "mcp": ("adapters/mcp.py",),
    "numpy": ("stores/relational/vectors.py",),
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
    assert strangers == [], "give the library a row in HOMES"


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
SHARED_BY_STORES = ("base", "private_files", "requests")  # modules of `stores` that are no backend


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
    listed = set(CONTRACTS["concrete"]["forbidden_modules"])
    assert listed == backends | providers, "list them in the contract `concrete` of pyproject.toml"


def test_a_module_that_only_its_own_room_imports_is_private():
    """`cli` stands on top: no other room may import it at all."""
    known = {name for contract in CONTRACTS.values() for name in contract.get("protected_modules", ())}
    places = {name: by for name, by in house.importers(house.modules()).items() if by and name.count(".") > 1}
    private = {name for name, by in places.items() if all(room_of(other) == room_of(name) for other in by)}
    missing = {name for name in private if room_of(name) != "cli"} - known
    assert missing == set(), "list them in the room's contract `private-…` of pyproject.toml"


def room_of(module: str) -> str:
    return module.split(".")[1]


def functions_of(tree: ast.AST) -> set[str]:
    """Names of functions and methods, without properties."""
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any(ast.unparse(each).endswith(("property", ".setter")) for each in node.decorator_list)
    }


def values_of(tree: ast.AST) -> Iterator[str]:
    """Names of fields, variables, parameters and properties."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.FunctionDef) and not {node.name} & functions_of(node):
            yield node.name  # a property


def given_callbacks(tree: ast.AST, functions: Container[str]) -> Iterator[str]:
    """Assignments of a function, a lambda or a bound method to an attribute of another object, where these are the
    names of functions and methods."""
    for node in ast.walk(tree):
        left = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        values = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        for value in getattr(values, "elts", [values]):
            name = getattr(value, "attr", getattr(value, "id", None))
            is_partial = isinstance(value, ast.Call) and ast.unparse(value.func).endswith("partial")
            is_function = isinstance(value, ast.Lambda) or is_partial or name in functions
            for target in [each for group in left for each in getattr(group, "elts", [group])]:
                if is_function and isinstance(target, ast.Attribute):
                    owner = ast.unparse(target.value)
                    if owner not in ("self", "cls"):
                        yield f"{owner}.{target.attr} = {ast.unparse(value)}"


def test_no_callback_is_assigned_to_another_object():
    trees = {named(path): ast.parse(path.read_text(encoding="utf-8")) for path in modules()}
    functions = {name for tree in trees.values() for name in functions_of(tree)}
    functions -= {name for tree in trees.values() for name in values_of(tree)}
    found = {name: list(given_callbacks(tree, functions)) for name, tree in trees.items()}
    assert {name: assigned for name, assigned in found.items() if assigned} == {}


@pytest.mark.parametrize("callback", ["lambda: 1", "f", "partial(f)", "self.parts.f", "viewer.f"])
def test_an_assigned_callback_is_noticed(callback: str):
    for text in (f"a.b = {callback}", f"a.b, c = {callback}, 1"):
        assert list(given_callbacks(ast.parse(text), {"f"})) == [f"a.b = {ast.unparse(ast.parse(callback))}"]


@pytest.mark.parametrize("room", sorted(PACKAGE.rglob("__init__.py")), ids=lambda path: path.parent.name)
def test_a_room_says_what_it_is_for_and_names_only_parts_that_it_has(room: Path):
    source = room.read_text(encoding="utf-8")
    tree = ast.parse(source)
    stated = ast.get_docstring(tree)
    assert stated
    assert len(stated.splitlines()) <= 6
    parts = {path.stem for path in room.parent.iterdir()} | {room.parent.name}
    written = source[source.index('"""', 3) :]
    missing = [name for name in re.findall(r"`([a-z_]+)`", stated) if name not in parts]
    assert [name for name in missing if not re.search(rf"\b{name}\b", written)] == []
