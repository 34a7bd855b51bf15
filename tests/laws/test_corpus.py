"""Every transcript of our corpus, replayed at several budgets: all laws that can be seen from outside hold."""

import pytest

from . import corpus
from .amounts import ALL
from .builders import Message, count
from .judge import replay, watched
from .summarizers import Counting
from .transcripts import play

# What must have been seen of each repair in a file that is about it, when it is replayed with room for the oddity.
EXPECTED = {
    "late_results": {"stand_in_result", "late_result_note"},
    "rows_between": {"stand_in_result", "late_result_note"},
    "abandoned_calls": {"stand_in_result"},
    "orphan_results": {"late_result_note"},
    "duplicate_results": {"late_result_note"},
    "results_of_several_groups": {"split_results"},
    "content_none": {"content_none"},
    "user_role_calls": {"content_none"},
    "huge_messages": {"shrunk"},
}
ROOMY = 8_000
MOST = None if ALL else 110  # messages

LONG = ["split_parallel_calls", "amplifier_shapes", "huge_messages"]
EVERY = [(name, budget) for name in corpus.names() for budget in (1_000, 2_500, ROOMY)]
OF_BUDGET = {1_000: corpus.names(), 2_500: LONG, ROOMY: EXPECTED}
SOME = [(name, budget) for name, budget in EVERY if name in OF_BUDGET[budget]]


@pytest.mark.parametrize(("name", "budget"), EVERY if ALL else SOME)
async def test_a_transcript_gives_lawful_views(name: str, budget: int) -> None:
    log = corpus.read(name)[:MOST]
    async with watched(Counting(), budget=budget) as judge:
        await replay(judge, log)
        assert judge.refused == 0
        assert judge.views > 5
        if size_of(log) > 2 * budget:
            assert judge.activations > 0
            assert judge.covered > 0
        counted = judge.context.statistics().repairs
        assert {kind for kind in judge.repairs if not counted.get(kind)} == set()
        if budget == ROOMY:
            assert EXPECTED.get(name, set()) <= set(judge.repairs)


def size_of(log: list[Message]) -> int:
    return sum(count(str(message.get("content"))) for message in log)


async def test_the_command_plays_a_transcript_and_finds_nothing_broken() -> None:
    found = await play(corpus.read("split_parallel_calls"), 2_500, 1)
    assert found["broken"] == []
    assert found["views"] > found["messages"] // 2


async def test_half_characters_count_as_what_is_sent_for_them() -> None:
    figures = await play(corpus.read("lone_surrogates"), 2_000, every=0)
    assert (figures["activations"] > 1, figures["broken"]) == (True, [])
