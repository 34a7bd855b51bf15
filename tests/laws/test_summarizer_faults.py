"""Whatever the summarizer does, views stay lawful."""

from typing import Any

import anyio
import pytest

from .amounts import ALL
from .builders import session
from .faults import FLAKY, Lying
from .judge import watched
from .summarizers import Failing, Sleeping

QUICK: dict[str, Any] = {"call_timeout": 0.2, "attempts": 2, "breaker_failures": 4, "breaker_cooldown": 0.05}
FAULTY = {"sleeping": Sleeping, "failing": Failing, "flaky": lambda: Lying(*FLAKY)}
NO_SUMMARY = ["empty", "echo", "number", "nothing", "bytes"]


@pytest.mark.parametrize("kind", [*FAULTY, *(NO_SUMMARY if ALL else ["echo"])])
async def test_views_stay_lawful_with_a_summarizer_that_is(kind: str) -> None:
    summarizer = FAULTY[kind]() if kind in FAULTY else Lying(kind)
    with anyio.fail_after(120):
        async with watched(summarizer, budget=2_000, **QUICK) as judge:
            await judge.live(session(45, 170))
            statistics = judge.context.statistics()
            assert judge.activations > 3
            assert judge.covered > 70
            assert 0 < summarizer.calls <= statistics.model_calls + 8  # those in flight may be in one count only
            assert statistics.model_calls <= summarizer.calls + 8
            assert statistics.stand_ins > 0 or kind == "flaky"
            await judge.view(1_000)
            await judge.check_log()


@pytest.mark.parametrize("kind", NO_SUMMARY)
async def test_a_reply_that_cannot_serve_is_refused_and_never_shown(kind: str) -> None:
    summarizer = Lying(kind)
    async with watched(summarizer, budget=2_000, **QUICK) as judge:
        await judge.add(*session(46, 150))
        await judge.view()
        await judge.context.wait_idle()
        statistics = judge.context.statistics()
        assert statistics.refused_replies > 0
        assert statistics.summaries_failed > 0
        assert statistics.last_error


async def test_failures_open_the_breaker_and_calls_stop() -> None:
    summarizer = Failing()
    async with watched(summarizer, budget=2_000, **{**QUICK, "breaker_cooldown": 3_600.0}) as judge:
        await judge.live(session(47, 200))
        await judge.context.wait_idle()
        assert judge.context.statistics().breaker == "open"
        assert summarizer.calls <= 4 * 2 + 8
        assert judge.activations > 2
