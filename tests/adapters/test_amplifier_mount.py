"""Mounting: values only, as often as the host likes; cleanup at any time."""

from __future__ import annotations

import asyncio
import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from amplifier_core.testing import MockCoordinator

import summarizing_context
from summarizing_context import ContextClosedError, SettingsError, mount, on_session_ready
from tests.adapters.host import unstamped

HELLO = {"role": "user", "content": "Hello"}


async def mounted(config: Any = None) -> tuple[Any, Any]:
    """A manager on the host's own test coordinator, and its cleanup."""
    coordinator = MockCoordinator()
    cleanup = await mount(coordinator, config)
    return coordinator.get("context"), cleanup


async def test_mounting_twice_makes_no_file_task_or_thread(tmp_path):
    tasks, threads = asyncio.all_tasks(), threading.enumerate()
    config = {"storage_path": str(tmp_path / "run.db"), "persistence": {"required": True}}
    first, end_first = await mounted(config)
    second, end_second = await mounted(config)
    assert first is not second
    assert asyncio.all_tasks() == tasks
    assert threading.enumerate() == threads
    assert os.listdir(tmp_path) == []
    await end_first()
    await second.add_message(HELLO)
    assert unstamped(await second.get_messages()) == [HELLO]
    await end_second()


async def test_cleanup_may_come_before_the_first_use_and_twice():
    _, cleanup = await mounted()
    await cleanup()
    await cleanup()
    manager, cleanup = await mounted()
    await manager.add_message(HELLO)
    await cleanup()
    await cleanup()
    with pytest.raises(ContextClosedError):
        await manager.get_messages()


async def test_cleanup_may_come_while_the_first_use_is_under_way(tmp_path):
    manager, cleanup = await mounted({"storage_path": str(tmp_path / "run.db")})
    adding = asyncio.create_task(manager.add_message(HELLO))
    await asyncio.sleep(0)
    await cleanup()
    outcome = await asyncio.gather(adding, return_exceptions=True)
    assert outcome == [None] or isinstance(outcome[0], ContextClosedError)
    again, cleanup = await mounted({"storage_path": str(tmp_path / "run.db")})
    assert len(await again.get_messages()) == (outcome == [None])
    await cleanup()


async def test_cleanup_goes_on_where_the_host_gives_up_waiting(tmp_path):
    config = {"storage_path": str(tmp_path / "run.db")}
    manager, cleanup = await mounted(config)
    await manager.add_message(HELLO)
    ending = asyncio.create_task(cleanup())
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    await cleanup()
    again, cleanup = await mounted(config)
    assert unstamped(await again.get_messages()) == [HELLO], "the session was given up"
    await cleanup()


async def test_the_session_is_called_as_the_host_calls_it():
    manager, _ = await mounted()
    assert manager.session_id == "test-session"
    named, _ = await mounted({"session_id": "mine"})
    assert named.session_id == "mine"


async def test_a_coordinator_without_anything_will_do():
    mounts: list[Any] = []

    async def take(point: str, manager: Any) -> None:
        mounts.append((point, manager))

    cleanup = await mount(SimpleNamespace(mount=take), {})
    assert [point for point, _ in mounts] == ["context"]
    await mounts[0][1].add_message(HELLO)
    assert unstamped(await mounts[0][1].get_messages_for_request()) == [HELLO]
    await cleanup()


async def test_on_session_ready_leaves_another_context_alone():
    coordinator = MockCoordinator()
    await on_session_ready(coordinator)
    await coordinator.mount("context", object())
    await on_session_ready(coordinator)


async def test_options_that_nobody_knows_are_refused_at_once():
    with pytest.raises(SettingsError, match="did you mean max_tokens"):
        await mount(MockCoordinator(), {"max_token": 100})
    with pytest.raises(SettingsError, match="needs a model"):
        await mount(MockCoordinator(), {"summarizer": "openai"})


@pytest.mark.parametrize("place", [".", "file/run.db", "missing/run.db", "x" * 300, "/proc/run.db"])
async def test_a_path_where_no_file_can_be_means_memory_unless_persistence_is_required(tmp_path, place):
    (tmp_path / "file").write_text("notes")
    manager, cleanup = await mounted({"storage_path": str(tmp_path / place)})
    await manager.add_message(HELLO)
    assert "in memory only" in manager.statistics().store
    await cleanup()
    manager, cleanup = await mounted({"persistence": {"path": str(tmp_path / place), "required": True}})
    with pytest.raises(summarizing_context.StoreReadOnlyError):
        await manager.add_message(HELLO)
    await cleanup()


async def test_a_file_that_may_only_be_read_is_gone_on_from_in_memory(tmp_path, monkeypatch):
    path = str(tmp_path / "run.db")
    manager, cleanup = await mounted({"storage_path": path})
    await manager.add_message(HELLO)
    await cleanup()
    monkeypatch.setattr("summarizing_context.stores.sqlite.store.os.access", lambda *_: False)  # for any user
    manager, cleanup = await mounted({"storage_path": path})
    await manager.add_message({"role": "user", "content": "Go on."})
    assert [row["content"] for row in await manager.get_messages()] == ["Hello", "Go on."]
    assert "in memory only" in manager.statistics().store
    await cleanup()
    monkeypatch.undo()
    manager, cleanup = await mounted({"storage_path": path})
    assert unstamped(await manager.get_messages()) == [HELLO]
    await cleanup()


async def test_a_file_that_is_something_else_is_left_as_it_is(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    manager, cleanup = await mounted({"storage_path": str(path)})
    with pytest.raises(summarizing_context.StoreCorruptError):
        await manager.add_message(HELLO)
    await cleanup()
    assert path.read_text() == "notes"


async def test_a_degraded_session_tells_the_hooks(tmp_path):
    coordinator, seen = MockCoordinator(), []

    async def note(event: str, data: dict[str, Any]) -> None:
        seen.append(data["reason"])

    coordinator.hooks.register("context:degraded", note, 0, "note")
    cleanup = await mount(coordinator, {"storage_path": str(tmp_path / "missing" / "run.db")})
    await coordinator.get("context").add_message(HELLO)
    await cleanup()
    assert len(seen) == 1
    assert "its folder does not exist" in seen[0]


@pytest.mark.parametrize("persistence", [{}, {"enabled": True}])
@pytest.mark.parametrize("folder", [True, False])
async def test_persistence_without_a_path_is_the_documented_file_or_memory_where_the_host_has_no_folder(
    tmp_path, monkeypatch, persistence, folder
):
    monkeypatch.setenv("HOME", str(tmp_path))
    if folder:
        (tmp_path / ".amplifier").mkdir()
    manager, cleanup = await mounted({"persistence": persistence})
    await manager.add_message(HELLO)
    figures = manager.statistics()
    assert (tmp_path / ".amplifier" / "contexts.db").is_file() == folder
    assert ("in memory only" in figures.store) != folder
    await cleanup()


@pytest.mark.parametrize("preserve", [True, False])
async def test_system_rows_between_others_are_covered_with_them_where_the_plan_says_so(preserve):
    config = {"max_tokens": 2_000, "segment_min": 100, "segment_target": 200, "segment_max": 400}
    manager, cleanup = await mounted({**config, "summary_max_tokens": 20, "preserve_system": preserve})
    late = {"role": "system", "content": "The branch is main."}
    kept = {"role": "system", "content": "Never push.", "critical": True}
    await manager.add_message({"role": "system", "content": "Be kind."})
    for number in range(120):
        await manager.add_message({"role": "user", "content": f"{number} " + "plain words " * 12})
        if number in (20, 119):
            await manager.add_message({**late, "content": f"{late['content']} {number}"})
        if number == 30:
            await manager.add_message(kept)
    said = [row["content"] for row in await manager.get_messages_for_request() if row["role"] == "system"]
    between = ["The branch is main. 20"] if preserve else []
    assert sorted(said) == sorted(
        [*(["Be kind."] if preserve else []), *between, "Never push.", "The branch is main. 119"]
    )
    await cleanup()
