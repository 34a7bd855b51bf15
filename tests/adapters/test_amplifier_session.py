"""A real `AmplifierSession` of amplifier-core runs on our context."""

import asyncio
import json
from collections import defaultdict
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from amplifier_core import ContextLengthError, HookResult

from summarizing_context import BudgetError, ContextClosedError
from summarizing_context.adapters.amplifier.events import ANNOUNCED
from tests.adapters.host import ACT, SMALL, Loop, Model, session_of, until, use

PROMPTS = ["Turn: the walrus listens on port 48231, and never touch the vendor folder."]
PROMPTS += [f"Turn {turn}." for turn in range(1, 20)]


async def inject(event: str, data: dict[str, Any]) -> HookResult:
    said = '<system-reminder source="hook">Mind the style.</system-reminder>'
    return HookResult(action="inject_context", context_injection=said, context_injection_role="user")


async def hang(request: Any) -> Any:
    await asyncio.Event().wait()


async def play(summarizer: str) -> Any:
    """Hooks inject rows behind every tool, a user cancels, and a summary that is asked for may never come."""
    tasks, seen, asked = asyncio.all_tasks(), defaultdict[str, list[Any]](list), list[int]()
    model = Model(window=6_000, summarize=hang if summarizer == "host" else None, factor=1.3)

    async def note(event: str, data: dict[str, Any]) -> None:
        seen[event].append(data)

    async def prompt() -> str:
        asked.append(1)
        return "You are kind."

    options: dict[str, Any] = {"hooks": {ACT: inject, **dict.fromkeys(ANNOUNCED, note)}, "loop": Loop(("Turn 12.",))}
    async with session_of({**SMALL, "summarizer": summarizer, "recall_tool": True}, model=model, **options) as session:
        context = session.coordinator.get("context")
        await context.add_message({"role": "system", "content": "The prompt of old."})
        await context.set_system_prompt_factory(prompt)
        async with asyncio.timeout(240):
            for said in PROMPTS:
                await session.execute(said)
        recalled = await use(session, "context_recall", query="which port does the walrus use")
        assert "needs other arguments" in await use(session, "context_recall", question="?")
        tool, log = session.coordinator.get("tools")["context_recall"], await context.get_messages()
        status = await context.handle_command("/context status")
        assert status.data["statistics"]["messages"] == len(log)
        assert not (await context.handle_command("/context stutus")).ok
        made = {"log": log, "figures": context.statistics(), "ledger": (await context.opened()).ledger()}
        announced = await session.coordinator.collect_contributions("observability.events")
    await until(lambda: asyncio.all_tasks() == tasks)  # what was cancelled ends in the loop's next rounds
    assert "context_recall" not in (session.coordinator.get("tools") or {})
    late = await tool.execute({"query": "walrus"})
    assert (late.success, late.error["type"]) == (False, "ContextClosedError")
    with pytest.raises(ContextClosedError):
        await context.handle_command("/context status")
    return SimpleNamespace(
        model=model, seen=seen, asked=asked, recalled=recalled, tool=tool, announced=announced, **made
    )


@pytest.fixture(scope="module", params=["extractive", "host"])
def played(request: pytest.FixtureRequest) -> Any:
    return asyncio.run(play(request.param))


def test_every_request_of_a_long_session_is_valid_and_inside_the_window(played):
    human = [row["content"] for row in played.log if row["role"] == "user"]
    assert [said for said in human if str(said).startswith("Turn")] == PROMPTS, "the whole history is there"
    assert sum("Mind the style." in str(said) for said in human) > 50
    assert len(played.model.requests) == 57, "the model refused none"
    assert played.figures.history_tokens > 3 * played.model.window
    breaks = sum(new[: len(old)] != old for old, new in pairwise(played.model.requests))
    assert 3 <= breaks == played.figures.activations
    assert (played.figures.stand_ins_total if played.model.summarize else played.figures.summaries_ready) > 5


def test_the_prompt_factory_is_called_once_a_request_and_stays_out_of_the_log(played):
    assert len(played.asked) == len(played.model.requests)
    for rows in (*played.model.requests, played.log):
        assert [row["content"] for row in rows if row["role"] == "system"] == [rows[0]["content"]]
    assert {rows[0]["content"] for rows in played.model.requests} == {"You are kind."}
    assert played.log[0]["content"] == "The prompt of old."
    assert "system_changed" not in played.figures.activations_by_reason


def test_what_a_view_has_lost_is_recalled_by_a_tool_and_told_by_the_session(played):
    assert "48231" in played.recalled
    assert "earlier part of this conversation" in played.tool.description
    assert played.tool.input_schema["properties"]["query"]["type"] == "string"
    assert any("never touch the vendor folder" in fact.value for fact in played.ledger)


def test_every_event_is_announced_finite_and_without_text(played):
    seen = played.seen
    if played.model.summarize is None:
        quiet = "summary_failed degraded stand_in_used memory_stored memory_replaced"  # nothing fails, memory is off
        assert set(ANNOUNCED) == seen.keys() | {f"context:{name}" for name in quiet.split()}
    assert {name for listed in played.announced for name in listed} >= set(ANNOUNCED)
    text = json.dumps(seen, allow_nan=False)
    assert not [said for said in ("walrus", "line 3 of", "Mind the style") if said in text]
    added = {"role": "user", "content_length": len(PROMPTS[0]), "total_messages": 2}
    assert seen["context:message_added:debug"][1].items() >= added.items()
    assert len(seen["context:compaction"]) == len(seen["context:post_compact"]) > 0
    before, after = seen["context:pre_compact"][0], seen["context:post_compact"][0]
    assert after["tokens"] == after["token_count"] < before["tokens"] == before["token_count"]
    assert 0 < after["message_count"] < before["message_count"]
    assert all(data["source"] == "header" and data["tokens"] > 0 for data in seen["context:include"])
    budget = seen["context:budget_changed"][0]
    assert (budget["budget"], budget["window"]) == (4_500, 6_000)


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
