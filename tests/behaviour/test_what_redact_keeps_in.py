"""`redact` where secrets are neighbours: neither of them leaves the process, in whatever fields they stand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from summarizing_context import Settings, open_context

pytestmark = pytest.mark.anyio

FIRST, SECOND, THIRD = "sk-qqqqQQQQrrrrqqqqQQQQ", "sk-wwwwWWWWsssswwwwWWWW", "sk-zzzzZZZZxxxxzzzzZZZZ"

PART = re.compile(r"([q-zQ-Z])\1{3}")

Messages = list[dict[str, Any]]


def redact(text: str) -> str:
    """The example of the security page: without an edge on either side of the key."""
    return re.sub(r"sk-[A-Za-z0-9]{8,}", "[key]", text)


def use(given: Any, name: str = "env") -> Messages:
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": name, "input": given}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]},
    ]


def call(arguments: Any, result: Any = "ok") -> Messages:
    function = {"name": "env", "arguments": arguments}
    return [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": result},
    ]


def texts(*said: str) -> Messages:
    return [{"role": "user", "content": [{"type": "text", "text": text} for text in said]}]


def spoken(block: dict[str, Any], *said: str) -> Messages:
    return [{"role": "assistant", "content": [block, *({"type": "text", "text": text} for text in said)]}]


SHAPES: dict[str, Callable[[str, str, str], Messages]] = {
    "text blocks": texts,
    "text blocks with words": lambda a, b, c: texts("keep " + a, b, c + " of ours"),
    "an empty block between": lambda a, b, c: texts(a, "", b, "", c),
    "plain strings as blocks": lambda a, b, c: [{"role": "user", "content": [a, b, c]}],
    "one text": lambda a, b, c: texts(f"{a} {b},{c}"),
    "input fields": lambda a, b, c: use({"OPENAI_API_KEY": a, "BACKUP_KEY": b, "LAST": c}),
    "input in lists": lambda a, b, c: use({"keys": [a, [b, [c]]]}),
    "input far inside": lambda a, b, c: use({"a": {"b": {"c": a}, "d": b}, "e": [{"f": c}]}),
    "keys of an input": lambda a, b, c: use({a: 1, b: 2, c: {a: b}}),
    "keys that stand for keys": lambda a, b, c: use({a: b, c: a}),
    "todos": lambda a, b, c: use({"todos": [{"content": a, "activeForm": b}, {"content": c}]}, "TodoWrite"),
    "JSON in an input": lambda a, b, c: use({"body": json.dumps({"x": [a, b], c: a})}),
    "arguments": lambda a, b, c: call(json.dumps({"OPENAI_API_KEY": a, "BACKUP_KEY": b, "LAST": [c]})),
    "arguments as an object": lambda a, b, c: call({"a": a, "b": [b, {"c": c}]}),
    "JSON in arguments": lambda a, b, c: call(json.dumps({"body": json.dumps([a, json.dumps({"k": b}), c])})),
    "keys of arguments": lambda a, b, c: call(json.dumps({a: b, c: json.dumps({b: a})})),
    "arguments and content": lambda a, b, c: [call(json.dumps([b]))[0] | {"content": a}, call("", c)[1]],
    "a JSON list as result": lambda a, b, c: call("{}", json.dumps([a, b, c])),
    "a JSON object as result": lambda a, b, c: call("{}", json.dumps({"a": a, "b": {b: c}})),
    "result blocks": lambda a, b, c: call("{}", texts(a, b, c)[0]["content"]),
    "result blocks of JSON": lambda a, b, c: call("{}", texts(json.dumps([a]), json.dumps({b: c}))[0]["content"]),
    "thinking beside a text": lambda a, b, c: spoken({"type": "thinking", "thinking": a, "signature": "s"}, b, c),
    "reasoning beside a text": lambda a, b, c: [{"role": "assistant", "content": a, "reasoning_content": b + "\n" + c}],
    "an unknown block": lambda a, b, c: spoken({"type": "novel", "x": a, "y": {"z": b, "w": c}}),
    "a document": lambda a, b, c: [
        {"role": "user", "content": [{"type": "document", "title": a, "source": {"type": "text", "data": b}}, c]}
    ],
}  # fmt: skip


class Outside:
    """A model, an embedder and an observer that keep all that they are told."""

    recipe = "outside/1"

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def summarize(self, job: Any) -> str:
        self.heard += [job.instructions, job.content]
        return "## Done\n- looked at keys and files of the service"

    async def embed(self, given: list[str]) -> list[list[float]]:
        self.heard += given
        return [[1.0, 2.0] for _ in given]

    def emit(self, name: str, data: Any) -> None:
        self.heard.append(json.dumps([name, data]))


async def told(messages: Messages, by: Callable[[str], str] = redact) -> list[str]:
    """All that leaves the process of a session with these messages in it."""
    pytest.importorskip("numpy")
    outside = Outside()
    settings = Settings(
        max_tokens=2_000, token_counter="estimate", start_at=0.0,
        segment_min=100, segment_target=200, segment_max=2_000, summary_max_tokens=44,
    )  # fmt: skip
    options: dict[str, Any] = {"summarizer": outside, "embedder": outside, "events": outside, "redact": by}
    async with open_context(settings, **options) as context:
        for message in ({"role": "user", "content": "show me the vault"}, *messages):
            await context.add_message(message)
        for at in range(8):
            await context.add_message({"role": "user", "content": f"next {at} " + "please go on with it " * 20})
            await context.add_message({"role": "assistant", "content": f"done {at} " + "all is well here " * 20})
        await context.get_messages_for_request()
        await context.wait_idle(60)
        await context.search("vault")
    assert any("show me the vault" in text for text in outside.heard)
    assert len(outside.heard) > 4
    return outside.heard


@pytest.mark.parametrize("shape", SHAPES)
async def test_of_keys_that_are_neighbours_no_part_leaves_the_process(shape: str):
    heard = await told(SHAPES[shape](FIRST, SECOND, THIRD))
    assert not [text for text in heard if PART.search(text)]
    assert any("[key]" in text for text in heard)


async def test_what_is_no_key_is_sent_as_it_is_beside_keys():
    around = ["the port is 8080", FIRST, "the host is db7.example.org", SECOND, "and the user is anna"]
    heard = "\n".join(await told([*texts(*around), *use(dict(zip("abcde", around, strict=True)))]))
    assert all(heard.count(word) >= 2 for word in ("the port is 8080", "db7.example.org", "the user is anna"))


async def test_a_function_that_takes_out_whole_texts_is_given_each_field_by_itself():
    def whole(text: str) -> str:
        return "[password]" if text == "hunter2" else text

    heard = await told(
        [*texts("the password is", "hunter2", "for all of us"), *use({"user": "anna", "pw": "hunter2"})], whole
    )
    assert not [text for text in heard if "hunter2" in text]
