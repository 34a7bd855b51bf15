"""tail_is_untouched: every raw row equals its log entry, except for named and counted repairs."""

import json
import random

import pytest

from .builders import DIALECTS, Message, assistant, call, result, session, user, words
from .judge import replay, watched
from .shapes import canonical, plain_text
from .summarizers import Counting


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_ordinary_rows_are_shown_without_any_repair(dialect: str) -> None:
    async with watched(Counting(), budget=2_000, repairs=frozenset()) as judge:
        await replay(judge, session(7, 140, dialect=dialect, wild=0.0))
        assert judge.activations > 1
        assert judge.covered > 50
        assert judge.context.statistics().repairs.get("shrunk", 0) == 0


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
    text = words(random.Random(8), 6_000)
    async with watched(Counting(), budget=4_000, repairs=frozenset({"shrunk"})) as judge:
        await judge.add(user("start"), assistant("yes"), *huge(place, text), assistant("seen"))
        first = await judge.view()
        assert judge.repairs["shrunk"] == 1
        assert judge.context.statistics().repairs["shrunk"] >= 1
        assert judge.context.statistics().elided_tokens > 4_000
        await judge.add(user("and then?"))
        second = await judge.view()
        assert canonical(second[: len(first)]) == canonical(first)


async def test_head_and_tail_of_a_shrunk_result_are_kept_and_the_cut_tells_its_size() -> None:
    text = "BEGINNING of it. " + words(random.Random(9), 5_000) + " the very END"
    async with watched(Counting(), budget=4_000) as judge:
        await judge.add(user("start"), call("openai", ("h", "read", {})), result("openai", "h", text))
        view = await judge.view()
        shown = plain_text(view[-1]["content"])
        assert shown.startswith("BEGINNING of it. ")
        assert shown.endswith(" the very END")
        assert len(shown) // 4 <= 1_000


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_long_arguments_keep_their_form_and_their_short_fields(dialect: str) -> None:
    async with watched(budget=2_000) as judge:
        await judge.add(user("Go."), call(dialect, ("a", "write", {"path": "x.py", "text": "many words " * 900})))
        (_, shown) = await judge.view()
        given = shown["tool_calls"][0]["function"] if dialect == "openai" else shown["content"][0]
        arguments = json.loads(given["arguments"]) if dialect == "openai" else given["input"]
        assert arguments["path"] == "x.py"
        assert "tokens left out" in arguments["text"]
