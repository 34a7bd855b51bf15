"""A context on a store that a program gives it: the session goes on in another store at the same place."""

from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from summarizing_context import SessionInUseError, Settings, SettingsError, StoreError, open_context
from tests.contract.store_builders import make_store, opened
from tests.laws.builders import assistant, user

pytestmark = pytest.mark.usefixtures("backend")
SETTINGS = Settings(max_tokens=4_000, session_id="s", project="p")


async def open_store(path: Path | str) -> Any:
    store = make_store(path)
    await store.open()
    return store


async def test_a_session_goes_on_in_a_given_store(tmp_path):
    path = tmp_path / "run.db"
    store = await open_store(path)
    async with open_context(SETTINGS, store=store) as context:
        assert context.statistics().store == store.name
        for number in range(100):
            await context.add_message(user(f"Step {number}: the tulip of bed {number}. " * 5))
            await context.add_message(assistant("Planted."))
        await context.wait_idle()
        await context.pin("The gate is green.")
        await context.memory.store("Ana owns the garden.")
        view = await context.get_messages_for_request()
        mark = await context.checkpoint("planted")
        await context.set_messages([user("Something else")])
    async with open_context(SETTINGS, store=await open_store(path)) as context:
        assert await context.get_messages() == [user("Something else")]
        await context.restore(mark)
        assert len(context) == 200
        assert await context.get_messages_for_request() == view
        assert [pin.text for pin in context.pins()] == ["The gate is green."]
        assert {hit.start for hit in await context.search("tulip", limit=10) if hit.kind == "message"}
        assert [memory.content for memory in await context.memory.retrieve("garden")] == ["Ana owns the garden."]


async def test_a_title_is_the_beginning_of_what_the_person_wrote_first_as_of_the_last_request(tmp_path):
    async with open_context(SETTINGS, store=await open_store(tmp_path / "run.db")) as context:

        async def title() -> str | None:
            await context.get_messages_for_request()
            async with opened(tmp_path / "run.db") as store:
                (info,) = await store.sessions()
            return info.title

        await context.add_message(assistant("How can I help?"))
        assert await title() is None
        await context.add_message(user("Mend the parser.\n" + "It stops at every second line. " * 9))
        assert await title() == "Mend the parser. It stops at every second line. It stops at…"
        for text in ("请帮我修复登录页面的错误" * 9, "https://example.com/" + "x" * 90, "x" * 60):
            await context.set_messages([user(text)])
            assert await title() == (text if len(text) <= 60 else f"{text[:59]}…")


@pytest.mark.parametrize(
    ("settings", "more", "error", "words"),
    [
        (Settings(summarizer="host"), {}, SettingsError, "mounted under Amplifier"),
        (SETTINGS, {"summarizer": "a word"}, SettingsError, None),
        (SETTINGS, {}, SessionInUseError, None),
    ],
)
async def test_a_given_store_is_closed_once_when_the_context_does_not_open(tmp_path, settings, more, error, words):
    async with opened(tmp_path / "run.db", "s"):
        store = await open_store(tmp_path / "run.db")
        store.close = AsyncMock(wraps=store.close)
        with pytest.raises(error, match=words):
            async with open_context(settings, store=store, **more):
                pass
        with pytest.raises(StoreError):
            await store.sessions()
    store.close.assert_awaited_once()


class Half:
    async def claim(self, session_id: str) -> None: ...


@pytest.mark.parametrize(
    ("store", "words"), [("run.db", r"Settings\(store=\)"), (Half(), r"Half and lacks append, .*, name, ")]
)
async def test_what_is_no_store_is_refused_with_what_it_lacks(store, words):
    with pytest.raises(SettingsError, match=words):
        async with open_context(SETTINGS, store=store):
            pass
