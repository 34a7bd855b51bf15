"""Log and view keep in step with a host that rewrites its log or changes its budget; what of a view stays as it was."""

import asyncio
import copy
import logging
import random
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from summarizing_context import BudgetError, FollowReport, Settings, SummarizingContext
from tests.behaviour import contexts
from tests.behaviour.contexts import TINY, Provider, fill, reason, said, tiny
from tests.contract.store_builders import sql
from tests.laws.builders import Message, assistant, result, system, user
from tests.laws.checkers import order_problems, prefix_problems, tool_safe_problems
from tests.laws.summarizers import Counting

begun = partial(contexts.begun, of=tiny, count_tokens=None)
roomy = partial(contexts.begun, of=Settings, count_tokens=None, max_tokens=200_000)


def signed(text: str, signature: str) -> Message:
    return {"type": "thinking", "thinking": text, "signature": signature}


def step(number: object, *, said: str = "") -> list[Message]:
    use = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {"n": number}}
    thought = assistant([signed(f"Thought {number}.", f"sig{number}"), use])
    read = thought, result("anthropic", f"t{number}", f"text {number} " * 20)
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
    for steps in range(1, 20, 2):
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
    "nothing": lambda history: list(history),
    # as a client sends it that puts its reminder into the newest message, and takes it out of the one before
    "a reminder in the newest message": lambda all: [*all[:-1], assistant(all[-1]["content"] + REMINDER)],
    "a failed turn dropped": lambda history: history[:-4],
    "a turn put in": lambda history: [*history[:-2], *step(900), *history[-2:]],
    "the newest call interrupted": lambda history: [*history[:-2], user("Stop that."), assistant("Stopped.")],
    "the newest said otherwise": lambda history: [*history[:-4], *step(901, said="Rather do something else.")],
}


@pytest.mark.parametrize("how", ["follow", "set_messages"])
async def test_the_view_stays_up_to_the_difference(how: str):
    async with begun() as context:
        history = await grown(context)
        here, was = await context.checkpoint(), covered(context)
        for name, edit in EDITS.items():
            before, records, edited = await context.get_messages_for_request(), context.activations(), edit(history)
            await getattr(context, how)(edited)
            view = await context.get_messages_for_request()
            assert (context.last_view.activation, context.activations(), covered(context)) == (None, records, was), name
            assert same_rows(view, before) >= len(before) - (len(history) - same_rows(history, edited))
            assert context.last_view.stable_prefix_messages == same_rows(view, before)
            assert (await context.get_messages(), view[-1]) == (edited, edited[-1])
            await context.restore(here)
        await getattr(context, how)([*history[:2], user("Rather begin so."), *history[2:]])  # what is covered
        await context.get_messages_for_request()
        assert reason(context) == "log_replaced"


async def test_a_damaged_state_is_made_again(tmp_path: Path):
    async with begun(store=tmp_path / "s.db") as context:
        history = await grown(context)
    parts = ('"cuts": [1]', '"cuts": [0, 0, 0, 0]', '"nodes": null', '"nodes": [5]', '"nodes": [[1, 2]]')
    for damaged in ("5", "[]", "{}", "{", '{"\\ud800": 1}', *(f"{{{part}}}" for part in parts)):
        with sql(tmp_path / "s.db") as database:
            database.execute("update activations set state = ?", (damaged.encode(),))
        for read_only in (True, False):
            async with begun(store=tmp_path / "s.db", read_only=read_only) as context:
                assert await context.get_messages() == history
                assert await context.get_messages_for_request()


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
    async with begun() as ours, begun() as each, begun() as twin:
        history, known = talk(6), list[Message]()
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
    async with begun() as context:
        block = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}
        await context.follow([user("hello"), user([block])])
        moved = [user([block]), user("hello"), assistant("hi")]
        assert await context.follow(moved) == FollowReport(1, 2, None)
        assert await context.follow([user("hello"), user("hellO")]) == FollowReport(1, 1, 1)
        await context.follow([{"role": "user", "content": "x", "n": 1}])
        assert (await context.follow([{"role": "user", "content": "x", "n": True}])).replaced_from == 0


async def test_two_at_once_and_a_cancelled_one_add_nothing_twice():
    """Lists that grow, and messages that change, while a call waits for its turn are taken as they were."""
    async with begun() as context:
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
        setting = asyncio.create_task(context.set_messages(log := chat(1_000, 1)))
        for _ in range(3):
            await asyncio.sleep(0)
        for message in log:
            message["content"] = "changed meanwhile"
        await setting
        assert await context.get_messages() == chat(1_000, 1)


@pytest.mark.parametrize("turns", [4, 6, 8, 12])
async def test_a_cancelled_replacement_that_was_committed_is_whole_after_reopening(turns: int, tmp_path: Path):
    """With the view that goes on, and without the pins that went."""
    for kept, log in ((-1, talk(30)), (0, [])):
        path = tmp_path / f"{kept}.db"
        async with begun(talk(30), every=1, store=path, max_tokens=500) as context:
            await context.pin("Be brief.")
            setting = asyncio.ensure_future(context.set_messages(log[:kept]))
            for _ in range(turns):
                await asyncio.sleep(0)
            setting.cancel()
            await asyncio.gather(setting, return_exceptions=True)
            await context.add_message(user("on"))
            shown = await context.get_messages_for_request(), context.pins()
        async with begun(store=path, max_tokens=500) as context:
            assert (await context.get_messages_for_request(), context.pins()) == shown


@pytest.mark.parametrize("sizes", [TINY, {"max_messages": 7}], ids=str)
@pytest.mark.parametrize("recipe", [None, "a model"])
async def test_who_only_looks_sees_a_session_as_it_was_cut_whatever_the_settings(
    tmp_path: Path, sizes: Any, recipe: Any
):
    """And which segments have a summary, those of the parts of a large message too; not the prompt of a request."""
    opened = partial(roomy, store=tmp_path / "a.db", max_tokens=2_000)
    async with opened(**sizes, summarizer=recipe and Counting(recipe)) as context:
        await grown(context)
        await fill(context, [user(f"Read this: {'the tide rose at noon. ' * 3_000}"), *step(900), *step(901)])
        await context.get_messages_for_request()
        await context.wait_idle()
        view, was = await context.get_messages_for_request(system="Be quick."), context.statistics()
        assert was.summaries_ready == was.segments > 2
    async with opened(read_only=True) as reader:
        assert (await reader.get_messages_for_request())[1:] == view[1:]
        seen = reader.statistics()
    assert (seen.summaries_ready, seen.segments, seen.lag_tokens) == (was.segments, was.segments, 0)


async def test_who_asks_no_model_goes_on_with_the_summaries_that_a_model_has_made(tmp_path: Path):
    opened = partial(roomy, store=tmp_path / "a.db", max_tokens=2_000, **TINY)
    async with opened(summarizer=Counting("a model")) as context:
        await grown(context)
        await context.wait_idle()
        made = {node.text for node in context.summaries() if node.made_by == "model"}
    for budget in (2_000, 1_500):  # as it was, and in a view that is made for it, with room that is left
        async with opened() as context:
            await view(context, budget)
            await context.compact()
            assert {node.text for node in context.summaries()} >= made
            assert all(node.text in made for node in context.explain() if node.made_by == "model")


# Budgets that go down and up again, by request and by restart.


BUDGETS = (300, 500, 4_000, 16_000, 200_000)


def chat(count: int, tokens: int, start: int = 0) -> list[Message]:
    return [said(number, "word " * tokens) for number in range(start, start + count)]


async def view(context: SummarizingContext, budget: int) -> list[Message]:
    return await context.get_messages_for_request(token_budget=budget)


async def test_a_larger_budget_shows_again_what_a_smaller_one_had_no_room_for():
    """From there a smaller one is the reason, though every message was shown whole."""
    async with roomy() as context:
        for message in chat(60, 100):
            await context.add_message(message)
            await view(context, 4_000)
        assert len(await view(context, 4_000)) < 60
        assert await view(context, 200_000) == await context.get_messages()
        assert reason(context) == "budget_raised"
        await view(context, 2_500)
        assert [one.why for one in context.activations()[-2:]] == ["larger budget", "smaller budget"]


@pytest.mark.parametrize("smaller", [(300, 4_000), (500, 20_000)])
async def test_a_small_request_between_large_ones_costs_the_large_ones_nothing(smaller, tmp_path):
    """By the same process, and by one that is started again."""
    opened = partial(roomy, store=tmp_path / "a.db", max_tokens=40_000)
    async with opened(chat(110, 400), every=5) as context:
        assert context.statistics().activations > 0
        before = await view(context, 40_000)
        for message in chat(6, 10, 110):
            await context.add_message(message)
            for small in smaller:
                await view(context, small)
            after = await view(context, 40_000)
            assert (prefix_problems(before, after), reason(context)) == ([], None)
            before = after
    async with opened() as context:
        assert (await view(context, 40_000), reason(context)) == (before, None)
        for small in smaller:
            little = await view(context, small)
            assert reason(context) is None, "its view is kept as well"
            assert (await view(context, 40_000), await view(context, small)) == (before, little)


@pytest.mark.parametrize("seed", range(2))
async def test_any_order_of_budgets_by_request_and_by_restart(seed: int, tmp_path: Path):
    """Each view is lawful and shows of the newest message what a fresh session shows; at an equal budget it goes on
    from the one before, unless it is told."""
    draw, raised, whole, wide = random.Random(seed), 0, 0, 0
    log, last = list[Message](), dict[int, list[Message]]()
    for _ in range(7):
        most = draw.choice(BUDGETS)
        async with roomy(store=tmp_path / "a.db", max_tokens=most) as context:
            for _ in range(draw.randrange(1, 8)):
                for _ in range(draw.randrange(3)):
                    log += chat(1, draw.choice([1, 20, 200, 1_000]), len(log))
                    await context.add_message(log[-1])
                if not log:
                    continue
                budget = draw.choice([*BUDGETS, None])
                shown, at = await context.get_messages_for_request(token_budget=budget), budget or most
                assert context.last_view.tokens <= at
                assert tool_safe_problems(shown) + order_problems(shown, log) == []
                if reason(context) is None:
                    assert prefix_problems(last.get(at, []), shown) == [], at
                last[at] = shown
                raised += reason(context) == "budget_raised"
                whole += shown[-1] == log[-1]
                if shown[-1] != log[-1]:
                    async with roomy() as fresh:
                        await fresh.set_messages(log)
                        assert (await view(fresh, at))[-1] != log[-1], at
                    wide += 1
    assert min(raised, whole, wide) > 0


async def test_a_larger_budget_covers_nothing_that_a_smaller_one_has_shown():
    async with roomy(chat(400, 60), every=4, max_tokens=8_000) as context:
        while context.last_view.tokens < 6_000:
            await fill(context, chat(1, 60, len(context)), every=1)
        log, shown = await context.get_messages(), await view(context, 8_000)
        after = await view(context, 13_000)
        assert (reason(context), len([row for row in shown if row in log]) > 40) == ("budget_raised", True)
        assert [row for row in shown if row in log and row not in after] == []


async def test_a_session_keeps_the_four_newest_views_and_begins_one_again_for_another_system_prompt():
    async with roomy(chat(1, 1)) as context:
        for number in (*range(5), 1):
            await context.next_view(provider=Provider(f"provider-{number}"))
        assert context.last_view.activation is None
        assert (await context.next_view(provider=Provider("provider-0"))).activation is not None, "it begins again"
    async with roomy(chat(1, 1)) as context:
        await context.compact()
        assert (await context.next_view(system="You build.")).activation is None, "no view was shown"
        await context.next_view(system="You mend.")
        assert [one.why for one in context.activations()] == ["other system prompt"]


async def test_a_budget_just_above_system_rows_and_tools_is_told_once(caplog: pytest.LogCaptureFixture):
    tools = [{"name": "read", "description": "word " * 3_000}]
    async with roomy(chat(1, 10), max_tokens=4_000) as context:
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                await context.get_messages_for_request(tools=tools)
        least = context.statistics().least_useful_budget
        (told,) = [text for text in caplog.messages if "system rows and tools" in text]
        assert ("4,000" in told, f"{least:,}" in told) == (True, True)
        assert f"{least:,}" in (await context.handle_command("status")).text
        with pytest.raises(BudgetError) as refused:
            await context.get_messages_for_request(token_budget=2_000, tools=tools)
        assert refused.value.required_tokens + 3_960 == context.statistics().least_useful_budget
        caplog.clear()
        await context.get_messages_for_request(token_budget=least, tools=tools)
        assert not caplog.records


# After its beginning was rewritten, a view holds no signed thinking of finished turns, but the unfinished one's.


small = partial(begun, low_water=0.4, idle_after="never")
QUESTION = user("Question: " + "words of a person " * 3)


def thinking(number: int) -> list[Message]:
    """A call with what was thought and said before it, and its result."""
    said = {"type": "text", "text": "words of a model " * 5}
    use = {"type": "tool_call", "id": f"c{number}", "name": "read", "input": {"path": "a"}}
    asked = assistant([signed(f"Thought {number}.", f"sig{number}"), said, use])
    asked["metadata"] = {"openai:response_id": f"resp_{number}"}
    return [asked, result("openai", f"c{number}", "line of a file " * 8)]


def thoughts(view: list[Message]) -> list[str]:
    blocks = (block for row in view if isinstance(row["content"], list) for block in row["content"])
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


async def test_finished_turns_lose_it_at_the_activation_and_the_unfinished_one_when_it_ends():
    async with small() as context:
        last: list[Message] = []
        for number in range(40):
            first = number - number % 5  # of its turn
            await fill(context, [*[QUESTION] * (number == first), *thinking(number)])
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
    async with small([QUESTION]) as context:
        for number in range(200):
            await fill(context, thinking(number))
            view = await context.next_view(bound_thinking=way)
            assert view.rewritten_prefix == (view.activation is not None)
            if view.rewritten_prefix:
                break
        assert bool(thoughts(view.messages)) == (way == "asked")
        answer, _ = thinking(number + 1)
        await fill(context, [{**answer, "content": answer["content"][:-1]}, QUESTION])
        after = await context.next_view(bound_thinking=way)
        assert after.messages[: len(view.messages)] == view.messages, "no second beginning when the turn ends"
        assert after.rewritten_prefix
        assert thoughts(after.messages)[-1] == f"sig{number + 1}"


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
    opened, compared = partial(roomy, store=tmp_path / "a.db", max_tokens=2_000, idle_after="never"), 0
    async with opened() as context:
        for row in turns(7):
            await context.add_message(row)
            if row["role"] == "assistant":
                continue
            await context.wait_idle()
            before = await context.next_view()
            async with opened(read_only=True) as reopened:
                after = await reopened.next_view()
            if after.activation is None:
                assert after.messages == before.messages
                compared += len(context.activations()) > 0
    assert compared > 20
