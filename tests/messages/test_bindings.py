"""What a provider ties to the messages before: found, and left out whole."""

from __future__ import annotations

from typing import Any

import pytest

from summarizing_context.messages.provider_bindings import (
    has_chain,
    has_signed_thinking,
    loaded_tools,
    without_chain,
    without_thinking,
    without_wire_content,
)

SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
TEXT = {"type": "text", "text": "Yes."}
OPENAI = {"type": "thinking", "thinking": "Hm.", "signature": None, "content": ["encrypted", "rs_1"]}


def answer(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), **fields}


@pytest.mark.parametrize(
    ("message", "signed"),
    [
        (answer(SIGNED, TEXT), True),
        (answer({"type": "redacted_thinking", "data": "x"}, TEXT), True),
        (answer(TEXT, thinking_block=SIGNED), True),
        (answer({**SIGNED, "signature": ""}, TEXT), False),
        (answer(OPENAI, TEXT), False),
        (answer(TEXT), False),
        ({"role": "assistant", "content": "Yes."}, False),
        ({"role": "assistant"}, False),
    ],
)
def test_signed_thinking_is_found_wherever_a_host_keeps_it(message: dict[str, Any], signed: bool) -> None:
    assert has_signed_thinking(message) == signed


def test_thinking_goes_whole_and_out_of_the_copies_too() -> None:
    wire = {"anthropic": {"wire_content": [SIGNED, TEXT], "stop": 1}, "timestamp": "t"}
    message = answer(SIGNED, TEXT, thinking_block=SIGNED, metadata=wire)
    shown = without_thinking(message)
    assert shown == answer(TEXT, metadata={"anthropic": {"wire_content": [TEXT], "stop": 1}, "timestamp": "t"})
    assert message["metadata"]["anthropic"]["wire_content"] == [SIGNED, TEXT], "the original is left alone"
    assert without_thinking(answer(SIGNED))["content"] == [{"type": "text", "text": "[thinking left out]"}]


def test_a_copy_of_the_blocks_goes_with_what_it_copied() -> None:
    metadata = {"anthropic": {"wire_content": [TEXT], "stop": 1}}
    assert without_wire_content(answer(TEXT, metadata=metadata))["metadata"] == {"anthropic": {"stop": 1}}
    plain = answer(TEXT, metadata={"anthropic": "odd"})
    assert without_wire_content(plain) is plain


def test_a_chain_ends_and_other_metadata_stays() -> None:
    message = answer(TEXT, metadata={"openai:response_id": "resp_1", "openai:status": "completed"})
    assert has_chain(message)
    assert without_chain(message)["metadata"] == {"openai:status": "completed"}
    assert not has_chain(answer(TEXT, metadata=None))


def test_a_covered_message_that_loaded_tools_goes_on_loading_them() -> None:
    items = [{"type": "tool_search_output", "tools": []}]
    message = answer(TEXT, metadata={"openai:tool_search_items": items, "openai:response_id": "resp_1"})
    row = loaded_tools(message)
    assert row is not None
    assert row["metadata"] == {"openai:tool_search_items": items}
    assert loaded_tools(answer(TEXT, metadata={"openai:tool_search_items": []})) is None
