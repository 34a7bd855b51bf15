"""What leaves the process: nothing of a secret, wherever it stands and whichever way the text takes."""

import json
import random
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from summarizing_context import Settings
from tests.behaviour import contexts
from tests.behaviour.contexts import fill, views
from tests.laws.builders import Message, assistant, call, result, user
from tests.laws.summarizers import short_summary

PEM = re.compile(r"-----BEGIN KEY-----\n(?:[A-Za-z0-9+/=]+\n)+-----END KEY-----")
TOKEN = re.compile(r"\bsk-[A-Za-z0-9]{20,}\b")
KEY = "\n".join(["-----BEGIN KEY-----", *(f"MATERIAL{at:02}{'kQ7z' * 13}" for at in range(24)), "-----END KEY-----"])
BEARER = "sk-MATERIAL" + "x4Zp" * 12
MATERIAL = re.compile(r"MATERIAL|kQ7z|x4Zp")
WORDS = ["the build is done", "and all is well", "port 8080", "src/main.py", "it failed:", 'a "quoted" word', *"\n\n"]
SMALL: dict[str, Any] = {
    "max_tokens": 8_000, "token_counter": "estimate", "start_at": 0.0, "summary_max_tokens": 44,
    "segment_min": 200, "segment_target": 400, "segment_max": 800, "count_tokens": None,
}  # fmt: skip


class Taking:
    """Redacts, and notes where it ran."""

    version = "test"

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.fails: object = None

    def __call__(self, text: str) -> Any:
        if text == "a text":  # tried out, on opening
            return text
        self.threads.add(threading.get_ident())
        if isinstance(self.fails, Exception):
            raise self.fails
        return self.fails or TOKEN.sub("[token]", PEM.sub("[block]", text))


class Outside:
    """All that a model, an embedding and an observer are told."""

    recipe = "test/outside"

    def __init__(self) -> None:
        pytest.importorskip("numpy")
        self.heard: list[str] = []
        self.kinds: list[str] = []
        self.failed, self.embedded = anyio.Event(), anyio.Event()

    async def summarize(self, job: Any) -> str:
        self.heard += [job.instructions, job.content]
        self.kinds.append(job.kind)
        return short_summary(job)

    async def embed(self, texts: list[str]) -> list[list[float]]:
        self.heard += texts
        self.kinds.append("embedding")
        self.embedded.set()
        return [[1.0, float(len(text))] for text in texts]

    def emit(self, name: str, data: Any) -> None:
        self.heard.append(json.dumps([name, data]))
        if name == "summary_failed":
            self.failed.set()

    def begun(self, log: Any = (), *, redact: Any, by_model: bool = True, **given: Any) -> Any:
        """A session that is watched from outside."""
        watched = {"summarizer": self if by_model else None, "embedder": self, "events": self, "redact": redact}
        return contexts.begun(log, of=Settings, every=1, **{**SMALL, **given}, **watched)


def prose(dice: random.Random, characters: int) -> str:
    return " ".join(dice.choices(WORDS, k=characters // 10))


def planted(dice: random.Random, characters: int, secrets: int) -> str:
    """Prose with secrets at random places."""
    share = characters // (secrets + 1)
    sizes = (dice.randrange(share, 2 * share) // 2 for _ in range(secrets))
    return "".join(f"{prose(dice, size)} {dice.choice((KEY, BEARER))} " for size in sizes) + prose(dice, share)


def log(dice: random.Random, *sizes: int) -> Iterator[Message]:
    """Messages with such a text, whole in one of many shapes or cut in two blocks or into lines, between others."""
    for number, size in enumerate(sizes):
        text = planted(dice, size, 1 + size // 4_000)
        at, shape = dice.randrange(len(text)), dice.choice(list(SHAPES.values()))
        yield from dice.choice([shape(text, "", ""), texts(text[:at], text[at:]), use({"lines": text.split("\n")})])
        yield from (user(f"go on {number} " + prose(dice, 300)), assistant(f"done {number} " + prose(dice, 300)))


async def test_no_part_of_a_secret_leaves_by_any_way():
    dice, outside = random.Random(1), Outside()
    sizes = [dice.choice((500, 3_000, 9_000, 40_000, 120_000)) for _ in range(7)]
    given = {"memory_include": "auto", "memory_extract": True, "summarize_thinking": True}
    async with outside.begun(redact=(redact := Taking()), **given) as context:
        await context.memory.store(f"the key of the host is {KEY} as ever")
        await fill(context, log(dice, *sizes, *[3_000] * 3), every=1)
        await context.wait_idle()
        await context.compact(focus=f"which port the build uses\n{BEARER}")
        await context.wait_idle()
        await context.search("the build failed")
        await context.memory.retrieve(f"which host has {BEARER}?")
    assert redact.threads
    assert threading.get_ident() not in redact.threads
    assert {"segment", "rollup", "embedding"} <= set(outside.kinds)
    assert [text for text in outside.heard if MATERIAL.search(text)] == []
    assert sum(text.count("[block]") + text.count("[token]") for text in outside.heard) > 20


async def test_a_question_that_is_cut_within_a_secret_is_not_embedded_with_it():
    outside, said = Outside(), f"Which host has this key?\n{KEY}\nIt was the second."
    async with outside.begun(redact=Taking(), memory_include="auto") as context:
        await context.memory.store("The second host is called Elm.")
        at = said.index("MATERIAL07")  # joined by lines, an empty one stands there
        await fill(context, [texts(said[:at], said[at:])[0], assistant("I look.")], every=1)
        with anyio.fail_after(20):
            await outside.embedded.wait()
    assert any("Which host" in text for text in outside.heard)
    assert [text for text in outside.heard if MATERIAL.search(text)] == []


SECRET_RULES = [
    f"Never print the key:\n{KEY}\nAlways keep it where it is.",
    f"Always deploy with {BEARER}. Never tell anybody.",
    f"{BEARER} is the token of the staging host.",
    f"The gate at {BEARER[:30]} {BEARER} is at gate.example.org:1.",  # in what it says, and what that is about
    f"The staging token is {BEARER}, and we decided to use port 8080 for it.",
    "Always sign with this, and never with another: " + "so it is " * 210 + BEARER,
]


@pytest.mark.parametrize("by_model", [False, True])
async def test_no_part_of_a_secret_is_learnt_or_leaves_with_what_was_learnt(by_model: bool, tmp_path: Path):
    outside = Outside()
    given = {"store": tmp_path / "a.db", "project": "p", "memory_extract": True, "memory_include": "auto"}
    given |= {"redact": Taking(), "by_model": by_model}
    async with outside.begun(**given) as context:
        for at, rule in enumerate(SECRET_RULES * 3):
            await fill(context, [user(f"{rule} {at}"), assistant(f"done {at} {prose(random.Random(at), 400)}")])
        await context.add_message(user("Always run the linter before a commit."))
        await context.checkpoint()
        await context.get_messages_for_request()
        await context.wait_idle()
    async with outside.begun(**given) as context:
        learnt = await context.memory.retrieve("Which host and port, which token, what about the linter?", limit=50)
        await context.search("staging token")
        await context.call_recall_tool({"query": "staging token"})
    kept = [json.dumps([one.content, dict(one.metadata)]) for one in learnt]
    assert [text for text in (*kept, *outside.heard) if MATERIAL.search(text)] == []
    assert by_model or any("linter" in text for text in kept)


@pytest.mark.parametrize("failure", [ValueError(KEY), 5])
async def test_where_it_fails_nothing_is_sent_and_the_cause_is_told(failure: object):
    outside, redact = Outside(), Taking()
    async with outside.begun(redact=redact) as context:
        redact.fails = failure
        async for view in views(context, log(random.Random(1), *[4_000] * 3)):
            assert view
        await outside.failed.wait()
        assert await context.search("build") is not None
        told = context.statistics().last_error or ""
    assert "redact" in told
    assert "nothing was sent" in told
    assert outside.kinds == []
    assert not any(MATERIAL.search(text) for text in (told, *outside.heard))


# -- secrets that are neighbours, in whatever fields they stand

PART = re.compile(r"([q-zQ-Z])\1{3}")
KEYS = "sk-qqqqQQQQrrrrqqqqQQQQ", "sk-wwwwWWWWsssswwwwWWWW", "sk-zzzzZZZZxxxxzzzzZZZZ"
Messages = list[Message]


def redact(text: str) -> str:
    """The example of the security page: without an edge on either side of the key."""
    return re.sub(r"sk-[A-Za-z0-9]{8,}", "[key]", text)


def use(given: Any, name: str = "env") -> Messages:
    return [call("anthropic", ("c", name, given)), result("anthropic", "c", "ok")]


def listed(arguments: Any, answer: Any = "ok") -> Messages:
    function = {"name": "env", "arguments": arguments}
    made = assistant("") | {"tool_calls": [{"id": "c", "type": "function", "function": function}]}
    return [made, result("openai", "c", answer)]


def texts(*said: str) -> Messages:
    return [user([{"type": "text", "text": text} for text in said])]


def spoken(block: dict[str, Any], *said: str) -> Messages:
    return [assistant([block, *texts(*said)[0]["content"]])]


SHAPES: dict[str, Callable[[str, str, str], Messages]] = {
    "text blocks": texts,
    "text blocks with words": lambda a, b, c: texts("keep " + a, b, c + " of ours"),
    "an empty block between": lambda a, b, c: texts(a, "", b, "", c),
    "plain strings as blocks": lambda a, b, c: [user([a, b, c])],
    "one text": lambda a, b, c: texts(f"{a} {b},{c}"),
    "input fields": lambda a, b, c: use({"OPENAI_API_KEY": a, "BACKUP_KEY": b, "LAST": c}),
    "input in lists": lambda a, b, c: use({"keys": [a, [b, [c]]]}),
    "input far inside": lambda a, b, c: use({"a": {"b": {"c": a}, "d": b}, "e": [{"f": c}]}),
    "keys of an input": lambda a, b, c: use({a: 1, b: 2, c: {a: b}}),
    "keys that stand for keys": lambda a, b, c: use({a: b, c: a}),
    "todos": lambda a, b, c: use({"todos": [{"content": a, "activeForm": b}, {"content": c}]}, "TodoWrite"),
    "JSON in an input": lambda a, b, c: use({"body": json.dumps({"x": [a, b], c: a})}),
    "arguments": lambda a, b, c: listed(json.dumps({"OPENAI_API_KEY": a, "BACKUP_KEY": b, "LAST": [c]})),
    "arguments as an object": lambda a, b, c: listed({"a": a, "b": [b, {"c": c}]}),
    "JSON in arguments": lambda a, b, c: listed(json.dumps({"body": json.dumps([a, json.dumps({"k": b}), c])})),
    "keys of arguments": lambda a, b, c: listed(json.dumps({a: b, c: json.dumps({b: a})})),
    "arguments and content": lambda a, b, c: [listed(json.dumps([b]))[0] | {"content": a}, listed("", c)[1]],
    "a JSON list as result": lambda a, b, c: listed("{}", json.dumps([a, b, c])),
    "a JSON object as result": lambda a, b, c: listed("{}", json.dumps({"a": a, "b": {b: c}})),
    "result blocks": lambda a, b, c: listed("{}", texts(a, b, c)[0]["content"]),
    "result blocks of JSON": lambda a, b, c: listed("{}", texts(json.dumps([a]), json.dumps({b: c}))[0]["content"]),
    "thinking beside a text": lambda a, b, c: spoken({"type": "thinking", "thinking": a, "signature": "s"}, b, c),
    "reasoning beside a text": lambda a, b, c: [assistant(a) | {"reasoning_content": b + "\n" + c}],
    "an unknown block": lambda a, b, c: spoken({"type": "novel", "x": a, "y": {"z": b, "w": c}}),
    "a document": lambda a, b, c: [user([{"type": "document", "title": a, "source": {"type": "text", "data": b}}, c])],
}


async def told(messages: Messages, by: Callable[[str], str] = redact) -> list[str]:
    """All that leaves the process of a session with these messages in it."""
    outside = Outside()
    given = {"max_tokens": 2_000, "segment_max": 2_000, "summarize_thinking": True}
    rest = ((user("next " + "go on with it " * 25), assistant("done " + "all is well " * 25)) for _ in range(6))
    async with outside.begun(redact=by, **given) as context:
        await fill(context, [user("show me the vault"), *messages, *(message for pair in rest for message in pair)])
        await context.get_messages_for_request()
        await context.wait_idle(60)
        await context.search("vault")
    assert any("show me the vault" in text for text in outside.heard)
    assert len(outside.heard) > 4
    return outside.heard


@pytest.mark.parametrize("shape", SHAPES)
async def test_of_keys_that_are_neighbours_no_part_leaves_the_process(shape: str):
    heard = await told(SHAPES[shape](*KEYS))
    assert not [text for text in heard if PART.search(text)]
    assert any("[key]" in text for text in heard)


async def test_what_is_no_key_is_sent_as_it_is_and_a_function_is_given_each_field_by_itself():
    around = ["the port is 8080", KEYS[0], "the host is db7.example.org", KEYS[1], "and the user is anna"]
    heard = "\n".join(await told([*texts(*around), *use(dict(zip("abcde", around, strict=True)))]))
    assert all(heard.count(word) >= 2 for word in ("the port is 8080", "db7.example.org", "the user is anna"))
    log = [*texts("the password is", "hunter2", "for all of us"), *use({"user": "anna", "pw": "hunter2"})]
    whole = await told(log, lambda text: "[password]" if text == "hunter2" else text)
    assert not [text for text in whole if "hunter2" in text]
    calls: list[str] = []
    for level in ({"b": ""}, {"b": "", "c": ""}):  # JSON inside JSON, with empty texts in it, takes few calls
        text = "look " + KEYS[0]
        for _ in range(7):
            text = json.dumps({"a": text, **level})
        heard = await told(listed("{}", text), lambda said: redact(said) if calls.append(said) is None else "")
        assert not [text for text in heard if PART.search(text)]
    assert len(calls) < 1_000
