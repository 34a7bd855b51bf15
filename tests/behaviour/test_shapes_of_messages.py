"""What a provider binds stays together in a view, what nobody knows travels whole, and what holds is carried over."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from summarizing_context import Settings, SummarizingContext, open_context

pytestmark = pytest.mark.anyio
Rows = list[dict[str, Any]]
WORDS = ["parser", "tokens", "nodes", "tests", "blocks", "files", "lexer", "grammar", "output", "cache"]


def words(rng: random.Random, most: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(most // 2, most)))


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def said(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def search(rng: random.Random, id: str, size: int) -> Rows:
    sealed = base64.b64encode(rng.randbytes(size)).decode()
    found = [{"type": "web_search_result", "url": "https://example.org", "title": "Tides", "encrypted_content": sealed}]
    asked = {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "tides"}}
    return [asked, {"type": "web_search_tool_result", "tool_use_id": id, "content": found}]


def in_one_message(rng: random.Random, n: int) -> Rows:
    made = search(rng, f"s{n}", rng.choice([60, 3_000]))
    return [user(words(rng, 40)), said([*made, {"type": "text", "text": words(rng, 80)}])]


def paused(rng: random.Random, n: int) -> Rows:
    asked, found = search(rng, f"s{n}", 200)
    return [user(words(rng, 40)), said([asked]), said([found, {"type": "text", "text": words(rng, 80)}])]


def program(rng: random.Random, n: int) -> Rows:
    """A program that the provider runs calls the host's tool again and again."""
    asked, found = {"type": "server_tool_use", "id": f"s{n}", "name": "code_execution", "input": {"code": "x"}}, f"s{n}"
    rows = [user(words(rng, 20)), said([asked])]
    for at in range(3):
        call = {"type": "tool_use", "id": f"t{n}.{at}", "name": "look", "input": {}, "caller": {"tool_id": found}}
        rows[-1 if not at else len(rows) :] = [said([asked, call] if not at else [call])]
        rows.append(user([{"type": "tool_result", "tool_use_id": f"t{n}.{at}", "content": words(rng, 60)}]))
    return [*rows, said([{"type": "code_execution_tool_result", "tool_use_id": found, "content": {"stdout": "ok"}}])]


def bedrock(rng: random.Random, n: int) -> Rows:
    call = {"toolUse": {"toolUseId": f"b{n}", "name": "look", "input": {"path": words(rng, 5)}}}
    result = {"toolUseId": f"b{n}", "content": [{"text": words(rng, 200)}], "status": "success"}
    return [user([{"text": words(rng, 10)}]), said([call]), user([{"toolResult": result}])]


def gemini(rng: random.Random, n: int) -> Rows:
    call = {"functionCall": {"name": "look", "args": {"path": words(rng, 5)}}, "thoughtSignature": "c2ln"}
    result = {"functionResponse": {"name": "look", "response": {"output": words(rng, 200)}}}
    typed = {"role": "user", "parts": [{"text": words(rng, 10)}]}
    return [typed, {"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]


def halves(view: Sequence[Any]) -> list[tuple[str, str]]:
    """Each call and each result of a view, in its order."""
    found: list[tuple[str, str]] = []
    for row in view:
        content = row.get("content") or row.get("parts")
        for block in content if isinstance(content, list) else []:
            for call in (block.get("toolUse"), block.get("functionCall"), block if "input" in block else None):
                found += [("call", call.get("toolUseId", call.get("id", "")))] if call else []
            for result in (block.get("toolResult"), block.get("functionResponse"), block):
                is_one = result and (result is not block or "tool_use_id" in block)
                found += [("result", result.get("toolUseId", result.get("tool_use_id", "")))] if is_one else []
    return found


@pytest.mark.parametrize("rows_of", [in_one_message, paused, program, bedrock, gemini])
@pytest.mark.parametrize("budget", [3_000, 8_000, 40_000])
async def test_both_halves_of_a_pair_are_shown_or_neither(rows_of: Callable[..., Rows], budget: int) -> None:
    rng = random.Random(budget)
    known: set[str] = set()
    async with open_context(Settings(max_tokens=budget)) as context:
        for n in range(40):
            for row in rows_of(rng, n):
                await context.add_message(row)
                content = row.get("content") or row.get("parts")
                known.update(json.dumps(block) for block in content if isinstance(block, dict))
                view = await context.get_messages_for_request()
                waiting: list[str] = []
                for half, id in halves(view):
                    if half == "call":
                        waiting.append(id)
                    else:
                        waiting.remove(id)
                assert not waiting or rows_of is program or len(waiting) == 1
                for shown in view:
                    blocks = shown["content"] if isinstance(shown.get("content"), list) else []
                    assert all(json.dumps(b) in known for b in blocks if str(b.get("type")).endswith("_tool_result"))
        assert context.statistics().activations or budget == 40_000


async def test_a_paused_turn_that_the_user_ends_gives_up_its_call() -> None:
    async with open_context() as context:
        asked, _ = search(random.Random(1), "s1", 60)
        for row in (user("Go."), said([{"type": "text", "text": "I search."}, asked])):
            await context.add_message(row)
        assert "s1" in json.dumps(await context.get_messages_for_request())
        await context.add_message(user("Never mind."))
        view = await context.get_messages_for_request()
        assert "s1" not in json.dumps(view)
        assert [row["role"] for row in view] == ["user", "assistant", "user"]


@pytest.mark.parametrize("budget", [1_500, 6_000])
async def test_an_unknown_block_travels_as_it_came_or_not_at_all(budget: int) -> None:
    rng = random.Random(budget)
    known: set[str] = set()
    async with open_context(Settings(max_tokens=budget)) as context:
        for n in range(150):
            odd = {"type": f"brand_new_{n % 7}", "of": n, "body": words(rng, rng.choice([5, 60, 900]))}
            known.add(json.dumps(odd))
            text = {"type": "text", "text": words(rng, rng.choice([20, 600]))}
            blocks = rng.sample([odd, text], k=rng.randint(1, 2)) if n % 3 else [odd, text]
            await context.add_message(user(blocks) if n % 2 else said(blocks))
            for row in await context.get_messages_for_request():
                if "<history" not in json.dumps(row):
                    shown = row["content"] if isinstance(row["content"], list) else [{"type": "text", "text": row}]
                    assert all(json.dumps(block) in known for block in shown if block["type"] != "text")
                    assert "brand_new" not in json.dumps([block for block in shown if block["type"] == "text"])


async def thought(context: SummarizingContext, long: int) -> Any:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    row = {"role": "assistant", "content": "", "reasoning_content": "I should read. " * long, "tool_calls": [call]}
    for each in (user("Fix it."), row, {"role": "tool", "tool_call_id": "c1", "content": "x = 1"}):
        await context.add_message(each)
    view = await context.get_messages_for_request()
    return next(each for each in view if each["role"] == "assistant")["reasoning_content"]


async def test_thinking_of_the_open_turn_is_whole_while_there_is_room_and_its_field_stays() -> None:
    async with open_context(Settings(max_tokens=8_000)) as context:
        assert await thought(context, 800) == "I should read. " * 800
    async with open_context(Settings(max_tokens=1_500)) as context:
        assert await thought(context, 800)


async def test_the_newest_reference_to_each_tool_stays_in_the_view_with_its_call() -> None:
    rng = random.Random(3)
    loaded = {"type": "tool_result", "tool_use_id": "ts"}
    loaded["content"] = [{"type": "tool_reference", "tool_name": "file_issue"}]  # type: ignore[assignment]
    async with open_context(Settings(max_tokens=3_000)) as context:
        await context.add_message(user("File issues."))
        await context.add_message(said([{"type": "tool_use", "id": "ts", "name": "ToolSearch", "input": {}}]))
        await context.add_message(user([loaded]))
        for n in range(40):
            await context.add_message(said([{"type": "tool_use", "id": f"t{n}", "name": "file_issue", "input": {}}]))
            await context.add_message(
                user([{"type": "tool_result", "tool_use_id": f"t{n}", "content": words(rng, 150)}])
            )
            view = await context.get_messages_for_request()
            at = next(
                at for at, row in enumerate(view) if isinstance(row["content"], list) and loaded in row["content"]
            )
            assert view[at - 1]["content"][-1]["id"] == "ts"
        assert context.statistics().activations


async def test_thinking_of_an_open_turn_is_cut_only_where_the_caller_says_that_it_is_free():
    thinking = {"type": "thinking", "thinking": "so it goes " * 1_000, "signature": "c2lnbmVk" * 20}
    call = {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a.py"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "done"}
    rows = [
        {"role": "user", "content": "Read a.py."},
        {"role": "assistant", "content": [thinking, call]},
        {"role": "user", "content": [result]},
    ]
    async with open_context(Settings(max_tokens=8_000)) as context:
        for row in rows:
            await context.add_message(row)
        assert thinking in (await context.next_view()).messages[1]["content"]
    async with open_context(Settings(max_tokens=8_000)) as context:
        for row in rows:
            await context.add_message(row)
        shown = (await context.next_view(bound_thinking="free")).messages[1]["content"]
        assert call in shown
        assert thinking not in shown
