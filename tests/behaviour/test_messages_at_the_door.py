"""What may enter the log, and that whatever did can be sent: roles, empty messages, halves of characters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from summarizing_context import Settings, open_context
from summarizing_context.errors import MessageError

pytestmark = pytest.mark.anyio

LONE = "\ud83d"

CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"role": "banana", "content": "hello"}, "system, developer, user, assistant, model, tool, function"),
        ({"role": "User", "content": "hello"}, "system, developer, user, assistant, model, tool, function"),
        ({"role": "user"}, "give it 'content', or the calls"),
        ({"role": "assistant", "id": "m1", "metadata": {"a": 1}}, "give it 'content', or the calls"),
    ],
)
async def test_a_message_that_no_provider_takes_is_refused_with_what_is_allowed(message: dict[str, Any], told: str):
    async with open_context(Settings()) as context:
        await context.add_message({"role": "user", "content": "first"})
        with pytest.raises(MessageError, match=told) as refused:
            await context.add_message(message)
        assert "banana" not in str(refused.value)
        with pytest.raises(MessageError, match="message 1: "):
            await context.set_messages([{"role": "user", "content": "other"}, message])
        assert await context.get_messages() == [{"role": "user", "content": "first"}]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": "be brief"},
        {"role": "developer", "content": "be brief"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "assistant", "function_call": {"name": "read", "arguments": "{}"}},
        {"role": "assistant", "content": None, "refusal": "I cannot"},
        {"role": "assistant", "reasoning_content": "let me see"},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "function", "name": "read", "content": "ok"},
        {"role": "user", "parts": [{"text": "hello"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
        {"role": "user", "content": ""},
        {"role": "assistant", "type": "message", "content": [{"type": "output_text", "text": "hello"}]},
    ],
)
async def test_every_shape_of_the_protocols_enters_and_comes_back_as_it_was(message: dict[str, Any]):
    async with open_context(Settings()) as context:
        await context.add_message(message)
        await context.set_messages([message, message])
        assert await context.get_messages() == [message, message]


def with_halves() -> list[dict[str, Any]]:
    given = {"path": f"a{LONE}.txt", f"k{LONE}": [LONE]}
    return [
        {"role": "system", "content": f"be brief {LONE}"},
        {"role": "user", "content": f"Never push to main {LONE}. Look at this"},
        {"role": "user", "content": [{"type": "text", "text": f"cut emoji {LONE}"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": given}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": f"\udfff {LONE} seen"}]},
        {"role": "assistant", "content": f"done {LONE}", "reasoning_content": LONE},
        {"role": "user", "content": f"again {LONE}", "ephemeral": True},
    ]


async def test_half_a_character_stays_in_the_log_and_is_whole_in_every_view_and_request(tmp_path):
    heard: list[str] = []

    class Model:
        recipe = "model/1"

        async def summarize(self, job: Any) -> str:
            heard.extend((job.instructions, job.content))
            return "## Done\n- looked at the files of the service"

    settings = Settings(
        store=tmp_path / "a.db", max_tokens=2_000, token_counter="estimate", start_at=0.0,
        segment_min=100, segment_target=200, segment_max=2_000, summary_max_tokens=44,
    )  # fmt: skip
    for summarizer in (Model(), None):
        async with open_context(settings, summarizer=summarizer) as context:
            added = with_halves()
            for message in added:
                await context.add_message(message)
            view = await context.get_messages_for_request()
            assert "\ufffd" in json.dumps(view, ensure_ascii=False)
            assert context.statistics().repairs["surrogates_replaced"]
            for at in range(12):
                added.append({"role": "user", "content": f"next {at} {LONE} " + "please go on with it " * 20})
                await context.add_message(added[-1])
                json.dumps(await context.get_messages_for_request(), ensure_ascii=False).encode()
            await context.wait_idle(60)
            await context.compact()
            json.dumps(await context.get_messages_for_request(), ensure_ascii=False).encode()
            assert (await context.get_messages())[-len(added) :] == added
    assert heard
    assert not [text for text in heard if LONE in text]
