"""The package as a house: files and lines of each room, modules with a single importer, and what it takes to start.

    python -m evals.performance.house [--json house.json]

A room is a folder of the package; modules beside them are counted together. A name that a room exports from its
`__init__` is imported from the module that holds it; the `__init__` itself is no importer. Times are the least of
several fresh processes.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

import summarizing_context
from summarizing_context.cli.output import table

PACKAGE = Path(summarizing_context.__file__).parent
NAME = PACKAGE.name
HEAVY = ("openai", "anthropic", "typer", "rich", "tiktoken", "httpx")
RUNS = 5
_START = f"""
import json, sys, time
began = time.perf_counter()
import {NAME}
seconds = time.perf_counter() - began
ours = sum(name.split(".")[0] == "{NAME}" for name in sys.modules)
print(json.dumps([seconds, ours, len(sys.modules), [name for name in {HEAVY} if name in sys.modules]]))
"""


class Start(NamedTuple):
    """What it takes to import the package, and to print the help of its command."""

    import_seconds: float
    our_modules: int
    all_modules: int
    heavy: list[str]  # of `HEAVY`, what is loaded
    help_seconds: float


def modules() -> dict[str, ast.Module]:
    """Every module of the package by its name, parsed."""
    files = {path: ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
    return {name: ast.parse(path.read_text(encoding="utf-8")) for path, name in sorted(files.items())}


def rooms() -> dict[str, tuple[int, int]]:
    """Files and lines by room."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0] if path.parent != PACKAGE else "."
        files, lines = found[room]
        found[room] = files + 1, lines + len(path.read_text(encoding="utf-8").splitlines())
    return dict(found)


def importers(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """The modules that import each module, in functions and for types too."""
    known = {name.removesuffix(".__init__") for name in trees}
    exported = {
        (name.removesuffix(".__init__"), alias): module
        for name, tree in trees.items()
        if name.endswith(".__init__")
        for module, alias in imports(name, tree, known)
    }
    found: dict[str, set[str]] = {name: set() for name in trees if not name.endswith("__init__")}
    for name, tree in trees.items():
        for module, alias in imports(name, tree, known):
            holder = exported.get((module, alias), module)
            if not name.endswith("__init__") and holder in found and holder != name:
                found[holder].add(name)
    return found


def imports(name: str, tree: ast.Module, known: set[str]) -> Iterator[tuple[str, str]]:
    """What a module imports of the package: modules, and the names that are taken of them."""
    package = name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                if inner in known or module in known:
                    yield (inner, "") if inner in known else (module, alias.name)


def start() -> Start:
    """Measure in fresh processes."""
    told, helped = [], []
    for _ in range(RUNS):
        told.append(json.loads(subprocess.run([sys.executable, "-c", _START], check=True, capture_output=True).stdout))
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", NAME, "--help"], check=True, capture_output=True)
        helped.append(time.perf_counter() - began)
    seconds, ours, everything, heavy = min(told)
    return Start(round(seconds, 3), ours, everything, heavy, round(min(helped), 3))


def main() -> None:
    """Read the command line, measure, show and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found, places, began = rooms(), importers(modules()), start()
    single = {name: next(iter(by)) for name, by in places.items() if len(by) == 1}
    shown = table("Rooms", "room", "#files", "#lines", wide="room")
    for room, (files, lines) in sorted(found.items()):
        shown.add_row(room, f"{files:,}", f"{lines:,}")
    shown.add_section()
    shown.add_row("all", *(f"{sum(column):,}" for column in zip(*found.values(), strict=True)))
    console = Console()
    console.print(shown)
    console.print(f"{len(single)} of {len(places)} modules are imported from one place only.")
    console.print(
        f"import: {began.import_seconds} s, {began.our_modules} modules of the package of {began.all_modules}, "
        f"heavy ones: {', '.join(began.heavy) or 'none'}; --help: {began.help_seconds} s"
    )
    if given.json is not None:
        document = {"rooms": found, "single_importer": single, "start": began._asdict()}
        given.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
