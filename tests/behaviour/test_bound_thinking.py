"""After its beginning was rewritten, a view holds no signed thinking of finished turns, but the unfinished one's."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings, SummarizingContext, open_context
from tests.behaviour.contexts import reason, tiny
from tests.laws.builders import Message, assistant, result, user

SMALL = tiny(low_water=0.4, idle_after="never")


QUESTION = user("Question: " + "words of a person " * 3)


def signed(text: str, signature: str) -> Message:
    return {"type": "thinking", "thinking": text, "signature": signature}


async def think(context: SummarizingContext, number: int, *, call: bool = True) -> None:
    said = {"type": "text", "text": "words of a model " * 5}
    use = {"type": "tool_call", "id": f"c{number}", "name": "read", "input": {"path": "a"}}
    blocks = [signed(f"Thought {number}.", f"sig{number}"), said, *[use] * call]
    await context.add_message(assistant(blocks) | {"metadata": {"openai:response_id": f"resp_{number}"}})
    if call:
        await context.add_message(result("openai", f"c{number}", "line of a file " * 8))


def thoughts(view: list[Message]) -> list[str]:
    blocks = (block for row in view if isinstance(row["content"], list) for block in row["content"])
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


async def test_finished_turns_lose_it_at_the_activation_and_the_unfinished_one_when_it_ends():
    async with open_context(SMALL) as context:
        last: list[Message] = []
        for number in range(40):
            first = number - number % 5  # of its turn
            if number == first:
                await context.add_message(QUESTION)
            await think(context, number)
            view = await context.get_messages_for_request()
            if reason(context) is None:
                assert view[: len(last)] == last, "appended only"
            else:
                kept = {int(signature[3:]) for signature in thoughts(view)}
                assert kept >= set(range(max(first, number - 1), number + 1))
                assert min(kept) >= first, "nothing signed of finished turns"
                assert not any((row.get("metadata") or {}).get("openai:response_id") for row in view)
            last = view
        full = [one for one in context.activations() if one.why == "nearly full"]
        assert len(full) >= 3
        assert all(one.covered_to > one.covered_from for one in full)
        ended = [one for one in context.activations() if one.ends_turn]
        assert {one.why for one in ended} == {"thinking of a finished turn went"}
        assert all(one.covered_from == one.covered_to and one.tokens_before > one.tokens_after for one in ended)
        repairs = context.statistics().repairs
        assert min(repairs["thinking_dropped"], repairs["chain_dropped"]) > 5


@pytest.mark.parametrize("way", ["asked", "left_out"])
async def test_what_can_be_dropped_by_the_provider_stays_and_what_cannot_is_left_out_at_once(way: Any):
    async with open_context(SMALL) as context:
        await context.add_message(QUESTION)
        for number in range(200):
            await think(context, number)
            view = await context.next_view(bound_thinking=way)
            assert view.rewritten_prefix == (view.activation is not None)
            if view.rewritten_prefix:
                break
        assert bool(thoughts(view.messages)) == (way == "asked")
        await think(context, number := number + 1, call=False)
        await context.add_message(QUESTION)
        after = await context.next_view(bound_thinking=way)
        assert after.messages[: len(view.messages)] == view.messages, "no second beginning when the turn ends"
        assert after.rewritten_prefix
        assert thoughts(after.messages)[-1] == f"sig{number}"


def turns(seed: int) -> Iterator[Message]:
    """Yield questions, steps, and answers of which some are long, each behind long thinking."""
    draw = random.Random(seed)
    for turn in range(14):
        yield user(f"Question {turn}: " + "please " * draw.choice([5, 30, 50]))
        for step in range(draw.choice([1, 2, 3])):
            id, many = f"c{turn}-{step}", draw.choice([30, 50, 100])
            yield assistant([signed("hm " * many, id), {"type": "tool_use", "id": id, "name": "run", "input": {}}])
            yield result("anthropic", id, "line " * draw.choice([5, 20, 40]))
        thought = signed("because " * draw.choice([100, 500]), f"end{turn}")
        yield assistant([thought, {"type": "text", "text": f"Done {turn}. " + "It holds. " * draw.choice([20, 250])}])


async def test_a_long_answer_that_was_shortened_reads_the_same_after_a_restart(tmp_path: Path):
    """Its thinking went when it was shortened, so it no longer shows that it was bound; a restart must not show more
    of its text."""
    kept = Settings(store=tmp_path / "a.db", max_tokens=2_000, token_counter="estimate", idle_after="never")
    compared = 0
    async with open_context(kept) as context:
        for row in turns(7):
            await context.add_message(row)
            if row["role"] == "assistant":
                continue
            await context.wait_idle()
            before = await context.next_view()
            async with open_context(kept, read_only=True) as reopened:
                after = await reopened.next_view()
            if after.activation is None:
                assert after.messages == before.messages
                compared += len(context.activations()) > 0
    assert compared > 20
