"""log_is_untouched: only `set_messages` and `clear` change what `get_messages` returns."""

from __future__ import annotations

import copy

import pytest

from summarizing_context import Settings, open_context
from summarizing_context.errors import MessageError

from .builders import count, session
from .judge import SMALL, replay, vandalise, watched
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


async def test_ruining_the_last_view_changes_neither_log_nor_next_view() -> None:
    log = session(4, 80)
    async with open_context(Settings(max_tokens=1_500, **SMALL), summarizer=Counting(), count_tokens=count) as context:
        for message in log:
            await context.add_message(message)
        await context.wait_idle()
        before = copy.deepcopy(await context.get_messages_for_request())
        vandalise(await context.get_messages_for_request())
        assert context.last_view is not None
        vandalise(list(context.last_view.messages))
        assert await context.get_messages_for_request() == before
        assert await context.get_messages() == log
        assert context.statistics().activations == 1


async def test_a_message_nested_too_deeply_is_refused_with_a_typed_error() -> None:
    deep: object = "x"
    for _ in range(100_000):
        deep = [deep]
    async with watched(Counting(), budget=1_500) as judge:
        with pytest.raises(MessageError):
            await judge.context.add_message({"role": "user", "content": deep})
        await judge.check_log()
    while isinstance(deep, list):  # unwind it, or the interpreter would by recursion
        deep = deep.pop()
