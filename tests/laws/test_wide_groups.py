"""A group of very many calls: where it does not fit, the newest messages are shown by themselves, none refused."""

import random
from typing import Any

import pytest

from .amounts import STRATEGIES
from .builders import DIALECTS, Message, assistant, call, result, session, user, words
from .judge import watched
from .places import kept_at
from .repairs import LATE_NOTE
from .summarizers import Counting


def wide(dialect: str, calls: int, tokens: int = 50) -> list[Message]:
    """A message with so many calls, and a result for each."""
    rng, ids = random.Random(calls), [f"w{n}" for n in range(calls)]
    made = call(dialect, *((i, "read_file", {"text": words(rng, tokens)}) for i in ids), text="All at once.")
    return [made, *(result(dialect, i, words(rng, tokens)) for i in ids)]


@pytest.mark.parametrize(("strategy", "dialect"), [*zip(STRATEGIES, (*DIALECTS, "openai"), strict=True)])
async def test_of_a_wide_group_the_newest_results_are_shown_as_notes(strategy: str, dialect: str) -> None:
    async with watched(Counting(), budget=500, strategy=strategy) as judge:
        await judge.live(session(71, 14, dialect=dialect), every=5)
        before = judge.activations
        await judge.live(wide(dialect, 60), every=10)
        assert judge.refused == 0
        assert judge.repairs[LATE_NOTE] > 5
        assert judge.activations - before <= 7
        await judge.live([assistant("done"), *session(72, 14, dialect=dialect, rules="")], every=3)
        assert judge.covered > 65


@pytest.mark.usefixtures("each_store")
async def test_what_was_shown_by_itself_is_sent_again_after_reopening(tmp_path) -> None:
    stored: Any = {"store": kept_at(tmp_path / "a.db"), "session_id": "one"}
    async with watched(Counting("counting/1"), budget=500, **stored) as judge:
        await judge.add(user("read all"), *wide("openai", 120))
        before = await judge.view()
        assert judge.repairs[LATE_NOTE] == 1
        await judge.reopen()
        assert await judge.context.get_messages_for_request() == before
