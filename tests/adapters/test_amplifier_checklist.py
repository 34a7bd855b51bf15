"""The table of fifty points is whole, and every test that it names exists."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.adapters.checklist import POINTS

TESTS = Path(__file__).parents[1]


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_there_are_fifty_points_and_each_names_a_test() -> None:
    assert sorted(POINTS) == list(range(1, 51))
    assert all(claim and tests for claim, tests in POINTS.values())


@pytest.mark.parametrize("number", sorted(POINTS))
def test_every_test_that_a_point_names_exists(number: int) -> None:
    for test in POINTS[number][1]:
        file, _, name = test.partition("::")
        assert name in functions(file), test
