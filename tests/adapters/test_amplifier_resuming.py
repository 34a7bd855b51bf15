"""What `set_messages` does with a list that the host gives back: known transcripts change nothing, others replace.

A session in a file ignores the host's own copy of it on resume, but for what that has behind the log's end.
"""

import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.host import SMALL, Model, Row, mounted, refusals, session_of, summarized, unstamped
from tests.behaviour.contexts import TINY, fill
from tests.killed_work import killed


def row(role: str, content: str, **more: Any) -> Row:
    return {"role": role, "content": content, **more}


SYSTEM, DEVELOPER = row("system", "Be kind to people and careful with files."), row("developer", "A context file.")
PROMPT, HOOK = row("system", "Another prompt."), row("system", "The branch is main.", metadata={"source": "hook"})
CALLS = [{"id": id, "tool": "read", "arguments": {}} for id in ("c1", "c2")]
RESULTS = [row("tool", f"result of {call['id']}", tool_call_id=call["id"]) for call in CALLS]
HUMAN, ANSWER = row("user", "Read both."), row("assistant", "I have read them.")
CALLING = row("assistant", "", tool_calls=CALLS)
LOG = [SYSTEM, DEVELOPER, row("user", "Hello"), ANSWER, HOOK, HUMAN, CALLING, RESULTS[0]]
INTERRUPTED, THANKS = row("user", "[the session was interrupted]"), row("user", "Thanks.")
REPLACED = "before the log was replaced"


def saved_by_host(log: list[Row]) -> list[Row]:
    """What hosts save of a log."""
    return [row for row in log if row["role"] not in ("system", "developer")]


async def names(manager: Any) -> list[str | None]:
    """Of the checkpoints."""
    return [mark.name for mark in await (await manager.opened()).list_checkpoints()]


@asynccontextmanager
async def hosted(folder: Path) -> AsyncIterator[tuple[Any, Any]]:
    """A host's session in the folder, summarized through its provider, and its context."""
    place = {"storage_path": str(folder / "run.db"), "summarizer": "host", "model": "m"}
    async with session_of({**SMALL, **place, "idle_after": "never"}, model=Model(summarize=summarized)) as session:
        yield session, session.coordinator.get("context")


async def run(tell: Callable[[Any], None], folder: Path) -> None:
    """Four turns; the host saves after two of them, and dies in the fifth, with a message said."""
    async with hosted(folder) as (session, context):
        await context.add_message(SYSTEM)
        for turn in range(4):
            await session.execute(f"Turn {turn}: read the next files.")
            if turn == 1:
                await context.add_message(HOOK)
                saved = saved_by_host(await context.get_messages())
        await context.add_message(row("user", "Turn 4: what did you read?"))
        view = await context.get_messages_for_request(provider=Model())
        tell((saved, await context.get_messages(), view))
        await context.wait_idle()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """What a host that was killed before it saved has left behind: its store, what it had saved, the log, the view."""
    folder = tmp_path_factory.mktemp("killed")
    (rows,), ended = killed(run, folder)
    assert ended == signal.SIGKILL
    return folder, rows


@pytest.mark.parametrize("copy", ["none", "shorter", "whole", "longer", "shorter and interrupted"])
async def test_a_killed_host_that_resumes_loses_nothing_and_pays_nothing_again(left, tmp_path, copy):
    folder, (saved, log, view) = left
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    whole, more = saved_by_host(log), [ANSWER, THANKS] if copy == "longer" else []
    copies = {"none": [], "shorter": saved, "whole": whole, "longer": [*whole, *more]}
    transcript = {**copies, "shorter and interrupted": [*saved, INTERRUPTED]}[copy]
    async with hosted(tmp_path) as (_, context):
        await context.set_messages(transcript)
        await context.set_messages([SYSTEM, *transcript])  # a host does both
        assert await context.get_messages() == [*log, *more]
        shown = await context.get_messages_for_request(provider=Model())
        assert shown[: len(view)] == view, "the same prefix"
        await context.wait_idle()
        figures = context.statistics()
        assert (figures.model_calls, figures.activations) == (0, 0)
        assert figures.summaries_ready == figures.segments > 3
        assert await names(context) == []


@asynccontextmanager
async def resumed(folder: Path, given: Any, log: list[Row] = LOG) -> AsyncIterator[Any]:
    """A session of this log, closed, opened again and given the host's copy."""
    options = {"storage_path": str(folder / "run.db"), "token_counter": "estimate"}
    async with mounted(options) as first:
        await fill(first, log)
    async with mounted(options) as again:
        await again.set_messages(given)
        yield again


async def log_of(manager: Any) -> list[Row]:
    return unstamped(await manager.get_messages())


def turn(number: int) -> list[Row]:
    """Prompts are said again and again."""
    said = {"user": f"Question {number % 3}.", "system": f"Note {number}.", "assistant": f"Answer {number}."}
    return [row(role, text) for role, text in said.items()]


LONG = [SYSTEM, INTERRUPTED, *chain(*map(turn, range(12))), HUMAN, CALLING, *RESULTS, ANSWER]
SAVED, WHOLE = saved_by_host(LONG), [*LOG, RESULTS[1], ANSWER, THANKS]
SHORTER = [LOG[:cut] for cut in range(len(LOG) + 1)]
COPIES: list[tuple[list[Row], list[Row], list[Row] | None]] = [  # a log, the host's copy, and what it has more
    *((LOG, copy, []) for cut in SHORTER for copy in (cut, saved_by_host(cut))),
    *((log, saved_by_host(WHOLE), saved_by_host(WHOLE[len(log) :])) for log in SHORTER[1:]),
    (LONG, [PROMPT, *SAVED, THANKS], [THANKS]),
    (LONG, [*SAVED[:9], INTERRUPTED], None),
    (LONG, [*SAVED[:9], THANKS, *SAVED[9:]], None),
    (LONG, SAVED[-10:], None),
    (LONG, [*SAVED[:10], row("assistant", "Answer 4, edited."), *SAVED[11:]], None),
    (LONG, [*SAVED[:-3], THANKS], None),  # a call without its results
    (LONG, [THANKS, row("assistant", "You are welcome.")], None),
]


@pytest.mark.parametrize(("log", "copy", "more"), COPIES)
async def test_of_a_copy_what_it_has_behind_the_log_is_appended_once_and_all_else_ignored(
    tmp_path, log, copy, more, caplog
):
    async with resumed(tmp_path, copy, log) as again:
        assert ("differs from the log" in caplog.text) == (more is None)
        await again.set_messages([SYSTEM, *copy])
        assert await log_of(again) == [*log, *(more or [])]
        assert await names(again) == []
        assert refusals(await again.get_messages_for_request()) == []


async def test_a_host_that_has_gone_on_replaces_what_differs_and_the_log_stays_as_a_checkpoint(tmp_path):
    """It may say something else, go back, or change its system prompt; system rows in front stay."""
    other, said = row("user", "Something else."), saved_by_host(LOG)
    async with resumed(tmp_path, said) as again:
        await again.add_message(RESULTS[1])
        for given, log in (
            ([*said[:3], other, ANSWER], [SYSTEM, DEVELOPER, *said[:3], other, ANSWER]),
            (saved_by_host(LOG[:4]), LOG[:4]),
            ([PROMPT, *said], [PROMPT, *said]),
        ):
            before = await names(again)
            await again.set_messages(given)
            assert await log_of(again) == log
            assert await names(again) == [*before, REPLACED]
            await (await again.opened()).restore(REPLACED)
            assert await log_of(again) == [*LOG, RESULTS[1]]
        await again.clear()
        assert await log_of(again) == []
        assert (await names(again))[-1] == "before the log was cleared"


@pytest.mark.parametrize("wrong", [[{"content": "no role"}], "text", None, [7]])
async def test_a_copy_that_is_no_list_of_messages_is_refused_and_changes_nothing(tmp_path, wrong):
    async with resumed(tmp_path, []) as again:
        with pytest.raises(ValueError, match="message"):
            await again.set_messages(wrong)
        assert await log_of(again) == LOG


def dialogue(first: int, count: int) -> list[Row]:
    said = {"user": "words of a person ", "assistant": "words of a model "}
    return [row(role, f"{at}: {words * 8}") for at in range(first, first + count) for role, words in said.items()]


INJECTED, EPHEMERAL = row("user", "Mind.", metadata={"source": "hook"}), row("user", "It is late.", ephemeral=True)


@asynccontextmanager
async def filled() -> AsyncIterator[tuple[Any, list[Row]]]:
    """A manager whose log has every kind of row, with a compacted view, and what a host would keep of it."""
    options = {**TINY, "max_tokens": 2_000, "token_counter": "estimate", "idle_after": "never"}
    async with mounted(options) as manager:
        await fill(
            manager, [SYSTEM, DEVELOPER, *dialogue(0, 20), INJECTED, *dialogue(20, 10), EPHEMERAL, *dialogue(30, 2)]
        )
        await manager.get_messages_for_request()
        yield manager, saved_by_host(await manager.get_messages())


async def test_the_hosts_transcript_is_known_in_every_form_and_costs_nothing():
    async with filled() as (manager, kept):
        before, view = await manager.get_messages(), await manager.get_messages_for_request()
        for missing in ([], [INJECTED], [INJECTED, EPHEMERAL], [EPHEMERAL]):
            transcript = [row for row in kept if unstamped([row])[0] not in missing]
            for given in (transcript, [SYSTEM, *transcript], [SYSTEM, DEVELOPER, *transcript], unstamped(transcript)):
                await manager.set_messages(given)
                assert await manager.get_messages() == before
                assert await manager.get_messages_for_request() == view
        assert manager.statistics().activations == 1


async def test_a_new_session_takes_what_it_is_given_and_anything_else_replaces_it(tmp_path):
    rows = dialogue(0, 9)
    async with mounted({"storage_path": str(tmp_path / "run.db")}) as fresh:
        for given in (
            rows[:-1],
            rows[1:],
            [*rows[:10], *rows[11:]],
            [*rows, THANKS],
            [PROMPT, *rows],
            [THANKS, *rows[1:]],
            [rows[1], rows[0], *rows[2:]],
            [],
        ):
            for log in ([SYSTEM, DEVELOPER, *rows], given):
                await fresh.set_messages(log)
                assert await fresh.get_messages() == log
        assert await names(fresh) == [*[REPLACED] * 14, "before the log was cleared"]


async def test_a_row_that_equals_one_left_out_is_not_mistaken_for_it():
    async with mounted() as manager:
        human = row("system", HOOK["content"])
        await fill(manager, [HOOK, *dialogue(0, 1), human])
        before = await manager.get_messages()
        for given in ([human, *dialogue(0, 1)], [*dialogue(0, 1), human], dialogue(0, 1)):
            await manager.set_messages(given)
            assert await manager.get_messages() == before
