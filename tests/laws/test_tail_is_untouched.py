"""tail_is_untouched: every raw row equals its log entry, except for named and counted repairs."""

import json
import random

import pytest

from .builders import DIALECTS, Message, assistant, call, count, result, user, words
from .judge import watched
from .shapes import canonical, plain_text
from .summarizers import Counting

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
        assert statistics.elided_tokens > 4_000
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
        assert count(said) <= 1_000
        await judge.add(user("and then?"))
        assert canonical((await judge.view())[: len(first)]) == canonical(first)
