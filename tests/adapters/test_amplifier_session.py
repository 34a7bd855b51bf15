"""A real `AmplifierSession` of amplifier-core runs on our context."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from amplifier_core import ContextLengthError, HookResult

from summarizing_context import BudgetError
from tests.adapters.host import ACT, SMALL, Loop, Model, session_of, until


async def inject(event: str, data: dict[str, Any]) -> HookResult:
    said = '<system-reminder source="hook">Mind the style.</system-reminder>'
    return HookResult(action="inject_context", context_injection=said, context_injection_role="user")


async def hang(request: Any) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize(("summarizer", "summarize"), [("extractive", None), ("host", hang)])
async def test_every_request_of_a_long_session_is_valid_and_inside_the_window(summarizer, summarize):
    """Hooks inject rows behind every tool, a user cancels, and a summary that is asked for may never come."""
    tasks, model = asyncio.all_tasks(), Model(window=6_000, summarize=summarize)
    options: dict[str, Any] = {"hooks": {ACT: inject}, "loop": Loop(("Turn 12.",))}
    async with session_of({**SMALL, "summarizer": summarizer}, model=model, **options) as session:
        context = session.coordinator.get("context")
        prompts = [f"Turn {turn}." for turn in range(20)]
        async with asyncio.timeout(240):
            for prompt in prompts:
                await session.execute(prompt)
        history, figures = await context.get_messages(), context.statistics()
        human = [row["content"] for row in history if row["role"] == "user"]
        assert [said for said in human if str(said).startswith("Turn")] == prompts, "the whole history is there"
        assert sum("Mind the style." in str(said) for said in human) > 50
        assert len(model.requests) == 57, "the model refused none"
        assert figures.history_tokens > 3 * model.window
        breaks = sum(new[: len(old)] != old for old, new in pairwise(model.requests))
        assert 3 <= breaks == figures.activations
        assert figures.stand_ins_total > 5 if summarize else figures.summaries_ready > 5
    await until(lambda: asyncio.all_tasks() == tasks)  # what was cancelled ends in the loop's next rounds


async def test_a_budget_that_cannot_be_met_is_the_hosts_error_too():
    async with session_of({}) as session:
        context = session.coordinator.get("context")
        await context.add_message({"role": "system", "content": "word " * 500})
        with pytest.raises(ContextLengthError) as caught:
            await context.get_messages_for_request(token_budget=100)
        error = caught.value
        assert isinstance(error, BudgetError)
        assert (error.budget_tokens, len(error.rows) > 0) == (100, True)


async def test_the_older_contract_compacts_for_the_mounted_provider_before_any_request():
    async with session_of(SMALL, model=Model(window=4_000)) as session:
        context = session.coordinator.get("context")
        assert not await context.should_compact()
        for number in range(60):
            await context.add_message({"role": "user", "content": f"{number}: " + "some words of a person " * 15})
        assert await context.should_compact()
        assert (await context.compact()).activated
        assert not await context.should_compact()
        assert len(await context.get_messages()) == 60
        assert await session.execute("Go on.") == "Answer 3."
        assert context.statistics().activations_by_reason.keys() <= {"explicit", "high_water"}
