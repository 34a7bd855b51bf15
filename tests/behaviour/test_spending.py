"""The budget of a session, told and kept free."""

from functools import partial

import pytest

from summarizing_context import BudgetReport, MessageError
from tests.behaviour import contexts
from tests.laws.builders import session, user

LOG = session(6, 300, size=30)
begun = partial(contexts.begun, max_tokens=1_000)


async def test_the_budget_tells_what_the_view_takes():
    async with begun() as context:
        assert context.budget() == BudgetReport(1_000, 0, 0.0)
        for message in LOG[:100]:
            await context.add_message(message)
            await context.get_messages_for_request()
            used = context.last_view.tokens
            assert context.budget() == BudgetReport(1_000, used, used / 1_000)
        await context.get_messages_for_request(700)
        assert context.budget().max_tokens == 700


async def test_a_message_has_space_as_long_as_it_fits_whole():
    async with begun(count_tokens=len) as context:
        for log, fits in (((), 996), ([user("x" * 100)], 892)):
            await contexts.fill(context, log)
            assert context.has_space(user("x" * fits))
            assert not context.has_space(user("x" * (fits + 1)))
        with pytest.raises(MessageError):
            context.has_space("no message")


async def test_space_is_made_only_where_it_is_missing():
    async with begun(LOG[:60]) as context:
        await context.get_messages_for_request()
        used = context.budget().used_tokens
        report = await context.make_space(1_000 - used)
        assert (report.activated, report.tokens_after) == (False, used)
        while context.budget().used_tokens < 800:
            await context.add_message(user("more words " * 10))
        report = await context.make_space(300)
        assert report.activated
        assert report.tokens_after == context.budget().used_tokens < 700
        assert context.has_space(user("word " * 50))
