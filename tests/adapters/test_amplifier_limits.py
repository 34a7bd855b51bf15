"""The ends of the scale: huge messages, other scripts, long sessions, and what a request costs beside truncation."""

from __future__ import annotations

from itertools import pairwise

import pytest
from amplifier_core import ContextLengthError

from summarizing_context.adapters.amplifier import SummarizingContextManager
from summarizing_context.assembly import Options
from summarizing_context.messages.estimate import budget_tokens
from tests.adapters.host import Row, cost
from tests.adapters.validity import refusals

pytestmark = pytest.mark.anyio

SMALL = {
    "segment_min": 200,
    "segment_target": 600,
    "segment_max": 1_200,
    "summary_max_tokens": 60,
    "token_counter": "estimate",
    "idle_after": None,
}
HUGE = "a fact about the project that is long " * 20_000
CALL = {"type": "tool_call", "id": "c1", "name": "read", "input": {"path": "a"}}


@pytest.mark.parametrize(
    "rows",
    [
        [{"role": "user", "content": HUGE}],
        [{"role": "user", "content": [{"type": "text", "text": HUGE}, {"type": "text", "text": HUGE}]}],
        [
            {"role": "user", "content": "Read it."},
            {"role": "assistant", "content": [CALL], "tool_calls": [{"id": "c1", "tool": "read", "arguments": {}}]},
            {"role": "tool", "tool_call_id": "c1", "content": HUGE},
        ],
        [
            {"role": "user", "content": "Write it."},
            {"role": "assistant", "content": [{**CALL, "input": {"text": HUGE}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ],
    ],
    ids=["text", "blocks", "result", "arguments"],
)
async def test_one_huge_message_fits_at_once_and_stays_whole_in_the_log(rows: list[Row]) -> None:
    manager = SummarizingContextManager(SMALL)
    for row in rows:
        await manager.add_message(row)
    shown = await manager.get_messages_for_request(token_budget=4_000)
    assert refusals(shown) == []
    assert 780 <= cost(shown) <= 4_000  # about a fifth of the budget
    assert str(await manager.get_messages()).count("a fact about") >= 20_000
    again = await manager.get_messages_for_request(token_budget=4_000)
    assert again == shown
    figures = manager.statistics()
    assert figures is not None
    assert figures.activations <= 1
    await manager.close()


async def test_a_huge_system_prompt_is_the_hosts_own_error() -> None:
    manager = SummarizingContextManager(SMALL)
    await manager.set_system_prompt_factory(lambda: HUGE)
    await manager.add_message({"role": "user", "content": "Hello"})
    with pytest.raises(ContextLengthError, match="message 0"):
        await manager.get_messages_for_request(token_budget=4_000)
    await manager.close()


async def test_a_thousand_turns_are_counted_once() -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return budget_tokens(text)

    manager = SummarizingContextManager({**SMALL, "token_counter": "auto"}, Options(count_tokens=count))
    written, views = 0, 0
    for turn in range(1_000):
        for role in ("user", "assistant"):
            said = f"{turn}: " + "words that somebody says " * 6
            written += len(said)
            await manager.add_message({"role": role, "content": said})
        if turn % 10 == 0:
            await manager.get_messages_for_request(token_budget=4_000)
            views += 1
    assert counted < 3 * written, "adding counts the new message, and a view only what is new in it"
    figures = manager.statistics()
    assert figures is not None
    assert figures.activations > 10
    await manager.close()


async def test_a_session_reuses_more_of_each_request_than_truncation_does() -> None:
    """The newest messages that fit, at each request, are what a context shows that only truncates; equal budgets."""
    manager = SummarizingContextManager({**SMALL, "max_tokens": 3_000})
    ours: list[list[Row]] = []
    theirs: list[list[Row]] = []
    log: list[Row] = []
    for turn in range(120):
        for role, words in (("user", 10), ("assistant", 40)):
            said = f"{turn}: " + "words that somebody says " * words
            row = {"role": role, "content": said, "metadata": {"timestamp": 0}}
            await manager.add_message(row)
            log.append(row)
        ours.append(await manager.get_messages_for_request())
        theirs.append(newest(log, 3_000))
    await manager.close()
    assert uncached(ours) < uncached(theirs) / 2
    assert all(
        any("Summaries of this conversation's past" in str(row["content"]) for row in view) for view in ours[60:]
    )


def newest(log: list[Row], budget: int) -> list[Row]:
    shown: list[Row] = []
    for row in reversed(log):
        if cost([row, *shown]) > budget:
            break
        shown.insert(0, row)
    return shown


def uncached(views: list[list[Row]]) -> int:
    """Tokens of all requests that stand behind what the request before began with."""
    total = cost(views[0])
    for old, new in pairwise(views):
        same = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(old))
        total += cost(new[same:])
    return total


@pytest.mark.parametrize(("calls", "answered", "budget"), [(30, 1, 150), (300, 0, 2_000), (2_000, 1, 8_000)])
async def test_very_many_calls_in_flight_leave_a_view_within_the_budget(calls: int, answered: int, budget: int) -> None:
    ids = [f"c{number}" for number in range(calls)]
    blocks = [{"type": "tool_call", "id": id, "name": "bash", "input": {"command": "ls"}} for id in ids]
    listed = [{"id": id, "tool": "bash", "arguments": {"command": "ls"}} for id in ids]
    manager = SummarizingContextManager({"token_counter": "estimate"})
    await manager.add_message({"role": "user", "content": "Do it."})
    await manager.add_message({"role": "assistant", "content": blocks, "tool_calls": listed})
    for id in ids[:answered]:
        await manager.add_message({"role": "tool", "tool_call_id": id, "content": f"result of {id}"})
    rows = await manager.get_messages_for_request(token_budget=budget)
    assert rows
    assert cost(rows) <= budget
    assert not answered or "result of c0" in str(rows)
    await manager.close()
