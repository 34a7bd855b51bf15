"""A scripted client through the proxy, in front of the strict provider; and faults that the judge has to see."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from evals.clients import rules
from evals.clients.judge import Verdict, judge
from evals.clients.script import Plan, source_files
from evals.clients.scripted import Agent, sdk
from evals.clients.upstream import UNIQUE, Provider, Seen, provided
from tests.proxy.clients import proxied, status

BUDGET = 9_000


@pytest.mark.anyio
async def test_a_scripted_session_of_25_steps_holds():
    plan = Plan(25, cuts=(15,))
    provider = Provider(plan)
    async with provided(provider) as upstream, proxied(upstream, budget=BUDGET) as address:
        client = sdk(address)
        agent = Agent(client, source_files(plan.seed, size=1_500))
        words = [await agent.say("Read the files of src. Never push to main."), await agent.say("Go on.")]
        await client.close()
        told = await status(address)
    verdict = Verdict("scripted", "", "ours", budget=BUDGET)
    judge(verdict, provider.seen, told["records"], told)
    assert verdict.problems == []
    assert plan.cut_text(15) in words[0]
    assert plan.final in words[1]
    assert verdict.by_kind == {"agent": 27, "child": 7}
    assert verdict.sessions == 2
    assert verdict.activations >= 2
    assert verdict.above_budget == verdict.refused == verdict.unexplained == verdict.lost == 0
    assert verdict.cached > verdict.tokens / 2


@pytest.mark.anyio
async def test_what_a_clients_system_said_first_stands_in_every_view_with_the_effort_of_now():
    plan, opening = Plan(24, cuts=(12,), with_agent=False), "The folder is /shop. Agents: Explore, Plan."
    provider = Provider(plan)
    async with provided(provider) as upstream, proxied(upstream, budget=6_000) as address:
        client = sdk(address)
        agent = Agent(client, source_files(plan.seed, size=1_500), opening=opening)
        await agent.say("Read the files of src.")
        agent.effort = "low"
        await agent.say("Go on.")
        await client.close()
        told = await status(address)
    assert [each.problem for each in provider.seen if each.problem] == []
    requests = [[json.loads(item) for item in each.items] for each in provider.seen]
    system = [[item for item in items if item["role"] == "system"] for items in requests]
    assert all(opening in json.dumps(items[0]) for items in system)
    efforts = [items[-1]["output_config"]["effort"] for items in system]
    assert efforts == ["medium"] * 13 + ["low"] * 13
    assert sum(record["activation"] is not None for record in told["records"]) >= 2
    assert len(system[-1]) == 1  # the row with the new effort has left the view


def seen(number: int, items: list[str], **more: Any) -> Seen:
    values = {"dialect": "chat", "thread": "t", "kind": "agent", "tokens": 10, "cached": 0, "size": 9, **more}
    return Seen(number, items=items, **values)


def record(number: int | None, activation: str | None = None) -> dict[str, Any]:
    usage = None if number is None else {"output": UNIQUE + number}
    return {"session": "s", "activation": activation, "usage": usage}


def judged(requests: list[Seen], records: list[dict[str, Any]]) -> Verdict:
    verdict = Verdict("c", "1", "ours", budget=100)
    judge(verdict, requests, records, {"failures": 0, "last_failure": None})
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
