"""Budgets that go down and up again, by request and by restart: what is shown again, and what stays as it was."""

import logging
import random
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import BudgetError, Settings, SummarizingContext, open_context
from tests.behaviour.contexts import fill, reason, said
from tests.laws.builders import Message
from tests.laws.checkers import order_problems, prefix_problems, tool_safe_problems

BUDGETS = (300, 500, 4_000, 16_000, 200_000)


def settings(path: Path | str = ":memory:", **others: Any) -> Settings:
    return Settings(**{"store": path, "session_id": "s", "token_counter": "estimate", "max_tokens": 200_000, **others})


async def view(context: SummarizingContext, budget: int) -> list[Message]:
    return await context.get_messages_for_request(token_budget=budget)


async def test_a_larger_budget_shows_again_what_a_smaller_one_had_no_room_for():
    async with open_context(settings()) as context:
        for number in range(60):
            await context.add_message(said(number, "word " * 100))
            await view(context, 4_000)
        assert len(await view(context, 4_000)) < 60
        assert await view(context, 200_000) == await context.get_messages()
        assert reason(context) == "budget_raised"


@pytest.mark.parametrize("smaller", [(300, 4_000), (500, 20_000)])
async def test_a_small_request_between_large_ones_costs_the_large_ones_nothing(smaller, tmp_path):
    """By the same process, and by one that is started again."""
    async with open_context(settings(tmp_path / "a.db", max_tokens=40_000)) as context:
        await fill(context, (said(number, "word " * 400) for number in range(110)), every=1)
        assert context.statistics().activations > 0
        before = await view(context, 40_000)
        for number in range(110, 116):
            await context.add_message(said(number, "word " * 10))
            for small in smaller:
                await view(context, small)
            after = await view(context, 40_000)
            assert (prefix_problems(before, after), reason(context)) == ([], None)
            before = after
    async with open_context(settings(tmp_path / "a.db", max_tokens=40_000)) as context:
        assert (await view(context, 40_000), reason(context)) == (before, None)
        for small in smaller:
            little = await view(context, small)
            assert reason(context) is None, "its view is kept as well"
            assert (await view(context, 40_000), await view(context, small)) == (before, little)


@pytest.mark.parametrize("seed", range(2))
async def test_any_order_of_budgets_by_request_and_by_restart(seed: int, tmp_path: Path):
    """Each view is lawful and shows of the newest message what a fresh session shows; at an equal budget it goes on
    from the one before, unless it is told."""
    draw, raised, whole, wide = random.Random(seed), 0, 0, 0
    log, last = list[Message](), dict[int, list[Message]]()
    for _ in range(9):
        most = draw.choice(BUDGETS)
        async with open_context(settings(tmp_path / "a.db", max_tokens=most)) as context:
            for _ in range(draw.randrange(1, 8)):
                for _ in range(draw.randrange(3)):
                    log.append(said(len(log), "word " * draw.choice([1, 20, 200, 1_000])))
                    await context.add_message(log[-1])
                if not log:
                    continue
                budget = draw.choice([*BUDGETS, None])
                shown, at = await context.get_messages_for_request(token_budget=budget), budget or most
                assert context.last_view.tokens <= at
                assert tool_safe_problems(shown) + order_problems(shown, log) == []
                if reason(context) is None:
                    assert prefix_problems(last.get(at, []), shown) == [], at
                last[at] = shown
                raised += reason(context) == "budget_raised"
                whole += shown[-1] == log[-1]
                if shown[-1] != log[-1]:
                    async with open_context(settings()) as fresh:
                        await fresh.set_messages(log)
                        assert (await view(fresh, at))[-1] != log[-1], at
                    wide += 1
    assert min(raised, whole, wide) > 0


async def test_a_larger_budget_covers_nothing_that_a_smaller_one_has_shown():
    async with open_context(settings(max_tokens=8_000)) as context:
        await fill(context, (said(number, "word " * 60) for number in range(400)), every=1)
        while context.last_view.tokens < 6_000:
            await fill(context, [said(len(context), "word " * 60)], every=1)
        log, shown = await context.get_messages(), await view(context, 8_000)
        after = await view(context, 13_000)
        assert (reason(context), len([row for row in shown if row in log]) > 40) == ("budget_raised", True)
        assert [row for row in shown if row in log and row not in after] == []


@pytest.mark.parametrize("messages", [12, 40])
async def test_a_smaller_budget_is_the_reason_also_where_every_message_was_shown_whole(messages: int):
    async with open_context(settings()) as context:
        await fill(context, (said(number, "word " * 200) for number in range(messages)), every=1)
        await view(context, 2_500)
        assert [one.why for one in context.activations()] == ["smaller budget"]


async def test_a_session_keeps_the_four_newest_views():
    providers = [type("Provider", (), {"name": f"provider-{number}"})() for number in range(5)]
    async with open_context(settings()) as context:
        await context.add_message(said(0, "word"))
        for provider in providers:
            await context.next_view(provider=provider)
        assert (await context.next_view(provider=providers[1])).activation is None
        assert (await context.next_view(provider=providers[0])).activation is not None, "it begins again"


async def test_a_system_prompt_is_another_one_once_a_view_was_shown():
    async with open_context(settings()) as context:
        await context.add_message(said(0, "word"))
        await context.compact()
        assert (await context.next_view(system="You build.")).activation is None
        await context.next_view(system="You mend.")
        assert [one.why for one in context.activations()] == ["other system prompt"]


async def test_a_budget_just_above_system_rows_and_tools_is_told_once(caplog: pytest.LogCaptureFixture):
    tools = [{"name": "read", "description": "word " * 3_000}]
    async with open_context(settings(max_tokens=4_000)) as context:
        await context.add_message(said(0, "word " * 10))
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                await context.get_messages_for_request(tools=tools)
        least = context.statistics().least_useful_budget
        (told,) = [text for text in caplog.messages if "system rows and tools" in text]
        assert ("4,000" in told, f"{least:,}" in told) == (True, True)
        assert f"{least:,}" in (await context.handle_command("status")).text
        with pytest.raises(BudgetError) as refused:
            await context.get_messages_for_request(token_budget=2_000, tools=tools)
        assert refused.value.required_tokens + 3_960 == context.statistics().least_useful_budget
        caplog.clear()
        await context.get_messages_for_request(token_budget=least, tools=tools)
        assert not caplog.records
