"""Ephemeral messages in views: they give way where room is short, and never change silently what was sent."""

from __future__ import annotations

import pytest

from summarizing_context import Settings, open_context
from tests.laws.builders import Message, call, count, result, user
from tests.laws.checkers import tool_safe_problems

pytestmark = pytest.mark.anyio


def reminder(number: int) -> Message:
    return {**user(f"reminder {number}: keep to the plan that we made"), "ephemeral": True}


async def test_the_newest_of_very_many_is_shown_where_nothing_else_is():
    async with open_context(Settings(max_tokens=80), count_tokens=count) as context:
        for number in range(40):
            await context.add_message(reminder(number))
            assert (await context.get_messages_for_request())[-1]["content"].startswith("remi")
        assert context.last_view.tokens <= 80


async def test_the_newest_is_in_view_behind_a_call_in_flight_whose_result_comes_later():
    async with open_context(Settings(max_tokens=1_000), count_tokens=count) as context:
        await context.add_message(call("openai", ("a", "read", {}), ("b", "read", {})))
        await context.add_message(reminder(1))
        before = await context.get_messages_for_request()
        assert [row["role"] for row in before] == ["assistant", "tool", "tool", "user"]
        assert before[-1] == reminder(1)
        await context.add_message(result("openai", "a", "done"))
        view = await context.get_messages_for_request()
        assert view[:4] == before
        assert view[4]["content"].startswith("<late_result ")
        await context.add_message(user("go on"))
        assert (await context.get_messages_for_request())[:5] == view
        await context.add_message(call("openai", ("c", "read", {})))
        await context.add_message(result("openai", "c", "found"))
        assert tool_safe_problems(await context.get_messages_for_request()) == []
        assert context.statistics().repairs["stand_in_result"] == 2
