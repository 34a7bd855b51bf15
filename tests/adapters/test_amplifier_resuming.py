"""A session in a file ignores the host's own copy of it on resume, but for what that has behind the log's end."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.host import Row, mounted, session_of, unstamped
from tests.adapters.killed_host import HOOK, SYSTEM, config, model, saved_by_host
from tests.adapters.validity import refusals

ROOT = Path(__file__).parents[2]
CALLS = [{"id": "c1", "tool": "read", "arguments": {}}, {"id": "c2", "tool": "read", "arguments": {}}]
RESULTS: list[Row] = [
    {"role": "tool", "tool_call_id": call["id"], "content": f"result of {call['id']}"} for call in CALLS
]
DEVELOPER: Row = {"role": "developer", "content": "A context file."}
HUMAN: Row = {"role": "user", "content": "Read both."}
ANSWER: Row = {"role": "assistant", "content": "I have read them."}
CALLING: Row = {"role": "assistant", "content": "", "tool_calls": CALLS}
LOG: list[Row] = [SYSTEM, DEVELOPER, {"role": "user", "content": "Hello"}, ANSWER, HOOK, HUMAN, CALLING, RESULTS[0]]
INTERRUPTED: Row = {"role": "user", "content": "[the session was interrupted]"}
MORE: list[Row] = [RESULTS[1], ANSWER, {"role": "user", "content": "Thanks."}]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a host that was killed before it saved has left behind."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "tests.adapters.killed_host", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    return folder


def read(path: Path) -> list[Row]:
    rows: list[Row] = json.loads(path.read_text())
    return rows


@pytest.mark.parametrize("copy", ["none", "shorter", "whole", "longer", "shorter and interrupted"])
async def test_a_killed_host_that_resumes_loses_nothing_and_pays_nothing_again(killed, tmp_path, copy):
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    log, view, own = read(killed / "log.json"), read(killed / "view.json"), [ANSWER, *MORE[2:]]
    more = own if copy == "longer" else []
    transcripts: dict[str, list[Row]] = {
        "none": [],
        "shorter": read(killed / "saved.json"),
        "whole": saved_by_host(log),
        "longer": [*saved_by_host(log), *own],
        "shorter and interrupted": [*read(killed / "saved.json"), INTERRUPTED],
    }
    async with session_of(config(tmp_path), model=model()) as session:
        context = session.coordinator.get("context")
        await context.set_messages(transcripts[copy])
        await context.set_messages([SYSTEM, *transcripts[copy]])  # a host does both
        assert await context.get_messages() == [*log, *more]
        shown = await context.get_messages_for_request(provider=model())
        assert shown[: len(view)] == view, "the same prefix"
        await context.wait_idle()
        figures = context.statistics()
        assert (figures.model_calls, figures.activations) == (0, 0)
        assert figures.summaries_ready == figures.segments > 3
        assert await (await context.opened()).list_checkpoints() == []


@asynccontextmanager
async def resumed(folder: Path, *, given: Any, log: list[Row] = LOG) -> AsyncIterator[Any]:
    """A session of this log, closed, opened again and given the host's copy."""
    options = {"storage_path": str(folder / "run.db"), "token_counter": "estimate"}
    async with mounted(options) as first:
        for row in log:
            await first.add_message(row)
    async with mounted(options) as again:
        await again.set_messages(given)
        yield again


async def log_of(manager: Any) -> list[Row]:
    return unstamped(await manager.get_messages())


async def names(manager: Any) -> list[str | None]:
    return [mark.name for mark in await (await manager.opened()).list_checkpoints()]


@pytest.mark.parametrize("left_out", [[], [SYSTEM, DEVELOPER, HOOK]])
@pytest.mark.parametrize("cut", range(len(LOG) + 1))
async def test_a_shorter_copy_changes_nothing_wherever_it_ends(tmp_path, cut, left_out):
    async with resumed(tmp_path, given=[row for row in LOG[:cut] if row not in left_out]) as again:
        assert await log_of(again) == LOG
        assert await names(again) == []


@pytest.mark.parametrize("cut", range(1, len(LOG) + 1))
async def test_what_a_longer_copy_has_is_appended_wherever_the_log_ended(tmp_path, cut):
    whole = [*LOG, *MORE]
    ours = LOG[:cut]
    async with resumed(tmp_path, given=saved_by_host(whole), log=ours) as again:
        appended = [row for row in whole[cut:] if row["role"] not in ("system", "developer")]
        assert await log_of(again) == [*ours, *appended]
        await again.set_messages([SYSTEM, *saved_by_host(whole)])
        assert await log_of(again) == [*ours, *appended], "giving it twice appends it once"
        assert await names(again) == []


def turns(count: int) -> list[Row]:
    """A log of turns with system rows between them, some prompts of which are said again and again."""
    rows: list[Row] = [SYSTEM, INTERRUPTED]
    for turn in range(count):
        rows.append({"role": "user", "content": f"Question {turn % 3}."})
        rows.append({"role": "system", "content": f"Note {turn}."})
        rows.append({"role": "assistant", "content": f"Answer {turn}."})
    return [*rows, HUMAN, CALLING, *RESULTS, ANSWER]


LONG = turns(12)
SAVED = saved_by_host(LONG)
EDITED: Row = {"role": "assistant", "content": "Answer 4, edited."}
COPIES: dict[str, list[Row]] = {
    "shorter, with a row of its own": [*SAVED[:9], INTERRUPTED],
    "a row of its own in the middle": [*SAVED[:9], MORE[2], *SAVED[9:]],
    "the last ten": SAVED[-10:],
    "an edited row": [EDITED if row["content"] == "Answer 4." else row for row in SAVED],
    "a call without its results": [*SAVED[:-3], MORE[2]],
    "another conversation": [MORE[2], {"role": "assistant", "content": "You are welcome."}],
}


@pytest.mark.parametrize("copy", COPIES)
async def test_a_copy_that_differs_is_ignored_with_a_warning(tmp_path, copy, caplog):
    async with resumed(tmp_path, given=COPIES[copy], log=LONG) as again:
        assert "differs from the log" in caplog.text
        await again.set_messages([SYSTEM, *COPIES[copy]])
        assert await log_of(again) == LONG
        assert await names(again) == []
        assert refusals(await again.get_messages_for_request()) == []


async def test_another_prompt_of_the_host_hides_nothing_behind_the_end_of_the_log(tmp_path):
    prompt: Row = {"role": "system", "content": "Another prompt."}
    async with resumed(tmp_path, given=[prompt, *SAVED, MORE[2]], log=LONG) as again:
        assert await log_of(again) == [*LONG, MORE[2]]


async def test_a_host_that_has_gone_on_replaces_what_differs_and_the_log_stays_as_a_checkpoint(tmp_path):
    """It may say something else, go back, or change its system prompt; system rows in front stay."""
    whole, front = [*LOG, RESULTS[1]], [SYSTEM, DEVELOPER]
    other, prompt = {"role": "user", "content": "Something else."}, {"role": "system", "content": "Another prompt."}
    said = saved_by_host(LOG)
    async with resumed(tmp_path, given=said) as again:
        await again.add_message(RESULTS[1])
        for given, log in (
            ([*said[:3], other, ANSWER], [*front, *said[:3], other, ANSWER]),
            (saved_by_host(LOG[:4]), LOG[:4]),
            ([prompt, *said], [prompt, *said]),
        ):
            before = await names(again)
            await again.set_messages(given)
            assert await log_of(again) == log
            assert await names(again) == [*before, "before the log was replaced"]
            await (await again.opened()).restore("before the log was replaced")
            assert await log_of(again) == whole
        await again.clear()
        assert await log_of(again) == []
        assert (await names(again))[-1] == "before the log was cleared"


@pytest.mark.parametrize("wrong", [[{"content": "no role"}], "text", None, [7]])
async def test_a_copy_that_is_no_list_of_messages_is_refused_and_changes_nothing(tmp_path, wrong):
    async with resumed(tmp_path, given=[]) as again:
        with pytest.raises(ValueError, match="message"):
            await again.set_messages(wrong)
        assert await log_of(again) == LOG


async def test_a_new_session_in_a_file_takes_what_it_is_given(tmp_path):
    async with mounted({"storage_path": str(tmp_path / "run.db")}) as fresh:
        await fresh.set_messages(LOG)
        assert await fresh.get_messages() == LOG
        await fresh.set_messages(saved_by_host(LOG[:4]))
        assert await fresh.get_messages() == saved_by_host(LOG[:4])
        assert await names(fresh) == ["before the log was replaced"]
