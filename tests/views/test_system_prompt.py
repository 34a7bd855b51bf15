"""A system prompt that comes with the request: it leads, it costs, it is no part of the log, a new one is told."""

from pathlib import Path
from typing import Any

import pytest

from summarizing_context import SettingsError, SummarizingContext, open_context
from tests.behaviour.contexts import tiny
from tests.laws.builders import assistant, user

SMALL = tiny(idle_after="never")
OWN = {"role": "system", "content": "The prompt of old."}
FILES = {"role": "developer", "content": "A context file."}
HOOK = {"role": "system", "content": "A hook's row.", "metadata": {"source": "hook"}}


async def talk(context: SummarizingContext, first: int, count: int) -> None:
    for number in range(first, first + count):
        await context.add_message(user(f"{number}: " + "words of a person " * 8))
        await context.add_message(assistant(f"{number}: " + "words of a model " * 8))


def reasons(context: SummarizingContext) -> dict[str, int]:
    return dict(context.statistics().activations_by_reason)


async def test_it_leads_in_the_place_of_the_logs_own_and_stays_out_of_the_log():
    async with open_context(SMALL) as context:
        log: list[dict[str, Any]] = [OWN, FILES, HOOK, user("Hello")]
        for message in log:
            await context.add_message(message)
        view = await context.get_messages_for_request(system="You are kind.")
        assert view == [{"role": "system", "content": "You are kind."}, *log[1:]]
        assert await context.get_messages() == log
        assert await context.get_messages_for_request(system="") == log[1:]
        assert await context.get_messages_for_request() == log
        with pytest.raises(SettingsError, match="system is int"):
            await context.get_messages_for_request(system=5)


async def test_the_same_prompt_changes_nothing_and_another_is_one_activation():
    async with open_context(SMALL) as context:
        await talk(context, 0, 3)
        first = await context.get_messages_for_request(system="One.")
        await talk(context, 3, 1)
        second = await context.get_messages_for_request(system="One.")
        assert second[: len(first)] == first
        assert reasons(context) == {}
        third = await context.get_messages_for_request(system="Two.")
        assert third == [{"role": "system", "content": "Two."}, *second[1:]]
        assert reasons(context) == {"system_changed": 1}
        assert context.last_view.activation is not None
        assert context.last_view.stable_prefix_messages == 0


async def test_a_prompt_that_is_new_each_time_neither_blocks_nor_hurries_covering():
    async with open_context(SMALL) as steady, open_context(SMALL) as restless:
        for turn in range(60):
            for context, prompt in ((steady, "The time is now."), (restless, f"It is turn {turn:03} now.")):
                await talk(context, turn, 1)
                await context.get_messages_for_request(system=prompt)
                assert context.last_view.tokens <= 2_000
        told = reasons(restless)
        assert told == {"system_changed": 59}
        assert all(context.explain()[-1].stop >= 80 for context in (steady, restless))  # of 120 messages
        assert 2 <= steady.statistics().activations < 20


async def test_after_a_restart_only_another_prompt_is_told(tmp_path: Path):
    settings = tiny(idle_after="never", store=tmp_path / "run.db")
    async with open_context(settings) as context:
        await talk(context, 0, 30)
        before = await context.get_messages_for_request(system="One.")
        assert reasons(context) == {"high_water": 1}
    async with open_context(settings) as context:
        assert await context.get_messages_for_request(system="One.") == before
        assert reasons(context) == {}
        await context.get_messages_for_request(system="Two.")
        assert reasons(context) == {"system_changed": 1}
