"""Why a view begins differently: a test for each reason that a context gives."""

from typing import Any

from summarizing_context import Settings, SummarizingContext, open_context
from tests.behaviour.contexts import Clock, fill, tiny
from tests.laws.builders import assistant, session, user


async def reason(context: SummarizingContext, **request: Any) -> str | None:
    """Why the next view begins differently, if it does."""
    await context.get_messages_for_request(**request)
    activation = context.last_view.activation
    return None if activation is None else activation.reason


async def test_high_water_is_reached_as_the_session_grows():
    async with open_context(tiny(max_tokens=3_000), clock=Clock()) as context:
        await fill(context, session(31, 140), every=1)
        assert set(context.statistics().activations_by_reason) == {"high_water"}
        assert await reason(context) is None


def thinking(number: int) -> list[dict[str, Any]]:
    """A turn with signed thinking and a call."""
    signed = {"type": "thinking", "thinking": "hm " * 5, "signature": f"s{number}"}
    call = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {"at": number}}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "a pear " * 40}
    return [
        user(f"{number}: " + "Tell me of pears. " * (number % 7 + 1)),
        assistant([signed, call]),
        user([result]),
        assistant([signed, {"type": "text", "text": "A pear. " * 20}]),
    ]


async def test_asking_whether_to_compact_knows_every_reason_and_does_nothing():
    clock, reasons = Clock(), set()
    options = {"max_tokens": 3_000, "idle_after": 60.0, "memory_include": "auto", "token_counter": "estimate"}
    async with open_context(Settings(**options), clock=clock) as context:
        await context.memory.store("The pear tree is old.")
        for at, message in enumerate(message for number in range(25) for message in thinking(number)):
            clock.time += 100.0 if at % 8 == 7 else 1.0
            await context.add_message(message)
            if at % 13 == 12:
                await context.pin(at // 2)
            asked = await context.should_compact(), context.should_compress(), await context.should_compact()
            before = context.statistics()
            told = await reason(context)
            assert asked == (told is not None,) * 3, (at, told)
            assert before.activations == context.statistics().activations - (told is not None)
            reasons.add(told)
    assert reasons >= {None, "high_water", "idle", "explicit", "restored"}, "the first begins with a memory"
