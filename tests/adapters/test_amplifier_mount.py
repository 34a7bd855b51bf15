"""Mounting: values only, as often as the host likes; cleanup at any time."""

import asyncio
import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from amplifier_core.testing import MockCoordinator

import summarizing_context
from summarizing_context import ContextClosedError, SettingsError, WrongEventLoopError, mount, on_session_ready
from tests.adapters.host import mounted, unstamped

HELLO = {"role": "user", "content": "Hello"}


async def test_mounting_twice_makes_no_file_task_or_thread(tmp_path):
    tasks, threads = asyncio.all_tasks(), threading.enumerate()
    config = {"storage_path": str(tmp_path / "run.db"), "persistence": {"required": True}}
    async with mounted(config) as second:
        async with mounted(config) as first:
            assert first is not second
            assert asyncio.all_tasks() == tasks
            assert threading.enumerate() == threads
            assert os.listdir(tmp_path) == []
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
    with pytest.raises(ContextClosedError):
        await coordinator.get("context").get_messages()


async def test_cleanup_may_come_while_the_first_use_is_under_way(tmp_path):
    config = {"storage_path": str(tmp_path / "run.db")}
    async with mounted(config) as manager:
        adding = asyncio.create_task(manager.add_message(HELLO))
        await asyncio.sleep(0)
    outcome = await asyncio.gather(adding, return_exceptions=True)
    assert outcome == [None] or isinstance(outcome[0], ContextClosedError)
    async with mounted(config) as again:
        assert len(await again.get_messages()) == (outcome == [None])


async def test_cleanup_goes_on_where_the_host_gives_up_waiting(tmp_path):
    config, coordinator = {"storage_path": str(tmp_path / "run.db")}, MockCoordinator()
    cleanup = await mount(coordinator, config)
    await coordinator.get("context").add_message(HELLO)
    ending = asyncio.create_task(cleanup())
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    await cleanup()
    async with mounted(config) as again:
        assert unstamped(await again.get_messages()) == [HELLO], "the session was given up"


@pytest.mark.parametrize(("config", "name"), [({}, "test-session"), ({"session_id": "mine"}, "mine")])
async def test_the_session_is_called_as_the_host_calls_it(config, name):
    async with mounted(config) as manager:
        assert manager.session_id == name


async def test_a_coordinator_without_anything_or_with_another_context_will_do():
    mounts: list[Any] = []

    async def take(point: str, manager: Any) -> None:
        mounts.append((point, manager))

    cleanup = await mount(SimpleNamespace(mount=take), {})
    [(point, manager)] = mounts
    assert point == "context"
    await manager.add_message(HELLO)
    assert unstamped(await manager.get_messages_for_request()) == [HELLO]
    await cleanup()
    coordinator = MockCoordinator()
    await on_session_ready(coordinator)
    await coordinator.mount("context", object())
    await on_session_ready(coordinator)


@pytest.mark.parametrize(
    ("config", "words"), [({"max_token": 100}, "did you mean max_tokens"), ({"summarizer": "openai"}, "needs a model")]
)
async def test_options_that_nobody_knows_are_refused_at_once(config, words):
    with pytest.raises(SettingsError, match=words):
        await mount(MockCoordinator(), config)


@pytest.mark.parametrize("place", [".", "file/run.db", "missing/run.db", "x" * 300, "/proc/run.db"])
async def test_a_path_where_no_file_can_be_means_memory_unless_persistence_is_required(tmp_path, place):
    (tmp_path / "file").write_text("notes")
    path, coordinator, told = str(tmp_path / place), MockCoordinator(), []

    async def note(event: str, data: dict[str, Any]) -> None:
        told.append(data["reason"])

    coordinator.hooks.register("context:degraded", note, 0, "note")
    async with mounted({"storage_path": path}, coordinator) as manager:
        await manager.add_message(HELLO)
        assert "in memory only" in manager.statistics().store
    assert len(told) == 1
    assert "its folder does not exist" in told[0] or place != "missing/run.db"
    async with mounted({"persistence": {"path": path, "required": True}}) as manager:
        with pytest.raises(summarizing_context.StoreReadOnlyError):
            await manager.add_message(HELLO)


async def test_a_file_that_may_only_be_read_is_gone_on_from_in_memory(tmp_path, monkeypatch):
    config = {"storage_path": str(tmp_path / "run.db")}
    async with mounted(config) as manager:
        await manager.add_message(HELLO)
    with monkeypatch.context() as patch:
        patch.setattr("summarizing_context.stores.sqlite.store.os.access", lambda *_: False)  # for any user
        async with mounted(config) as manager:
            await manager.add_message({"role": "user", "content": "Go on."})
            assert [row["content"] for row in await manager.get_messages()] == ["Hello", "Go on."]
            assert "in memory only" in manager.statistics().store
    async with mounted(config) as manager:
        assert unstamped(await manager.get_messages()) == [HELLO]


async def test_a_file_that_is_something_else_is_left_as_it_is(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    async with mounted({"storage_path": str(path)}) as manager:
        with pytest.raises(summarizing_context.StoreCorruptError):
            await manager.add_message(HELLO)
    assert path.read_text() == "notes"


@pytest.mark.parametrize("persistence", [{}, {"enabled": True}])
@pytest.mark.parametrize("folder", [True, False])
async def test_persistence_without_a_path_is_the_documented_file_or_memory_where_the_host_has_no_folder(
    tmp_path, monkeypatch, persistence, folder
):
    monkeypatch.setenv("HOME", str(tmp_path))
    if folder:
        (tmp_path / ".amplifier").mkdir()
    async with mounted({"persistence": persistence}) as manager:
        await manager.add_message(HELLO)
        assert (tmp_path / ".amplifier" / "contexts.db").is_file() == folder
        assert ("in memory only" in manager.statistics().store) != folder


@pytest.mark.parametrize("preserve", [True, False])
async def test_system_rows_between_others_are_covered_with_them_where_the_plan_says_so(preserve):
    """Those in front too, but for the prompt of the request."""
    sizes = {"segment_min": 100, "segment_target": 200, "segment_max": 400, "summary_max_tokens": 20}
    async with mounted({"max_tokens": 2_000, **sizes, "preserve_system": preserve}) as manager:
        await manager.add_message({"role": "system", "content": "Be kind."})
        await manager.add_message({"role": "developer", "content": "A context file."})
        for number in range(120):
            await manager.add_message({"role": "user", "content": f"{number} " + "plain words " * 12})
            if number in (20, 119):
                await manager.add_message({"role": "system", "content": f"The branch is main. {number}"})
            if number == 30:
                await manager.add_message({"role": "system", "content": "Never push.", "critical": True})
        view = await manager.get_messages_for_request()
        said = [row["content"] for row in view if row["role"] in ("system", "developer")]
        front, between = ["Be kind.", "A context file."], ["The branch is main. 20"]
        assert sorted(said) == sorted(
            [*(front + between if preserve else []), "Never push.", "The branch is main. 119"]
        )
        await manager.set_system_prompt_factory(lambda: "You are kind.")
        view = await manager.get_messages_for_request()
        assert view[0] == {"role": "system", "content": "You are kind."}
        assert (view[1]["role"] == "developer") == preserve


async def test_a_close_in_another_event_loop_is_refused_and_the_session_can_still_be_closed(tmp_path):
    async with mounted({"storage_path": str(tmp_path / "context.db")}) as manager:
        await manager.add_message({"role": "user", "content": "Begin."})
        with pytest.raises(WrongEventLoopError):
            await asyncio.to_thread(lambda: asyncio.run(manager.close()))
        assert len(await manager.get_messages()) == 1
    async with mounted({"storage_path": str(tmp_path / "context.db")}) as again:
        assert len(await again.get_messages()) == 1
