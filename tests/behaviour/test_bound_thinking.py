"""After its beginning was rewritten, a view holds no signed thinking of finished turns, but the unfinished one's."""

from __future__ import annotations

from typing import Any

import pytest

from summarizing_context import Settings, SummarizingContext, open_context

pytestmark = pytest.mark.anyio
SMALL = Settings(
    max_tokens=2_000,
    low_water=0.4,
    segment_min=100,
    segment_target=300,
    segment_max=600,
    summary_max_tokens=30,
    token_counter="estimate",
    idle_after=None,
)


async def ask(context: SummarizingContext, number: int) -> None:
    await context.add_message({"role": "user", "content": f"Question {number}: " + "words of a person " * 3})


async def think(context: SummarizingContext, number: int, *, call: bool = True) -> None:
    thinking = {"type": "thinking", "thinking": f"Thought {number}.", "signature": f"sig{number}"}
    blocks: list[dict[str, Any]] = [thinking, {"type": "text", "text": "words of a model " * 5}]
    if call:
        blocks.append({"type": "tool_call", "id": f"c{number}", "name": "read", "input": {"path": "a"}})
    metadata = {"openai:response_id": f"resp_{number}"}
    await context.add_message({"role": "assistant", "content": blocks, "metadata": metadata})
    if call:
        await context.add_message({"role": "tool", "tool_call_id": f"c{number}", "content": "line of a file " * 8})


def thoughts(view: list[dict[str, Any]]) -> list[str]:
    return [
        block["signature"]
        for row in view
        if isinstance(row["content"], list)
        for block in row["content"]
        if block["type"] == "thinking"
    ]


def chains(view: list[dict[str, Any]]) -> list[str]:
    found = ((row.get("metadata") or {}).get("openai:response_id") for row in view)
    return [id for id in found if id]


async def test_thinking_stays_while_the_beginning_does() -> None:
    async with open_context(SMALL) as context:
        for number in range(5):
            await ask(context, number)
            await think(context, number)
            assert thoughts(await context.get_messages_for_request()) == [f"sig{n}" for n in range(number + 1)]
        assert context.statistics().activations == 0


async def test_finished_turns_lose_it_at_the_activation_and_the_unfinished_one_when_it_ends() -> None:
    async with open_context(SMALL) as context:
        number, seen = 0, 0
        last: list[dict[str, Any]] = []
        for turn in range(8):
            await ask(context, turn)
            first = number
            for _ in range(5):
                await think(context, number)
                number += 1
                view = await context.get_messages_for_request()
                assert context.last_view is not None
                if context.last_view.activation is None:
                    assert view[: len(last)] == last, "appended only"
                else:
                    kept = thoughts(view)
                    assert set(kept) >= {f"sig{n}" for n in range(max(first, number - 2), number)}
                    assert all(int(sig[3:]) >= first for sig in kept), "nothing signed of finished turns"
                    assert chains(view) == []
                    seen += 1
                last = view
        figures = context.statistics()
        assert seen >= 3
        assert figures.repairs["thinking_dropped"] > 5
        assert figures.repairs["chain_dropped"] > 5


async def test_a_turn_that_went_on_across_an_activation_is_settled_once() -> None:
    async with open_context(SMALL) as context:
        await ask(context, 0)
        number = 0
        while context.statistics().activations == 0:
            await think(context, number)
            number += 1
            view = await context.get_messages_for_request()
        bound = thoughts(view)
        assert bound, "the unfinished turn keeps what was signed before"
        await think(context, number, call=False)
        await ask(context, 1)
        await think(context, number + 1)
        view = await context.get_messages_for_request()
        assert thoughts(view) == [f"sig{number + 1}"], "the finished turn's would stand behind another beginning"
        assert context.last_view is not None
        assert context.last_view.activation is not None
        assert context.last_view.activation.freed > 0
        again = await context.get_messages_for_request()
        assert again == view
        assert context.statistics().activations == 2


@pytest.mark.parametrize("way", ["asked", "left_out"])
async def test_what_can_be_dropped_by_the_provider_stays_and_what_cannot_is_left_out_at_once(way: Any) -> None:
    async with open_context(SMALL) as context:
        await ask(context, 0)
        number = 0
        while context.statistics().activations == 0:
            assert context.last_view is None or not context.last_view.rewritten_prefix
            await think(context, number)
            number += 1
            view = await context.next_view(bound_thinking=way)
        assert view.rewritten_prefix
        assert bool(thoughts(view.messages)) == (way == "asked")
        await think(context, number, call=False)
        await ask(context, 1)
        after = await context.next_view(bound_thinking=way)
        assert after.messages[: len(view.messages)] == view.messages, "no second beginning when the turn ends"
        assert after.rewritten_prefix
        assert thoughts(after.messages)[-1] == f"sig{number}"


async def test_another_system_prompt_is_another_beginning() -> None:
    async with open_context(SMALL) as context:
        for number in range(3):
            await ask(context, number)
            await think(context, number)
        assert len(thoughts(await context.get_messages_for_request(system="One."))) == 3
        assert thoughts(await context.get_messages_for_request(system="Two.")) == ["sig2"]


async def test_a_shrunk_answer_keeps_thinking_that_is_small() -> None:
    async with open_context(SMALL) as context:
        await ask(context, 0)
        thinking = {"type": "thinking", "thinking": "Short.", "signature": "sig"}
        call = {"type": "tool_call", "id": "c", "name": "write", "input": {"text": "many words " * 900}}
        wire = {"anthropic": {"wire_content": [thinking, call]}}
        await context.add_message({"role": "assistant", "content": [thinking, call], "metadata": wire})
        await context.add_message({"role": "tool", "tool_call_id": "c", "content": "done"})
        shown = (await context.get_messages_for_request())[1]
        assert shown["content"][0] == thinking
        assert len(shown["content"][1]["input"]["text"]) < 4_000
        assert shown["metadata"] == {"anthropic": {}}, "no copy that would be sent instead"


async def test_tools_that_were_loaded_stay_loaded_when_the_message_is_covered() -> None:
    items = [{"type": "tool_search_output", "tools": [{"name": "deploy"}]}]
    async with open_context(SMALL) as context:
        await ask(context, 0)
        loading = {"role": "assistant", "content": "Loading.", "metadata": {"openai:tool_search_items": items}}
        await context.add_message(loading)
        for number in range(1, 30):
            await ask(context, number)
            await think(context, number)
            view = await context.get_messages_for_request()
            assert [row for row in view if (row.get("metadata") or {}).get("openai:tool_search_items") == items]
        assert context.statistics().activations > 1
        assert loading not in view
