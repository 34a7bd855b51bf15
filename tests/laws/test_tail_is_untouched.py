"""Where messages or groups are larger than the view. tail_is_untouched: every raw row equals its log entry, except for
named and counted repairs. no_storm: after one message that cannot be made smaller few requests are activations."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from .amounts import REQUESTS, STRATEGIES
from .builders import DIALECTS, Message, assistant, call, count, result, session, system, user, words
from .judge import watched
from .places import kept_at
from .repairs import LATE_NOTE
from .shapes import canonical, plain_text
from .summarizers import Counting, Failing

HUGE_PLACES = ["user", "blocks", *(f"{kind}-{dialect}" for kind in ("argument", "result") for dialect in DIALECTS)]


def huge(place: str, text: str) -> list[Message]:
    """The same huge text as a user row, as blocks, as an argument, as a result."""
    kind, _, dialect = place.partition("-")
    if not dialect:
        parts = [{"type": "text", "text": text[at : at + 2_000]} for at in range(0, len(text), 2_000)]
        return [user(text if kind == "user" else parts)]
    made = {"path": "a.py", "text": text} if kind == "argument" else {}
    return [call(dialect, ("h", "work", made)), result(dialect, "h", text if kind == "result" else "written")]


@pytest.mark.parametrize("place", HUGE_PLACES)
async def test_a_huge_message_is_shrunk_from_its_first_showing_on_and_always_the_same(place: str) -> None:
    """Its head and its tail are kept, arguments keep their form and their short fields, and a cut tells its size."""
    text = f"BEGINNING of it. {words(random.Random(8), 6_000)} the very END"
    async with watched(Counting(), budget=4_000, repairs=frozenset({"shrunk"})) as judge:
        rows = huge(place, text)
        await judge.add(user("start"), assistant("yes"), *rows, assistant("seen"))
        first = await judge.view()
        statistics = judge.context.statistics()
        assert judge.repairs["shrunk"] == 1 <= statistics.repairs["shrunk"]
        assert statistics.elided_tokens > 2_800
        shown = first[2] if len(rows) == 1 or "argument" in place else first[3]
        said = plain_text(shown["content"])
        if "argument" in place:
            given = shown["tool_calls"][0]["function"] if "openai" in place else shown["content"][0]
            arguments = json.loads(given["arguments"]) if "openai" in place else given["input"]
            assert arguments["path"] == "a.py"
            said = arguments["text"]
        assert said.startswith("BEGINNING of it. ")
        assert said.endswith(" the very END")
        assert "tokens left out" in said
        assert 2_400 <= count(said) <= 0.8 * 4_000  # of the room, as an activation leaves it
        await judge.add(user("and then?"))
        assert canonical((await judge.view())[: len(first)]) == canonical(first)


BUDGET, MIN_FREE = 4_000, 0.12
NEARLY = words(random.Random(41), BUDGET * 95 // 100)


def wide(dialect: str, calls: int, tokens: int = 50, asked: int = 50) -> list[Message]:
    """A message with so many calls, and a result for each."""
    rng, ids = random.Random(calls), [f"w{n}" for n in range(calls)]
    made = call(dialect, *((i, "read_file", {"text": words(rng, asked)}) for i in ids), text="All at once.")
    return [made, *(result(dialect, i, words(rng, tokens)) for i in ids)]


PLACES = ("user", "blocks", "argument-openai", "result-openai", "result-anthropic")
HUGE = {
    **{place: huge(place, NEARLY) for place in PLACES},
    "forty results": wide("openai", 40, BUDGET * 95 // 100 // 40, asked=1),
    "assistant": [user("tell"), assistant(NEARLY)],
    "system": [system(NEARLY)],
}
OTHERS = [("argument-openai", "truncate"), ("forty results", "summarize"), ("user", "truncate")]


@pytest.mark.parametrize(("kind", "strategy"), [*((kind, "hierarchical") for kind in sorted(HUGE)), *OTHERS])
async def test_many_requests_after_a_huge_message_cause_no_storm(kind: str, strategy: str) -> None:
    summarizer = Failing() if strategy == "hierarchical" else Counting()
    async with watched(summarizer, budget=BUDGET, strategy=strategy) as judge:
        await judge.add(*session(43, 60))
        await judge.view()
        await judge.add(*HUGE[kind])
        await judge.view()
        before, tokens, judge.thorough = judge.context.statistics().activations, 0, 10
        first = await judge.view()
        for _ in range(50):  # without a new message
            assert await judge.context.get_messages_for_request() == first
        for number in range(REQUESTS):  # with a little text between them; some are judged
            message = (user if number % 2 else assistant)(f"step {number}")
            tokens += 4 + count(message["content"])
            await judge.add(message)
            if number % 50 == 0:
                await judge.view()
            await judge.context.get_messages_for_request()
            assert judge.context.last_view.tokens <= BUDGET
        assert 0 < before >= judge.context.statistics().activations - tokens / (MIN_FREE * BUDGET) - 1


@pytest.mark.parametrize(("strategy", "dialect"), [*zip(STRATEGIES, (*DIALECTS, "openai"), strict=True)])
async def test_of_a_wide_group_the_newest_results_are_shown_as_notes(
    strategy: str, dialect: str, tmp_path: Path
) -> None:
    """They are sent again after reopening."""
    stored: Any = {"store": kept_at(tmp_path / "a.db"), "session_id": "one"}
    async with watched(Counting("counting/1"), budget=500, strategy=strategy, **stored) as judge:
        await judge.live(session(71, 14, dialect=dialect), every=5)
        before = judge.activations
        await judge.live(wide(dialect, 60), every=10)
        assert judge.refused == 0
        assert judge.repairs[LATE_NOTE] > 5
        assert judge.activations - before <= 7
        await judge.reopen()
        assert await judge.context.get_messages_for_request() == judge.last
        await judge.live([assistant("done"), *session(72, 14, dialect=dialect, rules="")], every=3)
        assert judge.covered > 65
