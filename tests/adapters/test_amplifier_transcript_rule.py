"""What `set_messages` does with a list that the host gives back: known transcripts change nothing, others replace."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.adapters.host import Row, mounted, unstamped
from tests.behaviour.contexts import TINY

SMALL = {"max_tokens": 2_000, "token_counter": "estimate", "idle_after": "never", **TINY}
SYSTEM = {"role": "system", "content": "Be kind."}
DEVELOPER = {"role": "developer", "content": "A context file."}
HOOK = {"role": "user", "content": "Mind the style.", "metadata": {"source": "hook"}}
EPHEMERAL = {"role": "user", "content": "It is late.", "ephemeral": True}


def dialogue(first: int, count: int) -> list[Row]:
    said = {"user": "words of a person ", "assistant": "words of a model "}
    numbers = range(first, first + count)
    return [{"role": role, "content": f"{number}: {words * 8}"} for number in numbers for role, words in said.items()]


@asynccontextmanager
async def filled() -> AsyncIterator[tuple[Any, list[Row]]]:
    """A manager whose log has every kind of row, with a compacted view, and what a host would keep of it."""
    async with mounted(SMALL) as manager:
        for row in [SYSTEM, DEVELOPER, *dialogue(0, 20), HOOK, *dialogue(20, 10), EPHEMERAL, *dialogue(30, 2)]:
            await manager.add_message(row)
        await manager.get_messages_for_request()
        yield manager, [row for row in await manager.get_messages() if row["role"] not in ("system", "developer")]


async def test_the_hosts_transcript_is_known_in_every_form_and_costs_nothing():
    async with filled() as (manager, kept):
        before, view = await manager.get_messages(), await manager.get_messages_for_request()
        for missing in ([], [HOOK], [HOOK, EPHEMERAL], [EPHEMERAL]):
            transcript = [row for row in kept if unstamped([row])[0] not in missing]
            for given in (transcript, [SYSTEM, *transcript], [SYSTEM, DEVELOPER, *transcript], unstamped(transcript)):
                await manager.set_messages(given)
                assert await manager.get_messages() == before
                assert await manager.get_messages_for_request() == view
        assert manager.statistics().activations == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows[:-1],
        lambda rows: rows[1:],
        lambda rows: [*rows[:10], *rows[11:]],
        lambda rows: [*rows, {"role": "user", "content": "And one more."}],
        lambda rows: [{"role": "system", "content": "Another prompt."}, *rows],
        lambda rows: [{**rows[0], "content": "Something else."}, *rows[1:]],
        lambda rows: [rows[1], rows[0], *rows[2:]],
        lambda rows: [],
    ],
)
async def test_anything_else_replaces_the_log(change):
    async with filled() as (manager, kept):
        given = change(kept)
        await manager.set_messages(given)
        assert await manager.get_messages() == given


async def test_a_row_that_equals_one_left_out_is_not_mistaken_for_it():
    async with mounted(SMALL) as manager:
        hook, human = {**HOOK, "role": "system"}, {"role": "system", "content": "Mind the style."}
        for row in (hook, *dialogue(0, 1), human):
            await manager.add_message(row)
        before = await manager.get_messages()
        for given in ([human, *dialogue(0, 1)], [*dialogue(0, 1), human], dialogue(0, 1)):
            await manager.set_messages(given)
            assert await manager.get_messages() == before
