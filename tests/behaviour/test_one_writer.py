"""A session in its store has one writer; it is exported from any store and imported into any other."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import SessionInUseError, Settings
from summarizing_context.cli import main
from summarizing_context.testing import ScriptedSummarizer
from tests import postgres_server
from tests.behaviour.contexts import begun, said
from tests.laws.builders import Message, user

WRITER = """
import asyncio, sys
from summarizing_context import Settings, SummarizingContextError, open_context

async def main():
    async with open_context(Settings(store=sys.argv[1], session_id="s", token_counter="estimate")) as context:
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                await context.add_message({"role": "user", "content": line.strip()})
                print("added", flush=True)
            except SummarizingContextError as error:
                print(type(error).__name__, flush=True)

asyncio.run(main())
"""


@contextmanager
def writer(store: Path) -> Iterator[tuple[subprocess.Popen[str], Callable[[str], str]]]:
    """Another process that has the session open for writing and has added "one"; it adds texts and says how it went."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        late = threading.Timer(120, process.kill)
        late.start()

        def say(text: str) -> str:
            print(text, file=process.stdin, flush=True)
            return process.stdout.readline().strip()

        try:
            assert say("one") == "added"
            yield process, say
        finally:
            late.cancel()
            process.kill()


async def texts(store: Path, *added: str) -> list[object]:
    """What the session holds once this was added."""
    given = {"store": str(store), "session_id": "s", "count_tokens": None}
    async with begun(map(user, added), of=Settings, **given) as context:
        return [message["content"] for message in await context.get_messages()]


def locks(folder: Path) -> list[Path]:
    return list(folder.glob("*.lock"))


def remove_locks(folder: Path) -> None:
    for lock in locks(folder):
        lock.unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the first writer fails")
async def test_a_second_writer_is_refused_after_the_lock_file_was_removed_and_the_first_goes_on(tmp_path: Path):
    store = tmp_path / "run.db"
    with writer(store) as (first, say):
        for _ in range(2):
            remove_locks(tmp_path)
            with pytest.raises(SessionInUseError, match=str(first.pid)):
                await texts(store, "other")
        assert say("two") == "added"
    assert await texts(store, "three") == ["one", "two", "three"]  # which takes it over without its lock file


async def test_a_session_whose_writer_was_killed_is_taken_over(tmp_path: Path):
    with writer(tmp_path / "run.db"):
        pass  # which kills it
    async with begun(of=Settings, store=tmp_path / "run.db", session_id="other"):
        assert len(locks(tmp_path)) == 1  # its own: that of the dead is gone
    assert await texts(tmp_path / "run.db", "two") == ["one", "two"]


async def test_a_writer_that_lost_its_session_to_another_writes_nothing_more(tmp_path: Path):
    """As on a system that does not tell which files a process has open: there the lock file of the first is gone."""
    store = tmp_path / "run.db"
    with writer(store) as (first, say):
        first.send_signal(signal.SIGSTOP)
        (lock,) = store.parent.glob("*.lock")
        lock.rename(tmp_path / "moved away")
        await texts(store, "two")
        first.send_signal(signal.SIGCONT)
        assert say("three") == "StoreError"
    assert await texts(store) == ["one", "two"]


# Sessions that move: nothing is lost, and nothing is paid for again.


@pytest.fixture(params=["sqlite to sqlite", "sqlite to postgres", "postgres to sqlite"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Where sessions come from, and where they go to."""
    if "postgres" in request.param:
        request.getfixturevalue("postgres")
    kinds = zip((tmp_path / "a.db", tmp_path / "b.db"), request.param.split(" to "), strict=True)
    return [postgres_server.address_for(path) if kind == "postgres" else str(path) for path, kind in kinds]


def opened(store: str, model: ScriptedSummarizer | None = None, log: Any = ()) -> Any:
    given = {"store": store, "session_id": "s1", "project": "garden", "max_tokens": 1_500, "count_tokens": None}
    return begun(log, of=Settings, summarizer=model, **given)


LOG = [said(at, "of the tulip. " + "word " * 60) for at in range(30)]


async def filled(store: str) -> list[Message]:
    """A session with summaries that a model made, a checkpoint, a pin and a memory; its view."""
    async with opened(store, ScriptedSummarizer(recipe="scripted")) as context:
        for at, message in enumerate(LOG):
            await context.add_message(message)
            await context.get_messages_for_request()
            await context.wait_idle()
            if at == 15:
                await context.checkpoint("half")
        await context.pin("The gate is green.")
        await context.memory.store("Ana owns the garden.")
        return await context.get_messages_for_request()


async def view(store: str) -> tuple[list[Message], int]:
    """The view of the session there, and how often a model was asked for it."""
    async with opened(store, model := ScriptedSummarizer(recipe="scripted")) as context:
        shown = await context.get_messages_for_request()
        await context.wait_idle()
        return shown, len(model.jobs)


def moved(source: str, target: str, path: Path) -> int:
    assert main(["sessions", "export", "all", "--store", source, "--out", str(path)]) == 0
    return main(["sessions", "import", str(path), "--store", target])


def test_an_imported_session_is_shown_as_it_was_and_no_summary_is_paid_for_again(places, tmp_path: Path):
    source, target = places
    before = anyio.run(filled, source)
    assert anyio.run(view, source) == (before, 0)
    assert any("0: of" not in str(row) and "word word" not in str(row) for row in before)  # it holds summaries
    assert moved(source, target, tmp_path / "all.jsonl") == 0
    assert anyio.run(view, target) == (before, 0)

    async def look() -> None:  # what goes along: checkpoints, pins, memories, words to search
        async with opened(target) as context:
            assert [(one.name, one.seq) for one in await context.list_checkpoints()] == [("half", 16)]
            assert "The gate is green." in str(await context.get_messages_for_request())
            assert [one.content for one in await context.memory.retrieve("who owns it")] == ["Ana owns the garden."]
            hits = await context.search("tulip", limit=50)
            assert {hit.start for hit in hits if hit.kind == "message"} == {*range(30)}
            await context.restore("half")
            assert len(context) == 16

    anyio.run(look)


def test_an_import_goes_on_from_what_is_there_and_refuses_another_session_of_that_name(tmp_path, capsys):
    source, target = str(tmp_path / "a.db"), str(tmp_path / "b.db")

    async def add(store: str, *log: Message) -> int:
        async with opened(store, log=log) as context:
            return len(context)

    anyio.run(add, source, LOG[0], LOG[1])
    assert moved(source, target, tmp_path / "1.jsonl") == 0
    anyio.run(add, source, LOG[2])
    assert moved(source, target, tmp_path / "2.jsonl") == 0
    assert anyio.run(add, target) == 3
    anyio.run(add, target, LOG[3])
    assert main(["sessions", "import", str(tmp_path / "1.jsonl"), "--store", target]) == 0  # an older one takes nothing
    assert anyio.run(add, target) == 4
    anyio.run(add, source, LOG[5])
    capsys.readouterr()
    assert moved(source, target, tmp_path / "3.jsonl") == 2
    assert "session 's1' has other messages" in capsys.readouterr().err
    assert anyio.run(add, target) == 4
    # what is no whole export is refused with its line
    path = tmp_path / "3.jsonl"
    whole = path.read_text()
    edited = ({**json.loads(whole), "activations": [["", 5]]}, {**json.loads(whole), "pins": '{"pins": 1}'})
    for spoilt in (whole[: len(whole) // 2], "{}", "no JSON", "[]", *map(json.dumps, edited)):
        path.write_text(spoilt)
        assert main(["sessions", "import", str(path), "--store", str(tmp_path / "c.db")]) == 2
        assert "3.jsonl:1: this is no whole session" in " ".join(capsys.readouterr().err.split())
    anyio.run(view, str(tmp_path / "c.db"))  # it can be opened
