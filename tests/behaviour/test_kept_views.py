"""A host that rewrites its log, or hands over its whole history each time: log and view keep in step."""

import asyncio
import copy
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from summarizing_context import FollowReport, MessageError, Settings, open_context
from tests.behaviour import contexts
from tests.behaviour.contexts import TINY, Provider, fill, tiny
from tests.contract.store_builders import sql
from tests.laws.builders import Message, assistant, result, system, user
from tests.laws.summarizers import Counting

begun = partial(contexts.begun, of=tiny, count_tokens=None)


def step(number: object, *, said: str = "") -> list[Message]:
    thinking = {"type": "thinking", "thinking": f"Thought {number}.", "signature": f"sig{number}"}
    use = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {"n": number}}
    read = assistant([thinking, use]), result("anthropic", f"t{number}", f"text {number} " * 20)
    return [user(said or f"Go on with {number}."), *read, assistant(f"Step {number} is done. " * 4)]


def talk(count: int, mark: str = "") -> list[Message]:
    """A system row, a request, and steps."""
    rows = [system("Be brief."), user(f"Begin {mark}. You must never push to main.")]
    return rows + [row for at in range(count) for row in step(f"{mark}{at}")]


def covered(context: Any) -> int:
    """Messages of the log that the view does not show word for word."""
    return context.activations()[-1].covered_to if context.activations() else 0


async def grown(context: Any) -> list[Message]:
    """A history of which a view covers some."""
    for steps in range(1, 20):
        history = talk(steps)
        await context.follow(history)
        await context.wait_idle()
        await context.get_messages_for_request()
    assert covered(context) > 10
    return history


def same_rows(view: list[Any], before: list[Any]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(view, before, strict=False)))


REMINDER = "\n<reminder>Mind the tests.</reminder>"
EDITS: dict[str, Any] = {
    # as a client sends it that puts its reminder into the newest message, and takes it out of the one before
    "a reminder in the newest message": lambda all: [*all[:-1], assistant(all[-1]["content"] + REMINDER)],
    "a failed turn dropped": lambda history: history[:-4],
    "a turn put in": lambda history: [*history[:-2], *step(900), *history[-2:]],
    "the newest call interrupted": lambda history: [*history[:-2], user("Stop that."), assistant("Stopped.")],
    "the newest said otherwise": lambda history: [*history[:-4], *step(901, said="Rather do something else.")],
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("how", ["follow", "set_messages"])
async def test_the_view_stays_up_to_the_difference(edit: str, how: str):
    async with begun() as context:
        history = await grown(context)
        before, edited = await context.get_messages_for_request(), EDITS[edit](history)
        was, records = covered(context), len(context.activations())
        await getattr(context, how)(edited)
        view = await context.get_messages_for_request()
        assert (context.last_view.activation, len(context.activations()), covered(context)) == (None, records, was)
        assert same_rows(view, before) >= len(before) - (len(history) - same_rows(history, edited))
        assert context.last_view.stable_prefix_messages == same_rows(view, before)
        assert (await context.get_messages(), view[-1]) == (edited, edited[-1])


async def test_a_damaged_state_is_made_again(tmp_path: Path):
    async with begun(store=tmp_path / "s.db") as context:
        history = await grown(context)
    cuts = ('{"cuts": [1]}', '{"cuts": [0, 0, 0, 0]}')
    nodes = ('{"nodes": null}', '{"nodes": [5]}', '{"nodes": [[1, 2]]}')
    for damaged in ("5", "[]", "{}", *nodes, *cuts, "{", '{"\\ud800": 1}'):
        with sql(tmp_path / "s.db") as database:
            database.execute("update activations set state = ?", (damaged.encode(),))
        for read_only in (True, False):
            async with begun(store=tmp_path / "s.db", read_only=read_only) as context:
                assert await context.get_messages() == history
                assert await context.get_messages_for_request()


# `follow`, whatever a host edits.


HOSTS: dict[str, Any] = {  # of a history, `at` a place from its end, with rows to append
    "append": lambda history, at, more: [*history, *more[2:]],
    "edit": lambda history, at, more: [*history[:at], {**history[at], "note": more[1]["content"]}, *history[at + 1 :]],
    "in place": lambda history, at, more: history[at].update(note=more[1]["content"]) or history,
    "rewind": lambda history, at, more: history[: at + 1],
    "fork": lambda history, at, more: [*history[: at + 1], *more[2:]],
    "compact": lambda history, at, more: [history[0], user(more[1]["content"]), *history[-4:]],
    "drop": lambda history, at, more: [*history[:at], *history[at + 1 :]] or more,
    "same": lambda history, at, more: list(history),
    "other": lambda history, at, more: more,
}


@settings(max_examples=2, suppress_health_check=[HealthCheck.too_slow])
@given(
    edits=st.lists(
        st.tuples(st.sampled_from(["append", *HOSTS]), st.integers(0, 60), st.integers(1, 4)), min_size=4, max_size=6
    ),
    with_keys=st.booleans(),
)
@example(edits=[("append", 0, 4)] * 6, with_keys=True)
@example(edits=[("compact", 0, 1), ("append", 0, 4), ("fork", 9, 2), ("other", 0, 3)], with_keys=False)
async def test_any_edits_of_a_host_leave_log_and_views_as_set_messages_does(edits, with_keys):
    """`each` is replaced at every step, so it activates at every step: it is compared by the log, and by the first
    view of a provider. `twin` is set only where the host rewrote its past: its running view is the same too."""
    async with open_context(tiny()) as ours, open_context(tiny()) as each, open_context(tiny()) as twin:
        history, known = talk(10), list[Message]()
        for number, (kind, back, size) in enumerate([*edits, ("same", 0, 1)]):
            keys = [repr(message) for message in history] if with_keys else None
            report = await ours.follow(history, keys=keys)
            same = same_rows(known, history)
            lost = same < len(known)
            assert report == FollowReport(len(history) - same, same, same if lost else None)
            await each.set_messages(history)
            await (twin.set_messages(history) if lost else fill(twin, history[same:]))
            assert await ours.get_messages() == await each.get_messages() == history
            for context in (ours, each, twin):
                await context.wait_idle()
            assert await ours.get_messages_for_request() == await twin.get_messages_for_request()
            fresh = {"provider": Provider(f"provider {number}")}  # its first view stands on log and summaries alone
            assert await ours.get_messages_for_request(**fresh) == await each.get_messages_for_request(**fresh)
            known = copy.deepcopy(history)
            history = HOSTS[kind](history, max(0, len(history) - 1 - back), talk(size, f"n{number}-"))


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


async def test_two_at_once_and_a_cancelled_one_add_nothing_twice():
    """Lists that grow while a call waits for its turn are followed as they were."""
    async with open_context(tiny()) as context:
        history, keys = talk(2), [str(at) for at in range(len(talk(2)))]
        waiting = asyncio.gather(*(context.follow(history, keys=keys) for _ in range(2)))
        await asyncio.sleep(0)
        history.append(user("new"))
        keys.append("new")
        assert [report.appended for report in await waiting] == [len(talk(2)), 0]
        assert await context.follow(history, keys=keys) == FollowReport(1, len(talk(2)), None)
        for turns in range(6):
            task = asyncio.ensure_future(context.follow(talk(3 + turns)))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await context.follow(talk(3 + turns))
            assert await context.get_messages() == talk(3 + turns)


@pytest.mark.parametrize("sizes", [TINY, {"max_messages": 7}], ids=str)
@pytest.mark.parametrize("recipe", [None, "a model"])
async def test_who_only_looks_sees_a_session_as_it_was_cut_whatever_the_settings(
    tmp_path: Path, sizes: Any, recipe: Any
):
    given = {"store": tmp_path / "a.db", "max_tokens": 2_000, "token_counter": "estimate"}
    summarizer = None if recipe is None else Counting(recipe)
    async with open_context(Settings(**given, **sizes), summarizer=summarizer) as context:
        await grown(context)
        view = await context.get_messages_for_request()
        await context.wait_idle()
        was = context.statistics()
        assert was.summaries_ready == was.segments > 2
    async with open_context(Settings(**given), read_only=True) as reader:
        assert await reader.get_messages_for_request() == view
        assert (reader.statistics().summaries_ready, reader.statistics().segments) == (was.segments, was.segments)
