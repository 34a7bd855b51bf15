"""within_budget: no view is over its budget; a refusal comes only when the leading system rows leave no room."""

from __future__ import annotations

import random

import pytest

from summarizing_context import Settings, message_text_parts, open_context
from summarizing_context.errors import BudgetError

from .builders import DIALECTS, assistant, call, count, result, session, system, user, words
from .checkers import view_tokens
from .judge import replay, watched
from .summarizers import Counting


@pytest.mark.parametrize("budget", [700, 1_500, 4_000, 16_000])
async def test_views_stay_inside_the_budget_and_use_it(budget: int) -> None:
    async with watched(Counting(), budget=budget) as judge:
        await replay(judge, session(15, 300, size=min(60, budget // 20)))
        assert judge.views > 50
        if budget < 10_000:
            assert judge.activations > 0
        assert judge.context.last_view.tokens > budget // 5


async def test_one_log_is_shown_at_changing_budgets() -> None:
    async with watched(Counting(), budget=4_000) as judge:
        await replay(judge, session(16, 150))
        for budget in (4_000, 1_000, 2_000, 500, 300, 8_000, 100_000, 400, 4_000):
            await judge.view(budget)
            await judge.add(user("go on"))
        assert judge.refused == 0
        assert judge.context.statistics().activations_by_reason.get("budget_lowered", 0) > 0


@pytest.mark.parametrize("spare", [40, 41, 100])
async def test_a_view_is_given_when_forty_tokens_are_left_beside_the_system_rows(spare: int) -> None:
    rules = system("rule " * 400)
    needed = view_tokens([rules], count, 0, message_text_parts)
    async with watched(Counting(), budget=needed + spare) as judge:
        await judge.add(rules, *session(17, 80, rules="", size=30))
        await judge.context.wait_idle()
        assert await judge.view()
        assert judge.refused == 0
        assert judge.covered > 0


async def test_a_refusal_says_which_rows_and_how_many_tokens() -> None:
    rules = [system("rule " * 400), system("more " * 100, role="developer")]
    needed = view_tokens(rules, count, 0, message_text_parts)
    async with watched(Counting(), budget=needed - 1) as judge:
        await judge.add(*rules, user("hello"))
        with pytest.raises(BudgetError) as refusal:
            await judge.context.get_messages_for_request()
        error = refusal.value
        assert error.budget_tokens == needed - 1
        assert error.required_tokens > error.budget_tokens
        assert error.rows == ((0, count("rule " * 400) + 4), (1, count("more " * 100) + 4))
        assert await judge.view(needed + 400)


async def test_images_are_priced_and_base64_is_not_text() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" * 5_000}}
    rows = [user([{"type": "text", "text": "look"}, picture]), call("anthropic", ("s", "shot", {}))]
    rows.append(result("anthropic", "s", [{"type": "text", "text": "the page"}, picture]))
    async with watched(Counting(), budget=20_000) as judge:
        await judge.add(*rows)
        assert await judge.view() == rows
        assert 3_200 < judge.context.last_view.tokens < 3_300
    async with watched(Counting(), budget=2_500) as judge:
        await judge.add(*rows)
        assert await judge.view()


@pytest.mark.parametrize("seed", [147, 223])
async def test_pins_and_thinking_that_come_and_go_stay_inside_a_small_budget(seed: int) -> None:
    rng = random.Random(seed)
    budget, dialect, strategy = (
        rng.choice((90, 100, 110, 120)),
        rng.choice(DIALECTS),
        rng.choice(("summarize", "hierarchical")),
    )
    thought = {"type": "thinking", "thinking": "so be it", "signature": "Sig" * 9}
    settings = Settings(
        max_tokens=budget,
        strategy=strategy,
        safety_margin=0,
        segment_min=50,
        segment_target=150,
        segment_max=300,
        summary_max_tokens=16,
        header_role=rng.choice(("user", "system")),
    )
    async with open_context(settings, count_tokens=count) as context:
        for turn in range(rng.randint(10, 30)):
            kind = rng.random()
            if kind < 0.25:
                rows = [user(words(rng, rng.randint(1, 50)))]
            elif kind < 0.4:
                rows = [assistant(words(rng, rng.randint(1, 40)))]
            elif kind < 0.5:
                rows = [user([{"type": "hologram", "depth": [1, None, 2.5]}])]
            elif kind < 0.65:
                rows = [assistant([thought])]
            elif kind < 0.75:
                said = {"type": "text", "text": words(rng, 9)}
                rows = [user("Never touch alpha."), assistant([thought, said])]
            else:
                rows = [call(dialect, (f"c{turn}", "read", {"path": "a"}))]
                rows += [result(dialect, f"c{turn}", words(rng, rng.randint(1, 20)))] if rng.random() < 0.6 else []
            for row in rows:
                await context.add_message(row)
            if rng.random() < 0.25:
                if context.pins() and rng.random() < 0.5:
                    await context.unpin(context.pins()[0].id)
                else:
                    await context.pin("Be brief.")
            try:
                await context.get_messages_for_request(budget)
            except BudgetError:
                continue
            assert context.last_view is not None
            assert context.last_view.tokens <= budget
