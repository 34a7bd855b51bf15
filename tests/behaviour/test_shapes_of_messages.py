"""Calls that a provider answers itself, thinking of a turn that goes on, and what holds from there on."""

import json
from base64 import b64encode
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from summarizing_context.messages.reading import read_message
from tests.behaviour import contexts
from tests.behaviour.contexts import begun
from tests.laws.builders import assistant, call, result, user


async def test_a_paused_turn_that_the_user_ends_gives_up_its_call():
    asked = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "tides"}}
    async with begun([user("Go."), assistant([{"type": "text", "text": "I search."}, asked])], of=Settings) as context:
        assert "s1" in json.dumps(await context.get_messages_for_request())
        await context.add_message(user("Never mind."))
        view = await context.get_messages_for_request()
        assert "s1" not in json.dumps(view)
        assert [row["role"] for row in view] == ["user", "assistant", "user"]


async def test_thinking_of_the_open_turn_is_whole_while_there_is_room_and_its_field_stays():
    row = call("openai", ("c1", "read", {})) | {"reasoning_content": "I should read. " * 800}
    log = [user("Fix it."), row, result("openai", "c1", "x = 1")]
    async with begun(log, of=Settings, count_tokens=None) as context:
        large, little = [
            [
                row["reasoning_content"]
                for row in await context.get_messages_for_request(budget)
                if row["role"][0] == "a"
            ]
            for budget in (8_000, 1_500)
        ]
    assert large == [row["reasoning_content"]]
    assert all(little)
    # signed, it is cut only where the caller says that it is free
    thinking = {"type": "thinking", "thinking": "so it goes " * 1_500, "signature": "c2lnbmVk" * 20}
    use = {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a.py"}}
    asked_for = user("Read a.py. " + "boats carry bread " * 1_200)  # there is no room for all of it
    log = [asked_for, assistant([thinking, use]), result("anthropic", "c1", "done")]
    for bound, kept in ((None, True), ("free", False)):
        async with begun(log, of=Settings, max_tokens=8_000, count_tokens=None) as context:
            view = (await context.next_view(**({"bound_thinking": bound} if bound else {}))).messages
            shown = [block for row in view if isinstance(row["content"], list) for block in row["content"]]
        assert (thinking in shown, use in shown) == (kept, True)


# What a row has set or loaded holds in every later view, also where there is no room for what was said beside it.

FOUND = {"type": "tool_search_tool_search_result", "tool_references": [{"type": "tool_reference", "tool_name": "map"}]}
LOADED = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_bm25", "input": {"query": "maps"}},
    {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": FOUND},
]


def text(words: str, times: int) -> dict[str, Any]:
    return {"type": "text", "text": f"{words} " * times}


async def shown_after(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """The last view of a session in which these rows came early."""
    log = [user([text("find the route", 4)]), *rows]
    async with begun(log, of=Settings, max_tokens=3_000, idle_after="never") as context:
        for number in range(40):
            steps = user([text(f"step {number} of user", 30)]), assistant([text(f"step {number} of assistant", 30)])
            await contexts.fill(context, steps)
            await context.get_messages_for_request()
        assert context.statistics().activations
        return await context.get_messages_for_request()


async def test_a_tool_that_was_found_stays_known_though_what_came_with_it_is_too_long():
    ran = {"type": "server_tool_use", "id": "srvtoolu_0", "name": "code_execution", "input": {"code": "run()"}}
    printed = {"type": "code_execution_result", "stdout": "a line of output\n" * 2_000, "return_code": 0}
    gave = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_0", "content": printed}
    view = await shown_after(assistant([ran, gave, *LOADED]))
    blocks = [block for row in view if isinstance(row["content"], list) for block in row["content"]]
    assert [block for block in blocks if block in LOADED] == LOADED
    assert not {"srvtoolu_0"} & {block.get("id", block.get("tool_use_id")) for block in blocks}
    # an effort stays set though its words have no room
    said = {"role": "system", "content": [text("be careful", 100)], "output_config": {"effort": "low"}}
    critical = {"role": "user", "content": [text("never forget", 600)], "critical": True}
    view = await shown_after(said, assistant([text("yes", 1)]), critical)
    assert "never forget never forget" in str(view)
    assert [row["output_config"] for row in view if "output_config" in row][-1:] == [{"effort": "low"}]


@pytest.mark.parametrize(("thought", "written"), [(10, 800), (1_500, 10)])
async def test_a_critical_message_stays_beside_a_newest_one_that_is_cut(thought: int, written: int):
    """A long file that is written, or thinking that no room could show, needs no more room than is given to it."""
    log = [user([text("find the route", 4)]), assistant([text("yes", 1)])]
    log += [{"role": "user", "content": [text("never forget", 150)], "critical": True}, assistant([text("no", 1)])]
    log.append(user([text("go on", 1)]))
    for number in range(25):
        last = number == 24
        thinking = {"type": "thinking", "thinking": "so the route it is " * (thought if last else 2), "signature": "s"}
        given = {"path": "/a", "content": "a line of a file " * (written if last else 12)}
        log.append(assistant([thinking, {"type": "tool_use", "id": f"c{number}", "name": "write", "input": given}]))
        log.append(user([{"type": "tool_result", "tool_use_id": f"c{number}", "content": "done " * 60}]))
    async with begun(log, of=Settings, max_tokens=4_000, token_counter="estimate", count_tokens=None) as context:
        await context.compact()
        view = await context.get_messages_for_request()
    assert "never forget " * 150 in str(view)


async def test_thinking_that_no_room_could_show_begins_no_view_anew():
    log = [user([text("find the route", 4)])]
    for number in range(60):
        thinking = {"type": "thinking", "thinking": "so the route it is " * 4_000, "signature": f"s{number}"}
        use = {"type": "tool_use", "id": f"c{number}", "name": "write", "input": {"path": f"/{number}"}}
        log.append(assistant([thinking, use]))
        log.append(user([{"type": "tool_result", "tool_use_id": f"c{number}", "content": "done " * 60}]))
    options = {"max_tokens": 4_000, "token_counter": "estimate", "count_tokens": None}
    async with begun(log, every=2, of=Settings, **options) as context:
        assert 0 < context.statistics().activations < 10


@pytest.mark.parametrize(
    ("pdf", "pages"),
    [
        (b"%PDF-1.4 <</Type /Pages /Count 3>> " + b"<</Type /Page /Parent 1 0 R>> " * 3, 3),
        (b"%PDF-1.7 packed", 1),
        (b"%PDF-1.4 " + b"/Type /Page " * 2_000, 1_000),  # no provider takes more
    ],
)
async def test_a_pdf_counts_by_its_pages_where_they_can_be_seen(pdf: bytes, pages: int):
    data = b64encode(pdf).decode()
    anthropic = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}}
    openai = {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{data}"}}
    for block in (anthropic, openai):
        async with open_context(Settings()) as context:
            await context.add_message({"role": "user", "content": [block]})
            assert context.statistics().history_tokens // 1_600 == pages
        assert [len(part.media) for part in read_message({"role": "user", "content": [block]}).parts] == [1]
