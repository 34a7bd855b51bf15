"""Faults that the judge of real clients has to see."""

import ast
from pathlib import Path
from typing import Any

from evals.clients import rules
from evals.clients.judge import Verdict, judge
from evals.clients.upstream import Seen


def test_what_must_not_be_is_counted():
    wrong: list[dict[str, Any]] = [{"tokens": 101}, {"problem": "no"}, {"lost": ["result-1"]}]
    sent = {"thread": "t", "kind": "agent", "tokens": 10, "cached": 0}
    requests = [Seen(at, items=["a"] * (at > 1), **sent | more) for at, more in enumerate(wrong, 1)]
    records = [{"session": "s", "activation": None, "usage": {"output": at}} for at in (1, 2, 3)]
    verdict = Verdict("codex", "1", budget=100)
    judge(verdict, requests, {"records": records, "failures": 0, "last_failure": None})
    assert (verdict.above_budget, verdict.refused, verdict.lost, verdict.holds) == (1, 1, 1, False)


def test_the_judge_uses_nothing_of_what_it_judges():
    for path in Path(rules.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.startswith("summarizing_context")], path
