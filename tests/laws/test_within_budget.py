"""within_budget: no view is over its budget; a refusal comes only when the leading system rows leave no room. With them
and 40 tokens there is a view, whatever the messages are made of, by any counter; each string that a provider is sent
counts, in whatever field. The work for a view grows with what is in it, not faster: counted in calls, never timed."""

import itertools
import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import pytest

from summarizing_context import Settings, message_text_parts
from summarizing_context.errors import BudgetError
from tests.behaviour.contexts import begun, fill
from tests.exact_counts import exact_counter

from .amounts import ALL
from .builders import Message, assistant, call, count, result, results, session, system, user, words
from .checkers import prefix_problems, tool_safe_problems, view_tokens
from .judge import IMAGE_TOKENS, SMALL, Judge, watched
from .shapes import THINKING_BLOCKS, blocks, plain_text
from .summarizers import Counting


async def test_a_refusal_says_which_rows_and_how_many_tokens() -> None:
    """With forty tokens beside the system rows there is a view."""
    rules = [system("rule " * 400), system("more " * 100, role="developer")]
    rows = tuple((at, count(row["content"]) + 4) for at, row in enumerate(rules))
    needed = sum(tokens for _, tokens in rows)
    async with watched(Counting(), budget=needed - 1) as judge:
        await judge.add(*rules, *session(17, 80, rules="", size=30))
        with pytest.raises(BudgetError) as refusal:
            await judge.context.get_messages_for_request()
        assert (refusal.value.budget_tokens, refusal.value.rows) == (needed - 1, rows)
        assert refusal.value.required_tokens > needed - 1
        await judge.context.wait_idle()
        for spare in (40, 41, 100):
            assert await judge.view(needed + spare)
        assert judge.covered > 0


async def test_images_are_priced_and_base64_is_not_text() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" * 5_000}}
    rows = [user([{"type": "text", "text": "look"}, picture]), call("anthropic", ("s", "shot", {}))]
    rows.append(result("anthropic", "s", [{"type": "text", "text": "the page"}, picture]))
    async with watched(Counting(), budget=20_000) as judge:
        await judge.add(*rows)
        assert await judge.view() == rows
        assert 3_200 < judge.context.last_view.tokens < 3_300
        assert await judge.view(2_500)


def _texts(n: int) -> list[Message]:
    return [{"type": "text", "text": f"line {i} of the listing"} for i in range(n)]


def odd_ends(n: int) -> dict[str, list[Message]]:
    """Of each shape, what ends a log with so many things of it."""
    ids = [f"c{i}" for i in range(n)]
    calls = call("anthropic", *((i, "ls", {}) for i in ids))
    done = results(*((i, "ok") for i in ids))["content"]
    fields = {f"k{i}": f"value {i}" for i in range(n)}
    thought = {"type": "thinking", "thinking": "so " * n, "signature": "s"}
    thinking = [thought, {"type": "redacted_thinking", "data": "x"}]
    function = {"function_call": {"name": "f" * n, "arguments": json.dumps(fields)}}
    several = results(*((i, [*_texts(2), {"type": "image"}]) for i in ids))["content"]
    lines = [(i, f"line {i}") for i in ids]
    return {
        "long type": [user("see") | {"type": "kind " * n}],
        "odd type": [user("see") | {"type": fields}],
        "loaded tools": [assistant("loaded") | {"metadata": {"openai:tool_search_items": _texts(n)}}],
        "text blocks": [user(_texts(n))],
        "bare strings": [user(["word"] * n)],
        "said blocks": [assistant(_texts(n))],
        "unknown blocks": [user([{"type": "weird", "n": i, "inner": [i]} for i in range(n)])],
        "images": [user([{"type": "image_url", "image_url": {"url": f"http://x/{i}"}} for i in range(n)])],
        "results of blocks": [call("openai", ("c", "ls", {})), result("openai", "c", _texts(n))],
        "result blocks": [call("anthropic", ("c", "ls", {})), results(("c", _texts(n)))],
        "one row of results": [calls, results(*lines)],
        "rows of results": [calls, *map(results, lines)],
        "results with words": [calls, *map(user, zip(done, _texts(n), strict=True))],
        "calls in flight": [call("openai", *((i, "ls", {"path": "x"}) for i in ids))],
        "calls in flight as blocks": [calls],
        "system blocks": [system(_texts(n))],
        "argument fields": [call("anthropic", ("c", "ls", fields))],
        "argument keys": [call("anthropic", ("c", "ls", {"key" * n: 1, "other" * n: 2}))],
        "fields as text": [call("openai", ("c", "ls", fields))],
        "long names": [call("openai", ("c", "name" * n, {})), result("openai", "c", "ok")],
        "signed thinking": [{"role": "assistant", "content": [*thinking, *_texts(n), *calls["content"][:3]]}],
        "refusal and function call": [{"role": "assistant", "content": None, "refusal": "no " * n, **function}],
        "result without a call": [results(*lines)],
        "mixed": [calls, user([*several, *_texts(n), "end", 7, None])],
        "late results": [calls, user("never mind"), *map(results, lines[:40])],
        "reminders": [{**user(f"note {i}"), "ephemeral": True} for i in range(n)],
    }  # fmt: skip


RULES = system("Be brief.")
COUNTERS: dict[str, Callable[[str], int]] = {"quarter": count, "len": len, "words": lambda text: len(text.split())}


def odd_log(shape: str, n: int) -> list[Message]:
    return [RULES, user("hi there"), assistant("hello"), *odd_ends(n)[shape]]


def lawless(view: Sequence[Message], log: Sequence[Message]) -> list[str]:
    """What a provider would refuse, beside calls without results: texts of nothing, and thinking that was cut."""
    thought = [block for row in log for block in blocks(row) if block.get("type") in THINKING_BLOCKS]
    shown = [block for row in view for block in blocks(row)]
    thinking = (block for block in shown if block.get("type") in THINKING_BLOCKS)
    texts = (block for block in shown if block.get("type") in ("text", "tool_result"))
    problems = tool_safe_problems(view)
    problems += ["a row is empty" for row in view if not any(map(row.get, ("content", "tool_calls", "refusal")))]
    problems += ["thinking is not the log's" for block in thinking if block not in thought]
    return problems + ["a block is empty" for block in texts if not plain_text(block)]


def shows_newest(view: Sequence[Message], newest: Message) -> bool:
    """The last row is the newest message, or says that the newest calls and results are left out."""
    said = str(view[-1]["content"])
    return view[-1]["role"] == newest["role"] or said.endswith("left out]") or "late_result" in said or "…" in said


MANY, SEVERAL = (200, 30) if ALL else (50, 12)
EVERY = itertools.product(odd_ends(1), COUNTERS)
SOME = zip(odd_ends(1), itertools.cycle(COUNTERS), strict=False)  # each shape once, with one counter after the other


@pytest.mark.parametrize(("shape", "counter"), [*(EVERY if ALL else SOME)])
async def test_any_message_has_a_view_in_any_budget(shape: str, counter: str) -> None:
    """A view after some of the messages and after each of a few more, judged."""
    counted, rng = COUNTERS[counter], random.Random(f"{shape} {counter}")
    least = view_tokens([RULES], counted, IMAGE_TOKENS, message_text_parts) + 40
    large = rng.choice([least, rng.randint(1_000, 20_000)])
    cases = [(1, least), (1, least + rng.randint(1, 60)), (SEVERAL, least), (SEVERAL, rng.randint(200, 900))]
    for n, budget in [*cases, (MANY, large)]:
        log, before = odd_log(shape, n), list[Message]()
        rows = [*log, assistant("fine"), user("next")]
        async with begun(of=Settings, max_tokens=budget, image_tokens=IMAGE_TOKENS, count_tokens=counted) as context:
            for at, row in enumerate(rows):
                await context.add_message(row)
                if 5 <= at < len(log) - 1 and at % 71:
                    continue
                view = await context.get_messages_for_request()
                tokens = view_tokens(view, counted, IMAGE_TOKENS, message_text_parts)
                grown = [] if context.last_view.activation else prefix_problems(before, view)
                told = (tokens <= budget, lawless(view, rows[: at + 1]), shows_newest(view, row), grown)
                assert told == (True, [], True, []), f"{at} of {len(rows)} rows, budget {budget}"
                before = view


GROWTH = 2.6  # of what is done, when there is twice as much to do


async def steps_of(log: list[Message], seen: int = 0) -> int:
    """Functions that return in this thread while a view is made of a log, after a view behind each of the messages
    `seen`; cProfile counts other threads as well, from Python 3.12 on."""
    taken = 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal taken
        taken += event in ("return", "c_return")

    async with begun(log[:seen], every=1, of=Settings, max_tokens=500, strategy="truncate") as context:
        await fill(context, log[seen:])
        sys.setprofile(note)
        try:
            assert await context.get_messages_for_request()
        finally:
            sys.setprofile(None)
    return taken


FEWEST = {"text blocks": 100, "rows of results": 50, "calls in flight": 100, "mixed": 30}


@pytest.mark.parametrize("shape", FEWEST)
async def test_twice_the_parts_take_about_twice_the_steps(shape: str) -> None:
    taken = [await steps_of(odd_log(shape, FEWEST[shape] * times)) for times in ((1, 2, 4) if ALL else (1, 2))]
    assert all(more <= GROWTH * less for less, more in itertools.pairwise(taken)), taken


async def test_what_came_since_the_last_view_is_not_read_where_the_next_one_cannot_show_it() -> None:
    few, many = [await steps_of([user(f"message {at} of a long import") for at in range(n)], 60) for n in (560, 1_060)]
    assert many - few < 40 * 500, (few, many)  # where it is read, about 150 a message


# as the README says it
NEVER_SENT = frozenset({"metadata", "critical", "ephemeral", "timestamp", "created", "created_at", "usage"})
IDS = frozenset({"id", "tool_call_id", "tool_use_id"})
FLAGS = frozenset({"role", "type", "name", "format", "media_type", "mimeType"})
FEW = 32  # numbers, flags and empty values that the framing pays for
BARE = (True, False, None, 0, 7, 0.25, "", [], {})
SENTENCE = "the parser reads a schema and keeps every row until the worker has written them to the table"


def odd_words(rng: random.Random, size: int) -> str:
    kind = rng.random()
    if kind < 0.15:
        return "".join(rng.choices("ABCDEFGHIJKLMNOPabcdefghijklmnop0123456789+/", k=size * 4))
    if kind < 0.25:
        return "".join(rng.choices("数据库表行列读写", k=size))
    return " ".join(rng.choices(SENTENCE.split(), k=size))


def odd_value(rng: random.Random, size: int, depth: int = 0) -> Any:
    """A value that no shape knows."""
    if rng.random() < 0.1:
        return rng.choices(BARE, k=size * rng.choice((2, 20)))
    if depth > 2 or rng.random() < 0.4:
        return odd_words(rng, size)
    inner = [odd_value(rng, max(1, size // 3), depth + 1) for _ in range(rng.randint(1, 3))]
    return inner if rng.random() < 0.4 else {f"field_{n}": value for n, value in enumerate(inner)}


DETAILS = [
    {"type": "reasoning.text", "text": "~", "signature": "~4", "format": "anthropic-claude-v1"},
    {"type": "reasoning.encrypted", "data": "~2", "id": "rs_1"},
    {"type": "reasoning.summary", "summary": "~3"},
]
THINKING: list[Message] = [  # as one host or another keeps it beside the content
    *({"reasoning": "~", "reasoning_details": [detail]} for detail in DETAILS),
    {"reasoning_details": DETAILS},
    {"reasoning_details": [{"type": "reasoning.text", "text": "~", "marks": "%"}]},
    {"reasoning": "~"},
    {"reasoning_content": "~", "thinking": "~1"},
    {"thinking_block": {"type": "thinking", "thinking": "~", "signature": "~3"}},
]
BLOCKS: list[Message] = [
    *({"type": kind, kind: "~", "citations": "%"} for kind in ("text", "refusal", "thinking", "output_text")),
    {"type": "output_text", "text": "~", "annotations": "%"},
    {"type": "thinking", "thinking": "~", "signature": "~2"},
    {"type": "redacted_thinking", "data": "~"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "~"}], "encrypted_content": "~"},
    {"type": "search_result", "source": "a", "content": [{"type": "text", "text": "~"}]},
    {"type": "container_upload", "payload": "%"},
]
SIGNED = {"google": {"thought_signature": "~"}}
FUNCTION = {"type": "function", "id": "#", "function": {"name": "read", "arguments": "~3"}, "extra_content": SIGNED}
USE = {"type": "tool_use", "id": "#", "name": "read", "input": {"path": "~3"}, "extra": "%"}
ROWS: list[Message] = [
    {"role": "user", "parts": [{"text": "~"}, {"inlineData": "%"}]},
    {"role": "user", "content": "~", "x_note": "%"},
    {"role": "assistant", "content": "~", "refusal": "~1"},
    *({"role": "assistant", "content": [one, other]} for one, other in itertools.pairwise(BLOCKS)),
    *({"role": "assistant", "content": None, "tool_calls": [FUNCTION]} | thinking for thinking in THINKING),
    *({"role": "assistant", "content": [block, USE]} for block in BLOCKS),
]


def mixed_log(seed: int, size: int) -> list[Message]:
    """Messages of all shapes in any order. `~` is a text of a size, `~3` another of a third of it, `%` a value of any
    kind, `#` the id of a call."""
    rng, log = random.Random(seed), list[Message]()

    def filled(shape: Any) -> Any:
        if isinstance(shape, dict):
            return {name: filled(each) for name, each in shape.items()}
        if isinstance(shape, list):
            return [filled(each) for each in shape]
        if str(shape)[:1] == "~":
            return odd_words(rng, size // int(shape[1:])) if shape[1:] else said
        return odd_value(rng, size) if shape == "%" else f"c{len(log)}" if shape == "#" else shape

    for shape in rng.sample(ROWS, len(ROWS)):
        said = odd_words(rng, size)
        results: list[Message] = []
        if "tool_calls" in shape:
            results = [{"role": "tool", "tool_call_id": "#", "content": "~", "x_note": "%"}]
        elif USE in list(shape.get("content") or ()):
            answer = {"type": "tool_result", "tool_use_id": "#", "content": rng.sample(BLOCKS, 2), "extra": "%"}
            results = [{"role": "user", "content": [answer]}]
        log += filled([shape, *results])
        if rng.random() < 0.5:
            log[-1] |= {"metadata": {"note": odd_words(rng, 1_000)}, "created": "2026-11-20T10:00Z", "_seq": "7" * 900}
    return log


def sent(value: Any, field: str = "") -> Iterator[tuple[str, Any]]:
    """Every string that is sent, and every long list of numbers, flags and nothing, with its field."""
    if isinstance(value, str) or (isinstance(value, list) and len(value) > FEW and all(one in BARE for one in value)):
        yield field, value
    elif isinstance(value, list):
        for item in value:
            yield from sent(item, field)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in NEVER_SENT and not name.startswith("_"):
                yield from sent(item, name)


@cache
def counter(name: str) -> Any:
    """A counter that counts each text once: one view after the other holds the same."""
    return lru_cache(maxsize=20_000)(count if name == "quarter" else exact_counter().count)


def recount(view: list[Message], counted: Any) -> int:
    """The larger of two counts: each text and 4 a message; each string value there is. Beside them, all long lists."""
    found = [*sent(view)]
    strings = [(field, value) for field, value in found if isinstance(value, str)]
    framed = dict.fromkeys(FLAGS, 24) | dict.fromkeys(IDS, 8)  # short ones, which the framing pays for
    texts = sum(counted(one) for field, one in strings if not (one.isascii() and len(one) <= framed.get(field, -1)))
    lists = sum(counted(json.dumps(value, separators=(",", ":"))) for _, value in found if isinstance(value, list))
    return max(4 * len(view) + texts, sum(counted(text) for _, text in strings)) + lists


@pytest.mark.parametrize(
    ("name", "seed", "size", "budget"),
    [("quarter", 1, 90, 4_000), ("tiktoken", 2, 400, 4_000), ("tiktoken", 3, 25, 1_200), ("quarter", 5, 900, 16_000)],
)
async def test_no_view_of_odd_messages_is_over_its_budget(name: str, seed: int, size: int, budget: int) -> None:
    counted, sizes, log = counter(name), list[int](), mixed_log(seed, size)
    segments: Any = {of: tokens * max(budget, 4_000) // 4_000 for of, tokens in SMALL.items()}
    async with begun(max_tokens=budget, summarizer=Counting(), count_tokens=counted, **segments) as context:
        for message in log:
            await context.add_message(message)
            if message["role"] != "assistant":
                await context.wait_idle()
                sizes.append(recount(await context.get_messages_for_request(), counted))
        assert max(sizes) <= budget
        assert len(sizes) > 10
        assert context.statistics().activations > 1
        assert await context.get_messages() == log


async def test_what_a_model_can_read_in_an_odd_field_is_given_to_the_summarizer() -> None:
    summarizer, log = Counting(), list[Message]()
    for number in range(40):
        text = f"MARK{number:03d} " + "and so on " * 40
        shape: Message = [
            {"reasoning": text},
            {"reasoning_details": [{"type": "reasoning.text", "text": text}]},
            {"annotations": [{"quoted": text}]},
            {"content": [{"type": "text", "text": "yes", "citations": [{"cited_text": text}]}]},
        ][number % 4]
        log += [user("go on"), assistant("done") | shape]
    async with watched(summarizer, budget=2_000, summarize_thinking=True) as judge:
        await judge.live(log, every=2)
        await judge.context.wait_idle()
    assert all(f"MARK{number:03d}" in summarizer.contents for number in range(30))


def cost(message: Message) -> int:
    return 4 + count(message["content"])


async def talk(judge: Judge, rng: random.Random, tokens: int) -> None:
    """Requests with ordinary messages, about so many tokens of them."""
    judge.thorough = 25
    while tokens > 0:
        said, identity = words(rng, rng.randint(1, max(2, judge.budget // 12))), f"t{len(judge.log)}"
        step = [call("openai", (identity, "run", {})), result("openai", identity, said)]
        await judge.add(*(step if rng.random() < 0.3 else [assistant(said), user(f"go on {identity}")]))
        await judge.view()
        tokens -= count(said) + 12


@pytest.mark.parametrize(
    ("budget", "seed", "share"), [(1_000, 0, 2.0), (9_000, 1, 0.3), (14_000, 2, 1.0), (25_000, 3, 0.7)]
)
async def test_no_row_is_missing_that_would_have_fitted_and_every_view_is_lawful(
    budget: int, seed: int, share: float
) -> None:
    """Critical messages and system rows come in at random, `share` of the budget together: as many stay as the budget
    holds, the newest first."""
    rng, cap = random.Random(seed), int(budget - max(budget / 3, 128))  # all but a third, or more of a small budget
    async with watched(budget=budget) as judge:
        await judge.add(user("task"), assistant("ok"))
        left = share * budget
        while left > 0:
            text = f"{len(judge.log)} " + words(rng, rng.randint(1, rng.choice([8, cap // 9, cap // 3])))
            row = rng.choice([system(text), {**rng.choice([user, assistant])(text), "critical": True}])
            await judge.add(row)
            left -= cost(row)
            if rng.random() < 0.5:
                await talk(judge, rng, budget // 30)
        await talk(judge, rng, budget)
        view = await judge.view()
        stay = [row for row in judge.log[::-1] if row.get("critical") or row["role"] == "system"]
        lost = [row for row in stay if row not in view]
        # none is missing that would have fitted beside those that go before it, and those in the tail
        room = cap - sum(cost(row) for row in stay if row in view[-1:])
        for row in sorted(stay, key=lambda row: not row.get("critical")):
            assert row in view or cost(row) > room
            room -= cost(row) * (row in view)
        assert judge.context.statistics().pins_left_out == len(lost)
        assert any(f"{len(lost)} pinned message" in str(row["content"]) for row in view) is bool(lost)
        assert judge.activations > 0
