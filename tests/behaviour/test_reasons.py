"""Why a view begins differently: a test for each reason that a context gives."""

from typing import Any

from summarizing_context import Settings, open_context
from tests.behaviour.contexts import Clock, begun, reason, tiny
from tests.laws.builders import assistant, result, session, user


async def test_high_water_is_reached_as_the_session_grows():
    async with begun(session(31, 140), every=1, of=tiny, max_tokens=3_000, count_tokens=None, clock=Clock()) as context:
        assert set(context.statistics().activations_by_reason) == {"high_water"}
        await context.get_messages_for_request()
        assert reason(context) is None


def thinking(number: int) -> list[dict[str, Any]]:
    """A turn with signed thinking and a call."""
    signed = {"type": "thinking", "thinking": "hm " * 5, "signature": f"s{number}"}
    called = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {"at": number}}
    return [
        user(f"{number}: " + "Tell me of pears. " * (number % 7 + 1)),
        assistant([signed, called]),
        result("anthropic", f"c{number}", "a pear " * 40),
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
            await context.get_messages_for_request()
            told = reason(context)
            assert asked == (told is not None,) * 3, (at, told)
            assert before.activations == context.statistics().activations - (told is not None)
            reasons.add(told)
    assert reasons >= {None, "high_water", "idle", "explicit", "restored"}, "the first begins with a memory"
