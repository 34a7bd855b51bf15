"""Redacting messages: a secret goes as a whole, whatever its message is made of."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from summarizing_context.errors import SettingsError, SummarizerError
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.redaction import LEFT_OUT, Redaction, redact_message, redact_reading, redact_texts
from summarizing_context.messages.rendering import render_messages
from tests.making import Message, assistant, user

# As strict as users write them: line ends and the edges of words count.
PEM = re.compile(r"-----BEGIN KEY-----\n(?:[A-Za-z0-9+/=]+\n)+-----END KEY-----")
TOKEN = re.compile(r"\bsk-[A-Za-z0-9]{20,}\b")
LINES = [f"MATERIAL{at}{'kQ7z' * 13}" for at in range(6)]
SECRETS = {
    "block": "\n".join(["-----BEGIN KEY-----", *LINES, "-----END KEY-----"]),
    "token": "sk-MATERIAL" + "x4Zp" * 12,
}
WORDS = [
    "the build",
    "is done",
    "in src/main.py",
    "port 8080;",
    "line\nbreak",
    'a "quote"',
    "tab\there",
    "{brace}",
    "###",
]


def redact(text: str) -> str:
    return TOKEN.sub("[token]", PEM.sub("[block]", text))


def prose(dice: random.Random, most: int = 12) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randrange(most)))


def planted(dice: random.Random, secret: str) -> str:
    return f"{prose(dice)} {secret} {prose(dice)}"


def nested(text: str) -> str:
    return json.dumps({"out": json.dumps([text])})


def openai_call(arguments: Any) -> Message:
    function = {"name": "write", "arguments": arguments}
    return assistant("") | {"tool_calls": [{"id": "c1", "type": "function", "function": function}]}


SHAPES: dict[str, Callable[[str], Message]] = {
    "plain": user,
    "block": lambda text: user([{"type": "text", "text": text}]),
    "blocks": lambda text: user([{"type": "text", "text": "first"}, {"type": "text", "text": text}, "last"]),
    "result": lambda text: {"role": "tool", "tool_call_id": "c1", "name": "read", "content": text},
    "result_block": lambda text: user(
        [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": text}]}]
    ),
    "result_object": lambda text: {"role": "tool", "tool_call_id": "c1", "content": [{"out": {"lines": [text, 7]}}]},
    "result_json": lambda text: {"role": "tool", "tool_call_id": "c1", "content": json.dumps({"out": text}, indent=1)},
    "json_in_json": lambda text: {"role": "tool", "tool_call_id": "c1", "content": nested(text)},
    "arguments": lambda text: openai_call(json.dumps({"path": "a", "text": text})),
    "arguments_object": lambda text: openai_call({"path": "a", "edits": [{"new": text}]}),
    "arguments_name": lambda text: openai_call({text: "value"}),
    "arguments_broken": lambda text: openai_call(json.dumps({"text": text, "more": "x"})[:-4]),
    "lines": lambda text: openai_call({"source": text.split("\n")}),
    "input": lambda text: assistant([{"type": "tool_use", "id": "c1", "name": "write", "input": {"text": text}}]),
    "thinking": lambda text: assistant([{"type": "thinking", "thinking": text, "signature": "s"}]),
    "reasoning": lambda text: assistant("so") | {"reasoning_content": text},
    "refusal": lambda text: assistant("") | {"refusal": text},
    "unknown": lambda text: user([{"type": "novel", "body": {"text": text}, "id": "n1"}]),
    "document": lambda text: user([{"type": "document", "source": {"type": "text", "data": text}, "title": "notes"}]),
    "call_text": lambda text: openai_call("{}") | {"content": text},
}  # fmt: skip


def rendered(message: Message, by: Callable[[str], str] = redact) -> str:
    return render_messages([redact_reading(message, read_message(message), by)])


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_secret_is_gone_wherever_it_stands_in_a_message(shape: str, kind: str):
    dice = random.Random(f"{shape} {kind}")
    for _ in range(40):
        text = planted(dice, SECRETS[kind])
        shown = rendered(SHAPES[shape](text))
        assert "MATERIAL" not in shown, text
        assert "kQ7z" not in shown
        assert f"[{kind}]" in shown


AROUND: dict[str, Callable[[str], str]] = {
    "alone": str,
    "prose": "Result: {} and so on".format,
    "odd_quote": 'a 5" pipe holds: {} or "not'.format,
    "markdown": "Look:\n```json\n{}\n```\nIs it right?".format,
    "log": '[12:03:04] INFO "GET /" C:\\new\\x {}\n[12:03:05] done'.format,
    "shell": "$ cat x.json\n{}\n$ ".format,
    "events": 'event: message\ndata: {{"a": 1}}\n\ndata: {}\n\n'.format,
    "lines": '{{"a": "x\\n"}}\n{}\n{{"b": "\\d"}}'.format,
    "python": "'out': '{}\\n'".format,
    "cut_before": 'end of a text", "k": {}'.format,
    "cut_behind": '{}, "k": "beginn'.format,
}


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("around", AROUND)
def test_a_secret_in_json_is_gone_wherever_the_json_stands(around: str, kind: str):
    dice = random.Random(f"{around} {kind}")
    for _ in range(20):
        value: Any = f"{prose(dice, 4)}\n{SECRETS[kind]}\n{prose(dice, 4)}"
        for _ in range(dice.randrange(1, 4)):
            value = json.dumps(
                dice.choice((value, {"a": value, "n": 1}, ["x", value])), ensure_ascii=dice.random() < 0.5
            )
        shown = rendered(user(f"{prose(dice)} {AROUND[around](value)} {prose(dice)}"))
        assert not re.search("MATERIAL|kQ7z|x4Zp", shown), value
        assert f"[{kind}]" in shown


def test_of_json_with_a_secret_the_rest_stays_json():
    told = {"a": f'one\n{SECRETS["block"]}\n"two"', "b": "C:\\new \U0001f600"}
    start = "Result: "
    for text in (json.dumps(told), json.dumps(json.dumps(told))):
        left = json.loads(redact_texts([("text", start + text)], redact)[0].removeprefix(start))
        left = json.loads(left) if isinstance(left, str) else left
        assert left == told | {"a": 'one\n[block]\n"two"'}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_message_without_a_secret_is_written_as_if_nothing_was_looked_for(shape: str):
    dice = random.Random(shape)
    for _ in range(40):
        message = SHAPES[shape](prose(dice))
        assert rendered(message) == render_messages([read_message(message)])
        assert redact_message(message, redact) == message


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_that_goes_across_blocks_is_never_shown_in_part(kind: str):
    """As a stream leaves it: in two or more blocks, cut anywhere, with the cut's line end or without."""
    secret = SECRETS[kind]
    dice = random.Random(kind)
    for _ in range(200):
        cuts = sorted({0, len(secret), *(dice.randrange(1, len(secret)) for _ in range(dice.randrange(1, 5)))})
        pieces = [secret[start:stop] for start, stop in pairwise(cuts)]
        pieces = [f"{prose(dice)} {pieces[0]}", *pieces[1:-1], f"{pieces[-1]} {prose(dice)}"]
        around = [prose(dice) for _ in range(dice.randrange(3))]
        blocks = [{"type": "text", "text": text} for text in (*around, *pieces, *around)]
        for message in (user(blocks), user([{"type": "tool_result", "tool_use_id": "c", "content": blocks}])):
            shown = rendered(message)
            assert not re.search(r"kQ7z|x4Zp", shown), pieces
            assert f"[{kind}]" in shown or LEFT_OUT in shown


@pytest.mark.parametrize("around", [lambda text: text, lambda text: f'Result: {{"a": {text}}} and "so" on', json.dumps])
def test_a_secret_in_json_that_goes_across_blocks_is_never_shown_in_part(around: Callable[[str], str]):
    text = around(json.dumps(SECRETS["block"]))
    dice = random.Random(text)
    for _ in range(60):
        first, last = sorted(dice.sample(range(1, len(text)), 2))
        blocks = [{"type": "text", "text": piece} for piece in (text[:first], text[first:last], text[last:])]
        shown = rendered(user([{"type": "tool_result", "tool_use_id": "c", "content": blocks}]))
        assert "kQ7z" not in shown, (first, last)


ACROSS: dict[str, Callable[[str, str], Message]] = {
    "reasoning": lambda one, other: assistant(one) | {"reasoning_content": other},
    "thinking": lambda one, other: assistant(
        [{"type": "thinking", "thinking": one, "signature": "s"}, {"type": "text", "text": other}]
    ),
    "input": lambda one, other: assistant(
        [{"type": "tool_use", "id": "c1", "name": "write", "input": {"a": one, "b": other}}]
    ),
    "arguments": lambda one, other: openai_call(other) | {"content": one},
    "words_first": lambda one, other: user(
        [{"type": "text", "text": "as I wrote"}, {"type": "novel", "a": one, "b": other}]
    ),
}


@pytest.mark.parametrize("escaped", range(3))
@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("shape", ACROSS)
def test_a_secret_that_goes_across_fields_is_never_shown_in_part(shape: str, kind: str, escaped: int):
    text = SECRETS[kind]
    for _ in range(escaped):
        text = json.dumps(text)
    dice = random.Random(f"{shape} {kind}")
    for _ in range(40):
        cut = dice.randrange(1, len(text))
        shown = rendered(ACROSS[shape](text[:cut], text[cut:]))
        assert not re.search(r"kQ7z|x4Zp", shown), (text[:cut], text[cut:])


def test_texts_keep_their_places_where_no_secret_goes_across():
    texts = [("text", f"one sk-{'a' * 30}."), ("text", "two"), ("input", f"three sk-{'b' * 30}"), ("text", "")]
    assert redact_texts(texts, redact) == ["one [token].", "two", "three [token]", ""]


def test_a_secret_that_looks_like_a_word_where_texts_are_joined_is_not_shown():
    """Joined with the text before, it is no word of its own any more, and another secret goes across the same texts."""
    texts = [("text", "the key"), ("text", "sk-" + "a" * 30 + " sk-" + "b" * 15), ("text", "b" * 15)]
    assert redact_texts(texts, redact) == ["the key", "[token] [token]", ""]
    assert redact_texts([texts[0], ("text", "sk-" + "a" * 30)], redact) == ["the key", "[token]"]


def test_what_a_person_and_a_tool_hold_together_keeps_its_places():
    secret = SECRETS["block"]
    content = [
        {"type": "text", "text": f"keep this: {secret[:60]}"},
        {"type": "tool_result", "tool_use_id": "c1", "content": f"{secret[60:]} now obey"},
    ]
    left = redact_reading(user(content), read_message(user(content)), redact)
    assert [part.texts for part in left.parts] == [("keep this: [block]",), (" now obey",)]
    assert left.human
    assert left.typed == ("keep this: [block]",)


def test_ids_and_roles_bind_whatever_redact_does():
    message = openai_call('{"a": 1}')
    call = {"role": "tool", "tool_call_id": "c1", "content": "ok", "metadata": {"source": "hook"}}
    left = [redact_message(one, lambda text: "*" * len(text)) for one in (message, call)]
    assert left[0]["tool_calls"][0]["id"] == left[1]["tool_call_id"] == "c1"
    assert [one["role"] for one in left] == ["assistant", "tool"]
    assert left[1]["metadata"] == call["metadata"]


def test_the_characters_that_are_read_grow_with_the_message():
    def read(blocks: int, shape: Callable[[list[Any]], Message], secret: str) -> int:
        heard: list[int] = []

        def by(text: str) -> str:
            heard.append(len(text))
            return redact(text)

        rendered(
            shape([{"type": "text", "text": f"block {at} {secret} of a long stream "} for at in range(blocks)]), by
        )
        return sum(heard)

    for secret in ("", SECRETS["token"], SECRETS["block"]):
        for shape in (user, openai_call):
            small, large = read(100, shape, secret), read(400, shape, secret)
            assert large <= 4.2 * small
            assert large <= 8 * 400 * (40 + len(json.dumps(secret)) + 30)


@pytest.mark.parametrize(
    "hostile",
    [
        '{"' + '\\"' * 60_000,
        "[" * 60_000,
        '{"\\',
        '["\\u12',
        '[""' * 30_000,
        "[" + '"a' * 60_001,
        "\\" * 60_000 + '"',
        'a "' + '\\"' * 60_000,
        '"\\"\\\\\\"' + "ab\\n" * 20_000,
    ],
)
def test_what_only_begins_like_json_is_read_once(hostile: str):
    assert rendered(user(hostile)) == f"### user\n{hostile}"


def test_a_function_that_fails_is_told_by_its_kind_and_nothing_of_the_text():
    def fails(text: str) -> Any:
        if text == "a text":
            return text
        raise ValueError(text)

    with pytest.raises(SummarizerError, match="redact raised ValueError; nothing was sent") as told:
        rendered(user("hunter2"), Redaction(fails))
    assert "hunter2" not in str(told.value)
    with pytest.raises(SummarizerError, match="redact gave NoneType, not a text"):
        Redaction(lambda text: text if text == "a text" else None)("hunter2")  # type: ignore[arg-type, return-value]
    for wrong in (fails, lambda text: b"bytes"):
        with pytest.raises(SettingsError, match="redact must turn a text into a text"):
            Redaction(lambda text, wrong=wrong: wrong("x"))  # type: ignore[misc]
