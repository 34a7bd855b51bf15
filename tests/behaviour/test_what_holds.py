"""What a row has set or loaded holds in every later view, also where there is no room for what was said beside it."""

from __future__ import annotations

from typing import Any

from summarizing_context import Settings, open_context
from tests.laws.builders import count

LOADED = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "maps"}},
    {
        "type": "tool_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "map"}],
        },
    },
]


def text(words: str, times: int) -> dict[str, Any]:
    return {"type": "text", "text": f"{words} " * times}


async def shown_after(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """The last view of a session in which these rows came early."""
    async with open_context(Settings(max_tokens=3_000, idle_after=None), count_tokens=count) as context:
        await context.add_message({"role": "user", "content": [text("find the route", 4)]})
        for row in rows:
            await context.add_message(row)
        for number in range(40):
            for role in ("user", "assistant"):
                await context.add_message({"role": role, "content": [text(f"step {number} of {role}", 30)]})
            await context.get_messages_for_request()
        assert context.statistics().activations
        return await context.get_messages_for_request()


async def test_a_tool_that_was_found_stays_known_though_what_came_with_it_is_too_long() -> None:
    ran = {"type": "server_tool_use", "id": "srvtoolu_0", "name": "code_execution", "input": {"code": "run()"}}
    printed = {"type": "code_execution_result", "stdout": "a line of output\n" * 2_000, "return_code": 0}
    result = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_0", "content": printed}
    view = await shown_after({"role": "assistant", "content": [ran, result, *LOADED]})
    blocks = [block for row in view if isinstance(row["content"], list) for block in row["content"]]
    assert [block for block in blocks if block in LOADED] == LOADED
    assert not {"srvtoolu_0"} & {block.get("id", block.get("tool_use_id")) for block in blocks}


async def test_an_effort_stays_set_though_its_words_have_no_room() -> None:
    said = {"role": "system", "content": [text("be careful", 100)], "output_config": {"effort": "low"}}
    critical = {"role": "user", "content": [text("never forget", 600)], "critical": True}
    view = await shown_after(said, {"role": "assistant", "content": [text("yes", 1)]}, critical)
    assert "never forget never forget" in str(view)
    assert [row["output_config"] for row in view if "output_config" in row][-1:] == [{"effort": "low"}]
