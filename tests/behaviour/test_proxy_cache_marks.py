"""Anthropic refuses more than four cache marks, and one of an hour behind one of five minutes: none goes out."""

import json
import random
from collections.abc import Iterator
from typing import Any

from tests.laws.builders import call, result, system, user
from tests.proxy.clients import between, status
from tests.proxy.test_wire import post

WORDS = "def parse(tokens): return [token for token in tokens if token.kind != 'space']  # line of a file\n"


def texts(*said: str) -> list[Any]:
    return [{"type": "text", "text": text} for text in said]


def a_session(chance: random.Random, steps: int) -> dict[str, Any]:
    """A request of an agent whose history is longer than the budget of these tests."""
    rows = [user(texts(f"Fix bug {chance.random()}.")), system(texts("The machine runs Linux."))]
    for step in range(steps):
        answer = result("anthropic", f"toolu_{step}", texts(WORDS * 12))["content"]
        rows += [call("anthropic", (f"toolu_{step}", "read", {})), user(answer + texts(f"Result {step}."))]
        if chance.random() < 0.2:
            rows.append(system(texts(f"It is step {step}.")))
    tools = [{"name": name, "description": "Reads.", "input_schema": {"type": "object"}} for name in ("read", "list")]
    beside = {"tools": tools, "system": texts("You fix code.", "Be brief.", "Never push.")}
    return {"model": "claude-x", "max_tokens": 1_000, **beside, "messages": rows}


def markable(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Whatever may bear a mark, in the order in which the provider reads it."""
    yield from body["tools"]
    yield from body["system"]
    for row in body["messages"]:
        for block in row["content"] if isinstance(row["content"], list) else ():
            yield from block["content"] if isinstance(block.get("content"), list) else ()
            yield block


def marks_of(body: dict[str, Any]) -> list[str]:
    """How long each mark lasts, in the order of the request."""
    found = [place["cache_control"].get("ttl", "5m") for place in markable(body) if "cache_control" in place]
    return found + ([body["cache_control"].get("ttl", "5m")] if "cache_control" in body else [])


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_marks(each) for name, each in value.items() if name != "cache_control"}
    return [without_marks(each) for each in value] if isinstance(value, list) else value


async def test_no_request_goes_out_with_more_marks_or_in_another_order_than_the_provider_takes():
    async with between(budget=4_000) as (fake, address):
        for seed in range(22):
            chance = random.Random(seed)
            body = a_session(chance, steps=chance.randrange(2, 14))
            places = list(markable(body))
            for place in chance.sample(places, min(len(places), chance.randrange(9))):
                place["cache_control"] = {"type": "ephemeral", **chance.choice([{}, {"ttl": "5m"}, {"ttl": "1h"}])}
            if chance.random() < 0.2:
                body["cache_control"] = {"type": "ephemeral", **chance.choice([{}, {"ttl": "1h"}])}
            answer = await post(address, body=json.dumps(body), **{"x-claude-code-session-id": f"s-{seed}"})
            sent = fake.seen[-1]["body"]
            marks = marks_of(sent)
            assert answer.status_code == 200, (seed, answer.text)
            assert json.dumps(sent).count('"cache_control"') == len(marks) <= 4, seed
            assert marks == sorted(marks), (seed, marks)  # "1h" stands before "5m"
            assert all(without_marks(sent[part]) == without_marks(body[part]) for part in ("tools", "system"))
        told = await status(address)
    assert told["failures"] == 0
    assert sum(record["changed"] for record in told["records"]) > 10


async def test_a_view_is_marked_at_its_header_and_its_end_beside_the_marks_of_the_prompt():
    body = a_session(random.Random(1), steps=12)
    body["system"][-1]["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    body["messages"][-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    async with between(budget=4_000) as (fake, address):
        await post(address, body=json.dumps(body), **{"x-claude-code-session-id": "s"})
        assert [record["changed"] for record in (await status(address))["records"]] == [True]
    sent = fake.seen[0]["body"]
    assert sent["system"] == body["system"]
    assert sent["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert marks_of(sent) == ["1h", "5m", "5m"]
