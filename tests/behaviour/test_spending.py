"""The budget of a session, told and kept free; tools and a system prompt, which leads, take their part of it."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import BudgetReport, MessageError, SettingsError
from tests.behaviour import contexts
from tests.behaviour.contexts import Heard, cost, small, tiny
from tests.laws.builders import Message, count, session, system, user

begun = partial(contexts.begun, of=tiny, idle_after="never")
FORMS = {
    "openai": lambda tool: {"type": "function", "function": tool | {"parameters": {"type": "object"}}},
    "anthropic": lambda tool: tool | {"input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}},
    "gemini": lambda tool: {"functionDeclarations": [tool]},
}


def tools(number: int, form: str = "openai") -> list[dict[str, Any]]:
    return [FORMS[form]({"name": f"tool_{n}", "description": "reads a file and says so " * 10}) for n in range(number)]


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in strings(item)]


def talk(first: int, turns: int) -> list[Message]:
    return [contexts.said(number, "words of a person " * 8) for number in range(2 * first, 2 * (first + turns))]


@pytest.mark.parametrize("form", sorted(FORMS))
async def test_messages_tools_and_prompt_stay_within_the_budget_together(form: str):
    sent, prompt = tools(25, form), [{"type": "text", "text": "Be kind. " * 40}, {"type": "text", "text": "Be brief."}]
    beside = sum(count(text) for text in strings(sent) + strings(prompt))
    assert beside > 1_000
    async with begun(max_tokens=4_000, events=(heard := Heard())) as context:
        for turn in range(40):
            await contexts.fill(context, talk(turn, 1))
            messages = await context.get_messages_for_request(system=prompt, tools=sent)
            view = context.last_view
            assert messages[0] == system(prompt)
            assert view.tokens == cost(messages[1:])
            assert view.fixed_tokens >= beside
            assert view.tokens + view.fixed_tokens <= 4_000
        assert context.statistics().activations > 0
        # what a provider reports is held against all that was sent
        await context.observe_usage(counted := view.tokens + view.fixed_tokens)
    assert [(each["ratio"], each["counted"]) for each in heard.of("usage_calibrated")] == [(1.0, counted)]


async def test_what_is_no_tool_and_no_prompt_is_refused_and_changes_nothing():
    async with begun(talk(0, 2), max_tokens=4_000) as context:
        before = await context.get_messages_for_request(system="One.", tools=tools(1))
        for wrong, said in (
            *(({"tools": wrong}, f"tools is {type(wrong).__name__}") for wrong in ("read", 5, {"name": "read"})),
            *(({"tools": [{"name": wrong}]}, "tools cannot be sent") for wrong in (float("nan"), object())),
            ({"tools": [{"name": "read"}, "write"]}, r"tools\[1\] is str"),
            ({"system": 5}, "system is int"),
            ({"system": [{"text": object()}]}, "system cannot be sent"),
            ({"system": ["be kind"]}, r"system\[0\] is str"),
        ):
            with pytest.raises(SettingsError, match=said):
                await context.get_messages_for_request(**wrong)
            assert await context.get_messages_for_request(system="One.", tools=tools(1)) == before
        assert context.statistics().activations == 0


# A system prompt that comes with the request: it leads, it costs, it is no part of the log, a new one is told.


async def test_the_same_prompt_changes_nothing_and_another_is_one_activation_also_after_a_restart(tmp_path: Path):
    given = {"store": tmp_path / "run.db", "count_tokens": None}
    async with begun(talk(0, 30), **given) as context:
        first = await context.get_messages_for_request(system="One.")
        assert context.statistics().activations_by_reason == {"high_water": 1}
        await contexts.fill(context, talk(30, 1))
        second = await context.get_messages_for_request(system="One.")
        assert second[: len(first)] == first
        assert context.statistics().activations_by_reason == {"high_water": 1}
        third = await context.get_messages_for_request(system="Two.")
        assert third == [system("Two."), *second[1:]]
        assert context.statistics().activations_by_reason == {"high_water": 1, "system_changed": 1}
        assert contexts.reason(context) == "system_changed"
        assert context.last_view.stable_prefix_messages == 0
    async with begun(**given) as context:
        assert await context.get_messages_for_request(system="Two.") == third
        assert context.statistics().activations_by_reason == {}
        await context.get_messages_for_request(system="Three.")
        assert context.statistics().activations_by_reason == {"system_changed": 1}
    # it leads in the place of the log's own, and stays out of the log
    own, files = system("The prompt of old."), system("A context file.", "developer")
    hook = system("A hook's row.") | {"metadata": {"source": "hook"}}
    async with begun(log := [own, files, hook, user("Hello")]) as context:
        assert await context.get_messages_for_request(system="You are kind.") == [system("You are kind."), *log[1:]]
        assert await context.get_messages() == log
        assert await context.get_messages_for_request(system="") == log[1:]
        assert await context.get_messages_for_request() == log


async def test_a_prompt_that_is_new_each_time_neither_blocks_nor_hurries_covering():
    async with begun(count_tokens=None) as steady, begun(count_tokens=None) as restless:
        for turn in range(60):
            for context, prompt in ((steady, "The time is now."), (restless, f"It is turn {turn:03} now.")):
                await contexts.fill(context, talk(turn, 1))
                await context.get_messages_for_request(system=prompt)
                assert context.last_view.tokens <= 2_000
        assert restless.statistics().activations_by_reason == {"system_changed": 59}
        assert all(context.explain()[-1].stop >= 80 for context in (steady, restless))  # of 120 messages
        assert 2 <= steady.statistics().activations < 20


# How much of the budget a view takes, and what has space.

LOG = session(6, 300, size=30)


async def test_the_budget_tells_what_the_view_takes_and_space_is_made_only_where_it_is_missing():
    async with begun(of=small, max_tokens=1_000) as context:
        assert context.budget() == BudgetReport(1_000, 0, 0.0)
        for message in LOG[:100]:
            await context.add_message(message)
            await context.get_messages_for_request()
            used = context.last_view.tokens
            assert context.budget() == BudgetReport(1_000, used, used / 1_000)
        report = await context.make_space(1_000 - used)
        assert (report.activated, report.tokens_after) == (False, used)
        while context.budget().used_tokens < 800:
            await context.add_message(user("more words " * 10))
        report = await context.make_space(300)
        assert report.activated
        assert report.tokens_after == context.budget().used_tokens < 700
        assert context.has_space(user("word " * 50))
        await context.get_messages_for_request(700)
        assert context.budget().max_tokens == 700


async def test_a_message_has_space_as_long_as_it_fits_whole():
    async with begun(of=small, max_tokens=1_000, count_tokens=len) as context:
        for log, fits in (((), 996), ([user("x" * 100)], 892)):
            await contexts.fill(context, log)
            assert context.has_space(user("x" * fits))
            assert not context.has_space(user("x" * (fits + 1)))
        with pytest.raises(MessageError):
            context.has_space("no message")
