"""log_is_untouched: only `set_messages` and `clear` change what `get_messages` returns."""

import pytest

from .builders import session
from .judge import replay, watched
from .summarizers import Counting


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "amplifier"])
async def test_the_log_is_untouched_by_compaction_and_by_careless_callers(dialect: str) -> None:
    log = session(1, 150, dialect=dialect)
    async with watched(Counting(), budget=1_500) as judge:  # the judge ruins all it gave and all it got
        await replay(judge, log)
        await judge.context.compact()
        await judge.view(600)
        await judge.check_log()
        assert await judge.context.get_messages() == log
        assert judge.activations > 2
        assert judge.covered > 20


async def test_the_log_is_what_was_set_and_then_nothing() -> None:
    first, second = session(2, 60), session(3, 40)
    async with watched(Counting(), budget=1_500) as judge:
        await replay(judge, first)
        await judge.set(second)
        await judge.check_log()
        await judge.view()
        await judge.clear()
        assert await judge.context.get_messages() == []
        assert judge.activations > 0
