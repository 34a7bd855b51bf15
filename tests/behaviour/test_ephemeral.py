"""Ephemeral messages in views: they give way where room is short, and never change silently what was sent."""

from summarizing_context import Settings, open_context
from tests.laws.builders import Message, count, user


def reminder(number: int) -> Message:
    return {**user(f"reminder {number}: keep to the plan that we made"), "ephemeral": True}


async def test_the_newest_of_very_many_is_shown_where_nothing_else_is():
    async with open_context(Settings(max_tokens=80), count_tokens=count) as context:
        for number in range(40):
            await context.add_message(reminder(number))
            assert (await context.get_messages_for_request())[-1]["content"].startswith("remi")
        assert context.last_view.tokens <= 80
