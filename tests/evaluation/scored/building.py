"""Builders for tests of the evals: small sessions, probes, cases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from summarizing_context.evaluation.cases.hindsight import with_hindsight
from summarizing_context.evaluation.cases.model import Case, Cut, Probe
from summarizing_context.evaluation.cases.sessions import Recipe, generate_case


def says(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def call(id: str, tool: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": id, "type": "function", "function": function}]}


def result(id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


FILLER = [says("assistant" if n % 2 else "user", f"{n} more about nothing in particular " * 12) for n in range(12)]


def case(messages: Sequence[dict[str, Any]], *probes: Probe, at: int | None = None, budget: int = 400) -> Case:
    place = len(messages) if at is None else at
    return Case(id="c", messages=tuple(messages), cuts=(Cut(at=place, budget=budget),), probes=probes)


def probe(kind: Any, *literals: str, cut: int = 0, **fields: Any) -> Probe:
    return Probe(id=f"{kind}-1", kind=kind, cut=cut, question="?", literals=literals, **fields)


@cache
def generated(domain: str = "software", tokens: int = 9_000, budget: int = 3_000) -> Case:
    """One generated session with hindsight labels, made once."""
    return with_hindsight(generate_case(Recipe(domain=domain, seed=5, tokens=tokens, budget=budget)))
