"""The ends of the scale: huge messages, a huge prompt, very many calls in flight."""

from __future__ import annotations

import pytest
from amplifier_core import ContextLengthError

from summarizing_context.adapters.amplifier import SummarizingContextManager
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
