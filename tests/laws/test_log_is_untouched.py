"""log_is_untouched: only `set_messages` and `clear` change what `get_messages` returns."""

import pytest

from .builders import session
from .judge import replay, watched
from .summarizers import Counting


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "amplifier"])
async def test_the_log_is_untouched_by_compaction_and_by_careless_callers(dialect: str) -> None:
    async with watched(Counting(), budget=1_500) as judge:  # the judge ruins all it gave and all it got
        await replay(judge, session(1, 150, dialect=dialect))
        await judge.context.compact()
        await judge.view(600)
        await judge.check_log()
        assert judge.activations > 2
        assert judge.covered > 20
        await judge.set(session(3, 40))
        await judge.check_log()
        await judge.view()
        await judge.clear()
        assert await judge.context.get_messages() == []
