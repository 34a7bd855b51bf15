"""The front door: the names others import, and what importing them does not drag in."""

from inspect import getmembers_static, isfunction
from pathlib import Path
from typing import get_type_hints

import summarizing_context
from summarizing_context import errors
from tests.docs.checkout import run_python

HEAVY = ["openai", "anthropic", "tiktoken", "typer", "rich", "amplifier_core", "bpe_openai", "numpy"]


def error_names() -> set[str]:
    classes = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    return {name for name, value in classes.items() if issubclass(value, errors.SummarizingContextError)}


def test_the_public_names_are_sorted_and_all_exist_and_every_error_is_one():
    names = summarizing_context.__all__
    assert list(names) == sorted(set(names))
    assert [name for name in names if not hasattr(summarizing_context, name)] == []
    assert error_names() - set(names) == set()


def test_every_error_is_drawn_in_the_tree():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert [name for name in error_names() if name not in page] == []


def test_the_hints_of_all_public_functions_methods_and_properties_resolve():
    values = [getattr(summarizing_context, name) for name in summarizing_context.__all__]
    members = [member for value in values if isinstance(value, type) for _, member in getmembers_static(value)]
    found = [getattr(one, "fget", None) or getattr(one, "__func__", one) for one in (*values, *members)]
    hinted = [one for one in found if isinstance(one, type) or isfunction(one)]
    assert len(hinted) > 200
    assert all(isinstance(get_type_hints(one), dict) for one in hinted)


def test_importing_the_package_needs_none_of_the_heavy_libraries():
    blocked = "\n".join(f"sys.modules[{name!r}] = None" for name in HEAVY)  # any import of them now fails
    done = run_python(["-c", f"import sys\n{blocked}\nimport summarizing_context as sc\nsc.Settings()"])
    assert done.returncode == 0, done.stdout
