"""The README keeps its word: its Python runs as it stands, and its table of settings is the truth.

A block that opens with ```python is run by itself in an empty folder, without a key. A row of the table names one or
more settings in its first cell, each in backticks, and their defaults in the second: one for each, or one for all.
"""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import Any

import pytest

from summarizing_context.settings import Settings
from tests.house.checkout import ROOT, run_python

README = ROOT / "README.md"
DEFAULTS: dict[str, Any] = {setting.name: setting.default for setting in dataclasses.fields(Settings)}


def text() -> str:
    return README.read_text(encoding="utf-8") if README.exists() else ""


def python_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text(), re.MULTILINE | re.DOTALL)


def table_of_settings() -> dict[str, str]:
    """Each setting that the README's table names, with the default that it shows."""
    told: dict[str, str] = {}
    for row in re.findall(r"^\|(.*)\|\s*$", text(), re.MULTILINE):
        cells = [cell.strip() for cell in row.split("|")]
        names = re.findall(r"`([a-z_]+)`", cells[0])
        if names and all(name in DEFAULTS for name in names):
            shown = cells[1].split(", ")
            told |= dict(zip(names, shown if len(shown) > 1 else shown * len(names), strict=True))
    return told


def ways_to_write(default: Any) -> set[str]:
    if isinstance(default, str):
        return {f"{quote}{default}{quote}" for quote in ('"', "'", "")}
    if isinstance(default, bool | tuple) or default is None:
        return {str(default), str(default).lower()}
    return {f"{default}", f"{default:,}", f"{default:g}", f"{default:.2f}"}


def test_the_readme_shows_how_to_use_the_library():
    assert python_blocks()


@pytest.mark.parametrize("block", python_blocks(), ids=lambda block: block.strip().splitlines()[0][:40])
def test_the_readmes_python_runs_as_it_stands(block: str, tmp_path: Path):
    script = tmp_path / "readme_block.py"
    script.write_text(block, encoding="utf-8")
    keys = {name: "" for name in os.environ if name.endswith("_API_KEY")}
    for _ in range(1 + ("store=" in block)):  # what keeps a file is run again on it, as readers do
        done = run_python([str(script)], cwd=tmp_path, env={"PYTHONPATH": str(ROOT), **keys})
        assert done.returncode == 0, done.stdout


def test_the_table_of_settings_names_every_setting():
    assert DEFAULTS.keys() - table_of_settings().keys() == set()


def test_the_table_of_settings_shows_the_true_defaults():
    told = table_of_settings()
    wrong = {name: shown for name, shown in told.items() if shown.strip("`") not in ways_to_write(DEFAULTS[name])}
    assert wrong == {}
