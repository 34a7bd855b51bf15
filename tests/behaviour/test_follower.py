"""`follow`: the log keeps in step with a host that hands over its whole history each time."""

import asyncio
import copy
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from summarizing_context import FollowReport, MessageError, open_context
from tests.behaviour.contexts import Provider, tiny
from tests.laws.builders import assistant, call, result, system, user


def talk(count: int, mark: str = "") -> list[dict[str, Any]]:
    """A system row, and steps with two parallel calls each."""
    rows: list[dict[str, Any]] = [system("Be brief."), user(f"Begin {mark}. You must never push to main.")]
    for at in range(count):
        one, two = f"{mark}a{at}", f"{mark}b{at}"
        rows += [
            call("openai", (one, "read", {"path": one}), (two, "read", {"path": two})),
            result("openai", one, f"text {at} " * 15),
            result("openai", two, f"more {at} " * 15),
            assistant(f"Step {at} is done. " * 5),
            user(f"Go on with {mark}{at}."),
        ]
    return rows


# What a host does with its history, as (kind, place, size); a place is counted from the end.
EDITS = st.tuples(
    st.sampled_from(["append", "append", "edit", "in place", "rewind", "fork", "compact", "drop", "same", "other"]),
    st.integers(0, 60),
    st.integers(1, 4),
)


def edited(history: list[dict[str, Any]], edit: tuple[str, int, int], number: int) -> list[dict[str, Any]]:
    """The host's history after an edit; `number` tells edits apart."""
    kind, back, size = edit
    at = max(0, len(history) - 1 - back)
    more = talk(size, f"n{number}-")
    match kind:
        case "append":
            return [*history, *more[2:]]
        case "edit":
            return [*history[:at], {**history[at], "note": number}, *history[at + 1 :]]
        case "in place":
            history[at]["note"] = number
            return history
        case "rewind":
            return history[: at + 1]
        case "fork":
            return [*history[: at + 1], *more[2:]]
        case "compact":
            return [history[0], user(f"Summary {number}"), *history[-4:]]
        case "drop":
            return [*history[:at], *history[at + 1 :]] or more
    return list(history) if kind == "same" else more


async def view_of(context: Any, provider: Provider | None = None) -> list[dict[str, Any]]:
    await context.wait_idle()
    return await context.get_messages_for_request(provider=provider)


@settings(max_examples=2, suppress_health_check=[HealthCheck.too_slow])
@given(edits=st.lists(EDITS, min_size=4, max_size=6), with_keys=st.booleans())
@example(edits=[("append", 0, 4)] * 6, with_keys=True)
@example(edits=[("compact", 0, 1), ("append", 0, 4), ("fork", 9, 2), ("other", 0, 3)], with_keys=False)
async def test_any_edits_of_a_host_leave_log_and_views_as_set_messages_does(edits, with_keys):
    """`each` is set anew at every step, so it activates at every step: it is compared by the log, and by the first
    view of a provider. `twin` is set only where the host rewrote its past: its running view is the same too."""
    async with open_context(tiny()) as ours, open_context(tiny()) as each, open_context(tiny()) as twin:
        history = talk(8)
        known: list[dict[str, Any]] = []
        for number in range(len(edits) + 1):
            keys = [repr(message) for message in history] if with_keys else None
            report = await ours.follow(history, keys=keys)
            same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(known, history, strict=False))))
            lost = same < len(known)
            assert report == FollowReport(len(history) - same, same, same if lost else None)
            await each.set_messages(history)
            if lost:
                await twin.set_messages(history)
            else:
                for message in history[same:]:
                    await twin.add_message(message)
            assert await ours.get_messages() == await each.get_messages() == history
            assert await view_of(ours) == await view_of(twin)
            fresh = Provider(f"provider {number}")  # its first view stands on the log and the summaries alone
            assert await view_of(ours, fresh) == await view_of(each, fresh)
            known = copy.deepcopy(history)
            if number < len(edits):
                history = edited(history, edits[number], number)


async def test_moved_cache_marks_and_a_single_text_block_are_no_difference():
    async with open_context(tiny()) as context:
        block = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}
        await context.follow([user("hello"), user([block])])
        moved = [user([block]), user("hello"), assistant("hi")]
        assert await context.follow(moved) == FollowReport(1, 2, None)
        assert await context.follow([user("hello"), user("hellO")]) == FollowReport(1, 1, 1)
        await context.follow([{"role": "user", "content": "x", "n": 1}])
        assert (await context.follow([{"role": "user", "content": "x", "n": True}])).replaced_from == 0


@pytest.mark.parametrize("bad", [{"content": "no role"}, {"role": "user", "content": {1: 2}}, "text"])
async def test_a_wrong_message_is_named_and_nothing_is_lost(bad: Any):
    async with open_context(tiny()) as context:
        await context.follow(talk(2))
        for history in ([*talk(2), user("new"), bad], [*talk(2)[:3], bad]):
            with pytest.raises(MessageError, match=f"message {len(history) - 1}:"):
                await context.follow(history)
            assert await context.get_messages() == talk(2)


async def test_lists_that_grow_while_a_call_waits_for_its_turn_are_followed_as_they_were():
    async with open_context(tiny()) as context:
        history, keys = talk(2), [str(at) for at in range(len(talk(2)))]
        waiting = asyncio.gather(*(context.follow(history, keys=keys) for _ in range(2)))
        await asyncio.sleep(0)
        history.append(user("new"))
        keys.append("new")
        await waiting
        assert await context.follow(history, keys=keys) == FollowReport(1, len(talk(2)), None)


async def test_two_at_once_and_a_cancelled_one_add_nothing_twice():
    async with open_context(tiny()) as context:
        reports = await asyncio.gather(context.follow(talk(2)), context.follow(talk(2)))
        assert [report.appended for report in reports] == [len(talk(2)), 0]
        for turns in range(6):
            task = asyncio.ensure_future(context.follow(talk(3 + turns)))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await context.follow(talk(3 + turns))
            assert await context.get_messages() == talk(3 + turns)
