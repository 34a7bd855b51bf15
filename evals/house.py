"""Report the size of the package beside its budget, and how far a call travels through it.

    python -m evals.house

The budgets are those of the design (lines of Python a room, give or take a fifth). Numeric constants are names of
modules and classes that hold a number; regular expressions are calls of `re.compile`; caches are decorators and
classes of `functools` that remember. A test file uses public names alone if it imports nothing of the package but
the names of `summarizing_context`, its errors, its test fakes, and the modules that the documents name.
"""

from __future__ import annotations

import ast
import asyncio
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from evals.performance.travel import measure

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "summarizing_context"

BUDGETS = {  # lines; a room of today stands in the row of the room that it becomes
    "errors": 220, "concurrency": 120, "settings": 400, "messages": 1_900, "facts": 850, "stores": 1_900, "log": 1_500,
    "summarizers": 2_500, "worker": 900, "views": 2_300, "session": 1_000, "retrieval": 1_500, "context": 450,
    "commands": 350, "assembly": 250, "transcripts": 1_600, "adapters": 2_500, "cli": 1_800, "evaluation": 3_200,
    "contrib": 4_000,
}  # fmt: skip
BECOMES = {"extraction": "facts", "sessions": "session"}
TOTALS = {"summarizing_context": 30_000, "tests": 24_000, "evals": 3_000}

PUBLIC = (  # modules that the documents name
    "summarizing_context.adapters.",
    "summarizing_context.cli",
    "summarizing_context.contrib.",
    "summarizing_context.errors",
    "summarizing_context.evaluation",
    "summarizing_context.testing",
    "summarizing_context.transcripts",
)
CACHES = {"lru_cache", "cached_property"}  # and the decorator `cache`


def lines(path: Path) -> int:
    """Return the number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def files(folder: Path) -> list[Path]:
    """Return the Python files of a folder, without those of environments that were made in it."""
    return [path for path in folder.rglob("*.py") if ".environments" not in path.parts]


def rooms() -> dict[str, int]:
    """Return the lines of Python of each room, by the name that the room has in the design."""
    found: Counter[str] = Counter()
    for path in files(PACKAGE):
        inner = path.relative_to(PACKAGE).with_suffix("")
        names = (inner.parts[0], "/".join(inner.parts[:2]))
        room = next((BECOMES[name] for name in names if name in BECOMES), inner.parts[0])
        found[room if room in BUDGETS else "others"] += lines(path)
    return dict(found)


def costs() -> dict[str, int]:
    """Count what a maintainer must carry beside lines: constants, expressions, tuples with names, caches."""
    found = Counter(modules=0, numeric_constants=0, regular_expressions=0, named_tuples=0, caches=0)
    for path in files(PACKAGE):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found["modules"] += 1
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
                found["regular_expressions"] += 1
            elif isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "NamedTuple" for base in node.bases):
                found["named_tuples"] += 1
            elif isinstance(node, ast.Name) and node.id in CACHES:
                found["caches"] += 1
            if isinstance(node, ast.FunctionDef):
                found["caches"] += sum(ast.unparse(one) == "cache" for one in node.decorator_list)
            if isinstance(node, ast.Module | ast.ClassDef):
                found["numeric_constants"] += sum(map(_is_numeric_constant, node.body))
    return dict(found)


def _is_numeric_constant(node: ast.stmt) -> bool:
    """Return whether a statement gives a number to a name in capitals."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    if not isinstance(target, ast.Name) or not target.id.isupper():
        return False
    numbers = [part for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
    simple = isinstance(node.value, ast.Constant | ast.BinOp | ast.UnaryOp)
    return simple and bool(numbers) and all(isinstance(part.value, int | float) for part in numbers)


def uses_public_names_alone(source: str) -> bool:
    """Return whether a test imports nothing of the package that the documents do not name."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "summarizing_context":
            names = [f"{node.module}.{alias.name}" for alias in node.names if (PACKAGE / alias.name).is_dir()]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.startswith("summarizing_context.") and not name.startswith(PUBLIC):
                return False
    return True


def tests() -> dict[str, int]:
    """Return the lines of all tests, and of those that use public names alone."""
    found = Counter(lines=0, public=0)
    for path in files(ROOT / "tests"):
        found["lines"] += lines(path)
        found["public"] += lines(path) if uses_public_names_alone(path.read_text(encoding="utf-8")) else 0
    return dict(found)


def main() -> None:
    """Count and show."""
    console, by_room = Console(), rooms()
    shown = Table("room", "lines", "budget", "over", title="The house", title_justify="left")
    for column in shown.columns[1:]:
        column.justify = "right"
    for room in [*BUDGETS, *sorted(set(by_room) - set(BUDGETS))]:
        there, budget = by_room.get(room, 0), BUDGETS.get(room, 0)
        shown.add_row(room, f"{there:,}", f"{budget:,}", f"{there / budget - 1:+.0%}" if budget else "")
    shown.add_section()
    totals = {name: sum(map(lines, files(ROOT / name))) for name in TOTALS}
    for name, budget in TOTALS.items():
        shown.add_row(name, f"{totals[name]:,}", f"{budget:,}", f"{totals[name] / budget - 1:+.0%}")
    console.print(shown)
    counted, tested = costs(), tests()
    console.print(", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in counted.items()))
    console.print(f"{tested['public'] / tested['lines']:.0%} of the lines of tests use public names alone")
    console.print(asyncio.run(measure(300, 16_000)))


if __name__ == "__main__":
    main()
