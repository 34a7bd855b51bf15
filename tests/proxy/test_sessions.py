"""Long sessions of each protocol through the proxy: within the budget, lawful, and with a prefix that stays."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.laws.builders import assistant, user
from tests.proxy.clients import (
    AGENTS,
    RESULT,
    AnthropicAgent,
    ChatAgent,
    begins_with,
    between,
    histories,
    proxied,
    status,
)
from tests.proxy.fake import Fake, served

BUDGET = 4_000


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("agent", AGENTS)
async def test_a_long_session_stays_within_its_budget_and_lawful_also_behind_a_restart(agent, tmp_path):
    fake, records, history = Fake(), list[Any](), []
    async with served(fake) as upstream:
        for steps in (16, 8):
            async with proxied(upstream, tmp_path / "run.db", budget=BUDGET) as address:
                client = agent(address)
                client.history = history or client.history
                for step in range(steps):
                    await client.step(f"Go on with step {step}. Never push to main.")
                told, history = await status(address), client.history
            records += told["records"]
            assert (len(told["sessions"]), told["failures"]) == (1, 0)
    sent = histories(fake.seen)
    assert len(fake.seen) == len(records) == 24
    assert fake.problems == []
    assert max(record["view_tokens"] + record["fixed_tokens"] for record in records) <= BUDGET
    activations = sum(record["activation"] is not None for record in records)
    assert 2 <= activations < 15
    assert sum(not begins_with(now, before) for before, now in pairwise(sent)) <= activations
    assert records[16]["activation"] in (None, "restored")
    assert begins_with(sent[16], sent[15])
    assert "<summary messages=" in fake.seen[-1]["raw"].decode().replace("\\", "")
    assert told["sessions"][0]["tokens"] > 3 * BUDGET  # so much has the client sent
    assert max(len(each["raw"]) for each in fake.seen) < len(str(history)) / 3


async def test_a_reminder_that_moves_to_the_newest_message_costs_no_activations():
    async with between(budget=BUDGET) as (fake, address):
        client = AnthropicAgent(address)
        client.reminder = "<system-reminder>Mind the tests.</system-reminder>"
        await client.steps(18)
        for step in range(3):
            await client.step(f"What did step {step} read?")
        told = await status(address)
    reasons = [record["activation"] for record in told["records"]]
    assert set(reasons) == {None, "high_water"}
    assert fake.problems == []
    assert any("<recalled " in str(sent[-3:-1]) for sent in histories(fake.seen)), "a page stays for its whole turn"
    for (before, now), reason in zip(pairwise(histories(fake.seen)), reasons[1:], strict=True):
        known = before[:-1] if "<recalled " in str(before[-1]) else before
        assert reason == "high_water" or begins_with(now, known[:-1])


@pytest.mark.parametrize("agent", AGENTS)
async def test_a_short_session_goes_on_byte_for_byte(agent):
    fake, direct = Fake(), Fake()
    async with served(fake) as upstream, served(direct) as beside, proxied(upstream, budget=BUDGET) as address:
        for to in (address, beside):
            await agent(to).steps(3)
    assert [each["raw"] for each in fake.seen] == [each["raw"] for each in direct.seen]
    kept = ("authorization", "x-api-key", "anthropic-version", "content-type", "user-agent", "content-length")
    for ours, theirs in zip(fake.seen, direct.seen, strict=True):
        assert [ours["headers"].get(name) for name in kept] == [theirs["headers"].get(name) for name in kept]


async def test_titles_agents_inside_a_client_and_counts_of_tokens_are_apart():
    async with between(budget=BUDGET) as (fake, address):
        client = AnthropicAgent(address)
        await client.step("Fix the parser")
        await client.steps(9)
        ask = client.client.messages.create
        await ask(model="haiku", max_tokens=9, messages=[user("Fix the parser")])
        named = {"x-claude-code-agent-id": "a-7"}
        inside = [user("Fix the parser"), assistant("ok"), user("go on")]
        await ask(model="claude-x", max_tokens=9, messages=inside, tools=client.options["tools"], extra_headers=named)
        await client.step("go on")
        told, newest = await status(address), fake.seen[-1]
        options, history = {name: client.options[name] for name in ("model", "tools", "system")}, client.history[:-1]
        await client.client.messages.count_tokens(messages=history, **options)
        again = await status(address)
    assert fake.seen[-1]["body"]["messages"] == history
    assert (len(again["sessions"]), again["requests"]) == (len(told["sessions"]), told["requests"]) == (2, 12)
    assert told["passed_unchanged"] == 1
    last = told["records"][-1]["activation"]
    assert last == "high_water" or begins_with(newest["body"]["messages"], histories(fake.seen)[9])


async def test_two_unnamed_clients_that_begin_alike_are_two_sessions():
    async with between(budget=BUDGET) as (_, address):
        clients = [ChatAgent(address), ChatAgent(address)]
        for step in range(8):
            for client in clients:
                await client.step(f"step {step}")
        told = await status(address)
    assert len(told["sessions"]) == 2
    assert {record["activation"] for record in told["records"]} <= {None, "high_water"}


async def test_a_client_that_moves_its_files_and_a_reminder_to_the_end_has_one_session(tmp_path):
    """As aider does: files behind what is done and before the newest words, and words of the system at the end."""
    fake, done = Fake(), [user("Start."), assistant("Yes.")]
    files, reminder = [user(f"I have added these files:\n{RESULT}"), assistant("Ok.")], {"role": "system"}
    async with served(fake) as upstream:
        for steps in (range(12), range(12, 16)):
            async with proxied(upstream, tmp_path / "run.db", budget=BUDGET) as address:
                ask = ChatAgent(address).client.chat.completions.create
                for step in steps:
                    said = [*done, *files, user(f"Step {step}. {RESULT}"), {**reminder, "content": "Reply in English."}]
                    await ask(model="gpt-x", messages=said)
                    done += [said[-2], assistant(f"Done with {step}. {RESULT}")]
                told = await status(address)
                assert len(told["sessions"]) == 1
    assert fake.problems == []
    activations = sum(record["activation"] == "high_water" for record in told["records"])
    assert activations < 4
    assert len({each["session"] for each in told["records"]}) == 1


async def test_a_session_resumed_without_its_fields_of_null_goes_on():
    async with between(budget=BUDGET) as (_, address):
        client = ChatAgent(address)
        for step in range(8):
            await client.step(f"step {step}")
            client.history[-1] |= {"refusal": None}
        client.history = [{name: each[name] for name in each if name != "refusal"} for each in client.history]
        await client.step("and now?")
        told = await status(address)
    assert len(told["sessions"]) == 1
    assert {record["activation"] for record in told["records"]} <= {None, "high_water"}


async def test_shadow_changes_nothing_asks_no_model_and_tells_what_it_would_do():
    async with between(budget=BUDGET, shadow=True, lends=True) as (fake, address):
        client = AnthropicAgent(address)
        await client.steps(16)
        told = await status(address)
    assert [len(rows) for rows in histories(fake.seen)] == list(range(1, 32, 2))
    assert told["shadow"] is True
    assert told["sessions"][0]["saved_tokens"] > BUDGET
    assert sum(record["activation"] is not None for record in told["records"]) >= 1
    assert not any("session_record" in each["raw"].decode() for each in fake.seen), "it asks no model"
    assert told["summarizer"] == "extractive"
