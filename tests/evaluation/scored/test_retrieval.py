"""What leads back to what a view leaves out, counted."""

from __future__ import annotations

import pytest

from summarizing_context.evaluation.arms.views import ArmView, Piece
from summarizing_context.evaluation.cases.model import Probe
from summarizing_context.evaluation.runner import Plan, measure_retrieval, run_case
from tests.evaluation.scored.building import generated

pytestmark = pytest.mark.anyio

VIEW = ArmView(pieces=(Piece("summary", "It was src/shown.py."),), tokens=9)


class Arm:
    """A view of one node over the first ten messages."""

    def drops(self) -> dict[range, tuple[str, ...]]:
        return {range(10): ("src/named.py",)}

    async def paragraph(self, node: range, tokens: int) -> str:
        return "On this page: src/paged.py"

    async def hits(self, query: str, limit: int) -> list[range]:
        return [range(3, 5)] if query == "where?" else []


def used(value: str, at: int) -> Probe:
    return Probe(id=value, kind="used", cut=20, question="?", literals=(value,), evidence=(at,))


def asked(question: str, at: int) -> Probe:
    return Probe(id=question, kind="recall", cut=20, question=question, literals=("x",), evidence=(at,))


async def test_only_values_that_a_node_covers_and_the_view_leaves_out_are_counted():
    probes = [used(f"src/{name}.py", 2) for name in ("shown", "named", "paged", "lost")] + [used("src/named.py", 15)]
    sums = await measure_retrieval(Arm(), VIEW, probes)
    assert (sums["hinted"], sums["drilled"]) == ((1, 3), (1, 3))


async def test_a_search_has_found_where_a_hit_holds_the_evidence():
    sums = await measure_retrieval(Arm(), VIEW, [asked("where?", 4), asked("where?", 5), asked("who?", 4)])
    assert sums["searched"] == (1, 3)


async def test_a_run_has_these_figures_for_the_reference_arm_alone():
    session = await run_case(generated(), Plan(arms=("tail",)))
    ours, tail = session.sums["hierarchical"], session.sums["tail"]
    assert ours["searched"][0] > 0.5 * ours["searched"][1] > 0
    assert not {"hinted", "drilled", "searched"} & set(tail)
