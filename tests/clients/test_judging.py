"""Faults that the judge of real clients has to see."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from evals.clients import rules
from evals.clients.judge import Verdict, judge
from evals.clients.upstream import Seen


def seen(number: int, items: list[str], **more: Any) -> Seen:
    values = {"thread": "t", "kind": "agent", "tokens": 10, "cached": 0, **more}
    return Seen(number, items=items, **values)


def record(number: int | None, activation: str | None = None) -> dict[str, Any]:
    usage = None if number is None else {"output": number}
    return {"session": "s", "activation": activation, "usage": usage}


def judged(requests: list[Seen], records: list[dict[str, Any]]) -> Verdict:
    verdict = Verdict("codex", "1", budget=100)
    judge(verdict, requests, {"records": records, "failures": 0, "last_failure": None})
    return verdict


def test_what_must_not_be_is_counted():
    requests = [seen(1, [], tokens=101), seen(2, ["a"], problem="no"), seen(3, ["a"], lost=["result-1"])]
    verdict = judged(requests, [record(1), record(2), record(3)])
    assert (verdict.above_budget, verdict.refused, verdict.lost, verdict.holds) == (1, 1, 1, False)


def test_the_judge_uses_nothing_of_what_it_judges():
    for path in Path(rules.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.startswith("summarizing_context")], path
