"""within_budget: no view is over its budget; a refusal comes only when the leading system rows leave no room."""

import pytest

from summarizing_context.errors import BudgetError

from .builders import call, count, result, session, system, user
from .judge import replay, watched
from .summarizers import Counting


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
    async with watched(Counting(), budget=count(rules["content"]) + 4 + spare) as judge:
        await judge.add(rules, *session(17, 80, rules="", size=30))
        await judge.context.wait_idle()
        assert await judge.view()
        assert judge.covered > 0


async def test_a_refusal_says_which_rows_and_how_many_tokens() -> None:
    rules = [system("rule " * 400), system("more " * 100, role="developer")]
    rows = tuple((at, count(row["content"]) + 4) for at, row in enumerate(rules))
    needed = sum(tokens for _, tokens in rows)
    async with watched(Counting(), budget=needed - 1) as judge:
        await judge.add(*rules, user("hello"))
        with pytest.raises(BudgetError) as refusal:
            await judge.context.get_messages_for_request()
        assert (refusal.value.budget_tokens, refusal.value.rows) == (needed - 1, rows)
        assert refusal.value.required_tokens > needed - 1
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
