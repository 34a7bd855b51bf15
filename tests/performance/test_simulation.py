"""The cost simulation: does it price what it says, move time alone, and notice what it claims is not?"""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from evals.performance.simulation.__main__ import problems
from evals.performance.simulation.baselines import Baseline
from evals.performance.simulation.bill import READ, WRITE, Bill, Requests
from evals.performance.simulation.ours import Outcome, Plan, simulate
from evals.performance.simulation.report import row_of_ours
from evals.performance.simulation.workload import Texts, messages, opening, steps
from summarizing_context.messages.estimate import MESSAGE_TOKENS, estimate_text
from summarizing_context.messages.reading import message_text_parts

pytestmark = pytest.mark.anyio
SMALL = {"max_tokens": 60_000, "low_water": 0.1, "min_free": 0.05, "segment_min": 500}
SMALL |= {"segment_target": 1_000, "segment_max": 2_000, "summary_max_tokens": 100, "header_target": 0.06}
LENGTH = 120  # steps


def plan(**settings: object) -> Plan:
    return Plan("small", LENGTH, 1, settings={**SMALL, **settings})


def test_the_bill_reads_what_two_requests_begin_with_and_writes_the_rest():
    requests = Requests(lambda message: len(message["content"]))
    requests.send([{"content": "a" * 100}, {"content": "b" * 10}], cold=False)
    requests.send([{"content": "a" * 100}, {"content": "b" * 10}, {"content": "c" * 20}], cold=False)
    assert (requests.bill.read, requests.bill.written, requests.bill.breaks) == (110, 130, 0)
    requests.send([{"content": "a" * 50 + "d" * 50}], cold=False)
    assert 110 + 45 < requests.bill.read < 110 + 70
    assert requests.bill.breaks == 1
    requests.send([{"content": "a" * 50 + "d" * 50}], cold=True)
    assert requests.bill.breaks == 1
    assert requests.bill.hit < 0.5


def test_a_step_costs_its_tokens_at_their_prices_and_its_share_of_the_summaries():
    bill = Bill(steps=2, read=1_000, written=100, summarizer_input=300, summarizer_output=30)
    assert bill.per_step == pytest.approx((READ * 1_000 + WRITE * 100 + (300 + 5 * 30) / 3) / 2)


def test_the_sizes_are_those_of_real_sessions_and_the_messages_have_them():
    sizes = sorted(step.tokens for step in steps(20_000, 1))
    assert sizes[10_000] == pytest.approx(770, rel=0.05)
    assert sizes[18_000] == pytest.approx(3_300, rel=0.05)
    assert sum(sizes) / 20_000 == pytest.approx(1_470, rel=0.05)
    assert steps(100, 2) == steps(200, 2)[:100]
    texts = Texts(1)
    shown = [cost(message) for at, step in enumerate(steps(200, 1)) for message in messages(at, step, texts)]
    assert sum(shown) == pytest.approx(sum(step.tokens for step in steps(200, 1)), rel=0.03)
    assert cost(opening(texts)[0]) == pytest.approx(20_000, rel=0.02)


def cost(message: dict) -> int:
    return MESSAGE_TOKENS + sum(map(estimate_text, message_text_parts(message)))


@pytest.fixture(scope="module")
def fidelity() -> Outcome:
    return anyio.run(simulate, plan())


async def test_a_short_session_never_waits_breaks_only_where_it_activates_and_is_cheaper_with_economy(
    fidelity: Outcome,
):
    economy = await simulate(plan(band="economy"))
    for outcome in (fidelity, economy):
        assert outcome.bill.steps == LENGTH
        assert outcome.bill.read + outcome.bill.written == pytest.approx(outcome.view_tokens)
        assert outcome.blocking == 0
        assert 2 <= outcome.passes <= outcome.bound
        assert outcome.merges <= 1
        assert outcome.activations["high_water"] <= outcome.bill.breaks <= outcome.activations.total() > 3
        assert outcome.bill.summarizer_input > 0.9 * (outcome.log_tokens - 60_000)
    assert economy.bill.per_step < fidelity.bill.per_step
    assert problems([row_of_ours("economy", 6_000, [economy]), row_of_ours("fidelity", 6_000, [fidelity])]) == []


async def test_equal_plans_cost_the_same(fidelity: Outcome):
    again = await simulate(plan())
    # which of two summaries of one instant is asked for first may move the end of a cached prefix by a character
    same = replace(again.bill, read=fidelity.bill.read, written=fidelity.bill.written)
    assert (same, again.activations) == (fidelity.bill, fidelity.activations)
    assert again.bill.read == pytest.approx(fidelity.bill.read, rel=1e-6)


async def test_views_that_wait_are_noticed_and_told():
    outcome = await simulate(plan(max_wait=30.0)._replace(length=60), patience=0.01)
    assert outcome.blocking > 0
    row = row_of_ours("economy", 6_000, [outcome])
    assert any("waited" in problem for problem in problems([row]))


def test_costs_that_grow_and_facts_passed_on_too_often_are_told():
    row = {"manager": "ours, economy", "cost_per_step": 9, "blocking_calls": 0, "max_passes": 9, "passes_bound": 5}
    best = {**row, "manager": "ours, best", "cost_per_step": 5, "max_passes": 1, "cost_change_with_size_percent": 7.0}
    assert len(problems([row, best])) == 3


def test_baselines_summarize_late_or_early_and_block_or_merge():
    late, early, frozen = (
        Baseline(kind, 200_000, 20_000, 7_000, idle=False).run(steps(400, 1))
        for kind in ("single shot", "anchored summary", "frozen")
    )
    assert (late.blocking, late.passes) == (late.bill.breaks, late.bill.breaks)
    assert early.blocking > 3 * late.blocking > 0
    assert early.bill.per_step < late.bill.per_step
    assert (frozen.blocking, frozen.passes > 20) == (0, True)
