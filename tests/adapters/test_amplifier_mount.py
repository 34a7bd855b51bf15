"""Mounting: values only, as often as the host likes; cleanup at any time; what may stand at the path of the store."""

import asyncio
import json
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from amplifier_core.testing import MockCoordinator

from summarizing_context import errors, mount, on_session_ready
from summarizing_context.stores.sqlite.store import APPLICATION_ID
from tests.adapters.host import mounted, unstamped
from tests.behaviour.contexts import TINY

HELLO = {"role": "user", "content": "Hello"}
MORE = {"role": "user", "content": "Go on."}


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    return {"storage_path": str(tmp_path / "run.db")}


async def test_mounting_twice_makes_no_file_task_or_thread(tmp_path, config):
    tasks, threads = asyncio.all_tasks(), threading.enumerate()
    async with mounted({**config, "persistence": {"required": True}}) as second:
        async with mounted(config) as first:
            assert first is not second
            assert (asyncio.all_tasks(), threading.enumerate(), os.listdir(tmp_path)) == (tasks, threads, [])
        await second.add_message(HELLO)
        assert unstamped(await second.get_messages()) == [HELLO]


@pytest.mark.parametrize("used", [False, True])
async def test_cleanup_may_come_before_the_first_use_and_twice(used):
    coordinator = MockCoordinator()
    cleanup = await mount(coordinator)
    if used:
        await coordinator.get("context").add_message(HELLO)
    await cleanup()
    await cleanup()
    with pytest.raises(errors.ContextClosedError):
        await coordinator.get("context").get_messages()


async def test_cleanup_may_come_while_the_first_use_is_under_way(config):
    async with mounted(config) as manager:
        adding = asyncio.create_task(manager.add_message(HELLO))
        await asyncio.sleep(0)
    (outcome,) = await asyncio.gather(adding, return_exceptions=True)
    assert outcome is None or isinstance(outcome, errors.ContextClosedError)
    async with mounted(config) as again:
        assert len(await again.get_messages()) == (outcome is None)


async def give_up(manager: Any) -> None:
    ending = asyncio.create_task(manager.close())
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)


async def close_elsewhere(manager: Any) -> None:
    with pytest.raises(errors.WrongEventLoopError):
        await asyncio.to_thread(lambda: asyncio.run(manager.close()))


@pytest.mark.parametrize("close", [give_up, close_elsewhere])
async def test_a_close_that_a_host_gives_up_or_that_is_refused_leaves_a_session_that_can_be_opened(config, close):
    async with mounted(config) as manager:
        await manager.add_message(HELLO)
        await close(manager)
    async with mounted(config) as again:
        assert unstamped(await again.get_messages()) == [HELLO]


async def test_the_host_names_the_session_and_a_coordinator_without_anything_or_with_another_context_will_do():
    mounts: dict[str, Any] = {}

    async def take(point: str, manager: Any) -> None:
        mounts[point] = manager

    for named, name in (({}, "test-session"), ({"session_id": "mine"}, "mine")):
        async with mounted(named) as manager:
            assert manager.session_id == name
    cleanup = await mount(SimpleNamespace(mount=take), {})
    await mounts["context"].add_message(HELLO)
    assert unstamped(await mounts["context"].get_messages_for_request()) == [HELLO]
    await cleanup()
    coordinator = MockCoordinator()
    await on_session_ready(coordinator)
    await coordinator.mount("context", object())
    await on_session_ready(coordinator)


@pytest.mark.parametrize("place", [".", "file/run.db", "missing/run.db", "x" * 300, "/proc/run.db"])
async def test_a_path_where_no_file_can_be_means_memory_unless_persistence_is_required(tmp_path, place):
    (tmp_path / "file").write_text("notes")
    path, coordinator, reasons = str(tmp_path / place), MockCoordinator(), []

    async def note(event: str, data: dict[str, Any]) -> None:
        reasons.append(data["reason"])

    coordinator.hooks.register("context:degraded", note, 0, "note")
    async with mounted({"storage_path": path}, coordinator) as manager:
        await manager.add_message(HELLO)
        assert "in memory only" in manager.statistics().store
    (reason,) = reasons
    assert "its folder does not exist" in reason or place != "missing/run.db"
    async with mounted({"persistence": {"path": path, "required": True}}) as manager:
        with pytest.raises(errors.StoreReadOnlyError):
            await manager.add_message(HELLO)


@pytest.mark.parametrize("is_list", [False, True])
async def test_a_file_that_may_only_be_read_is_gone_on_from_in_memory(tmp_path, config, monkeypatch, is_list):
    path = tmp_path / "run.db"
    if is_list:
        path.write_text(json.dumps([HELLO]))
    else:
        async with mounted(config) as manager:
            await manager.add_message(HELLO)
    before = path.read_bytes()
    monkeypatch.setattr("summarizing_context.stores.sqlite.store.os.access", lambda *_: False)  # for any user
    async with mounted(config) as manager:
        await manager.add_message(MORE)
        assert unstamped(await manager.get_messages()) == [HELLO, MORE]
        assert "in memory only" in manager.statistics().store
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["notes", '[{"role": "user"', '{"a": 1}', "[5]"])
async def test_a_file_that_is_neither_a_store_nor_a_list_of_messages_is_left_as_it_is(tmp_path, config, text):
    (tmp_path / "run.db").write_text(text)
    async with mounted(config) as manager:
        with pytest.raises(errors.MessageError if text == "[5]" else errors.StoreCorruptError):
            await manager.get_messages()
    assert (tmp_path / "run.db").read_text() == text


@pytest.mark.parametrize(
    "text",
    ["\ufeff\n " + json.dumps([HELLO, MORE], indent=2), json.dumps([HELLO, {**MORE, "cost": float("nan")}]), "[]"],
)
async def test_the_list_of_the_hosts_own_documents_is_taken_over_once_and_kept(tmp_path, config, text):
    (tmp_path / "run.db").write_text(text, encoding="utf-8")
    for turn in range(3):
        async with mounted({**config, "session_id": "s"}) as manager:
            assert len(await manager.get_messages()) == (0 if text == "[]" else 2) + turn
            await manager.add_message(MORE)
            assert manager.statistics().store.endswith("run.db.db")
    assert (tmp_path / "run.db").read_text(encoding="utf-8") == text
    async with mounted({**config, "session_id": "another"}) as other:
        assert await other.get_messages() == [], "the list belongs to the session that took it over"


@pytest.mark.parametrize("how", ["empty", "marked", "without a message"])
async def test_a_crash_before_the_messages_of_a_list_were_kept_takes_them_over_again(tmp_path, config, how):
    store = tmp_path / "run.db.db"
    (tmp_path / "run.db").write_text(json.dumps([HELLO, MORE]))
    if how == "without a message":
        async with mounted({"storage_path": str(store)}) as empty:
            assert await empty.get_messages() == []
    store.touch()
    if how == "marked":
        with closing(sqlite3.connect(store)) as connection:
            connection.execute(f"pragma application_id = {APPLICATION_ID:d}")
    async with mounted(config) as manager:
        assert unstamped(await manager.get_messages()) == [HELLO, MORE]
        assert manager.statistics().store == str(store)


@pytest.mark.parametrize("preserve", [True, False])
async def test_system_rows_between_others_are_covered_with_them_where_the_plan_says_so(preserve):
    """Those in front too, but for the prompt of the request."""
    between = {
        20: {"content": "The branch is main. 20"},
        30: {"content": "Never push.", "critical": True},
        119: {"content": "The branch is main. 119"},
    }
    async with mounted({**TINY, "max_tokens": 2_000, "preserve_system": preserve}) as manager:
        await manager.add_message({"role": "system", "content": "Be kind."})
        await manager.add_message({"role": "developer", "content": "A context file."})
        for number in range(120):
            await manager.add_message({"role": "user", "content": f"{number} " + "plain words " * 12})
            if number in between:
                await manager.add_message({"role": "system", **between[number]})
        view = await manager.get_messages_for_request()
        shown = {row["content"] for row in view if row["role"] in ("system", "developer")}
        covered = {"Be kind.", "A context file.", "The branch is main. 20"}
        assert shown == {"Never push.", "The branch is main. 119", *(covered if preserve else ())}
        await manager.set_system_prompt_factory(lambda: "You are kind.")
        view = await manager.get_messages_for_request()
        assert view[0] == {"role": "system", "content": "You are kind."}
        assert (view[1]["role"] == "developer") == preserve
