"""Sessions are exported from any store and imported into any other: nothing is lost, and nothing is paid for again."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings
from summarizing_context.cli import main
from summarizing_context.testing import ScriptedSummarizer
from tests import postgres_server
from tests.behaviour.contexts import begun, said
from tests.laws.builders import Message


@pytest.fixture(params=["sqlite to sqlite", "sqlite to postgres", "postgres to sqlite"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Where sessions come from, and where they go to."""
    if "postgres" in request.param:
        request.getfixturevalue("postgres")
    kinds = zip((tmp_path / "a.db", tmp_path / "b.db"), request.param.split(" to "), strict=True)
    return [postgres_server.address_for(path) if kind == "postgres" else str(path) for path, kind in kinds]


def opened(store: str, model: ScriptedSummarizer | None = None, log: Any = ()) -> Any:
    given = {"store": store, "session_id": "s1", "project": "garden", "max_tokens": 1_500, "count_tokens": None}
    return begun(log, of=Settings, token_counter="estimate", summarizer=model, **given)


LOG = [said(at, "of the tulip. " + "word " * 60) for at in range(30)]


async def filled(store: str, count: int = 30) -> list[Message]:
    """A session with summaries that a model made, a checkpoint, a pin and a memory; its view."""
    async with opened(store, ScriptedSummarizer(recipe="scripted")) as context:
        for at, message in enumerate(LOG[:count]):
            await context.add_message(message)
            await context.get_messages_for_request()
            await context.wait_idle()
            if at == count // 2:
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
    for spoilt in (whole[: len(whole) // 2], "{}", "no JSON", "[]"):
        path.write_text(spoilt)
        assert main(["sessions", "import", str(path), "--store", str(tmp_path / "c.db")]) == 2
        assert "3.jsonl:1: this is no whole session" in " ".join(capsys.readouterr().err.split())
