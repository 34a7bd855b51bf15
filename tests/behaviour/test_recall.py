"""Recalling, as a user of a context sees it: one page about a query, of what the view leaves out."""

import pytest

from tests.behaviour.contexts import opened
from tests.laws.builders import assistant, call, count, result, session, user

FILLER = session(3, 120, rules="")


async def test_what_was_said_long_ago_comes_back_with_its_place():
    said = "The staging database listens on port 6543 and is owned by Ursula."
    async with opened([*FILLER[:40], assistant(said), *FILLER[40:]]) as context:
        page = await context.recall("who owns the staging database?")
        assert f"[message 40: assistant]\n{said}" in page.text
        assert page.start <= 40 < page.stop
        assert count(page.text) <= 2_000


@pytest.mark.parametrize("most", [120, 400, 1_000])
async def test_a_page_takes_at_most_the_tokens_that_it_is_given(most: int):
    async with opened(FILLER) as context:
        page = await context.recall("the parser of the release schema, and its lock", most)
        assert most / 3 < count(page.text) <= most


async def test_of_a_long_result_only_the_lines_around_the_words_are_shown():
    lines = [f"line {n} of the build says nothing" for n in range(400)]
    lines[200] = "FAILED the walrus test: expected tusks"
    made = call("openai", ("w", "run", {"command": "make check"}))
    log = [user("Go."), made, result("openai", "w", "\n".join(lines)), *FILLER]
    async with opened(log) as context:
        page = await context.recall("walrus tusks", 400)
        assert "[message 2: result of run]" in page.text
        assert "line 199" in page.text
        assert lines[200] in page.text
        assert "line 201" in page.text
        assert "line 150" not in page.text


@pytest.mark.parametrize("asked", ["src/billing/ledger_export.py", "INV-20931-X", "a81f02c9"])
async def test_an_id_that_is_asked_for_literally_is_found(asked: str):
    made = call("openai", ("x", "edit", {"path": "src/billing/ledger_export.py", "invoice": "INV-20931-X"}))
    log = [user("Fix it."), made, result("openai", "x", "committed as a81f02c9, by the way"), *FILLER]
    async with opened(log, ledger_share=0.0) as context:  # which would show them
        assert asked not in str(context.last_view.messages[-8:])
        page = await context.recall(f"What was done with {asked}?")
        at = 2 if asked == "a81f02c9" else 1
        assert asked in page.text.partition(f"[message {at}: ")[2].partition("\n[message")[0]


async def test_what_the_view_does_not_show_goes_before_what_it_shows():
    log = [assistant("The walrus was fed by Ursula."), *FILLER, assistant("The walrus was fed by Otto.")]
    async with opened(log) as context:
        page = await context.recall("walrus fed", 120)
        assert "Ursula" in page.text
        assert "Otto" not in page.text
