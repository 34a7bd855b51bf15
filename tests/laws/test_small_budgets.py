"""Budgets of 100 to 4,000 tokens give lawful views and no error while messages are smaller than a quarter of them."""

from __future__ import annotations

import random

import pytest

from .amounts import ALL
from .builders import DIALECTS, Message, assistant, call, result, system, user, words
from .judge import SMALL, watched
from .summarizers import Counting

pytestmark = pytest.mark.anyio


def small_log(budget: int, dialect: str, rows: int) -> list[Message]:
    """Turns with calls, every message well below a quarter of the budget."""
    rng, most = random.Random(budget), budget // 4 - 14
    log = [system("Be brief.")]
    while len(log) < rows:
        size = lambda: rng.randint(1, most)  # noqa: E731
        n = len(log)
        log += [user(words(rng, size())), call(dialect, (f"c{n}", "run", {}))]
        log += [result(dialect, f"c{n}", words(rng, size())), assistant(words(rng, size()))]
        if rng.random() < 0.3:
            log += [call(dialect, (f"d{n}", "a", {}), (f"e{n}", "b", {}))]
            log += [result(dialect, f"e{n}", words(rng, size())), result(dialect, f"d{n}", words(rng, size()))]
            log += [assistant("ok")]
    return log


SOME = DIALECTS if ALL else DIALECTS[:1]  # the size of segments does not depend on how calls are written
ENDS = (100, 1_000, 4_000)  # budgets of which the gate tries each dialect
ROWS = 160 if ALL else 110
LARGE = {"segment_min": 2_000, "segment_target": 4_000, "segment_max": 8_000, "summary_max_tokens": 400}


BUDGETS = (100, 500, 1_000, 2_000, 4_000)
CASES: list[tuple[int, str, dict[str, int]]] = [
    *((budget, dialect, SMALL) for budget in BUDGETS for dialect in (DIALECTS if ALL or budget in ENDS else SOME)),
    *((budget, dialect, LARGE) for budget in BUDGETS for dialect in SOME),
]


@pytest.mark.parametrize(("budget", "dialect", "segments"), CASES)
async def test_a_small_budget_gives_lawful_views(budget: int, dialect: str, segments: dict[str, int]) -> None:
    async with watched(Counting(), budget=budget, **segments) as judge:
        for message in small_log(budget, dialect, ROWS):
            await judge.add(message)
            assert await judge.view()
        assert judge.refused == 0
        assert judge.activations > 1
        assert judge.covered > 40


@pytest.mark.parametrize("budget", [100, 500, 1_000])
async def test_a_long_log_is_set_and_shown_at_once(budget: int) -> None:
    async with watched(None, budget=budget) as judge:
        await judge.set(small_log(budget, "openai", 600))
        assert await judge.view()
        assert judge.covered > 500
