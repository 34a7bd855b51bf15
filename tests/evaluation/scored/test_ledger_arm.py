"""The ledger as the evals see it: exact on generated sessions, in the view's block too."""

from __future__ import annotations

import pytest

from summarizing_context.evaluation.cases.generator.facts import domain_names
from summarizing_context.evaluation.runner import Plan, run_case
from tests.evaluation.scored.building import generated

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("domain", domain_names())
async def test_the_ledger_is_exact_on_generated_sessions(domain: str):
    session = await run_case(generated(domain, tokens=12_000), Plan(arms=("no-ledger",)))
    ours, without = session.sums["hierarchical"], session.sums["no-ledger"]
    for figure in ("ledger_recall", "ledger_precision", "artifact_recall", "artifact_precision"):
        right, of = ours[figure]
        assert right == of > 0, figure
    assert without["ledger_recall"][0] == 0
    assert without["artifact_recall"] < ours["artifact_recall"]
    assert ours["unsupported"][0] == 0
