"""Mounting: a documented plan, options, cleanup at any time, what may stand at the path, and the host's own suites."""

import asyncio
import json
import os
import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock
from xml.etree import ElementTree

import pytest
import yaml
from amplifier_core.testing import MockCoordinator

from summarizing_context import Settings, SettingsError, errors, mount, on_session_ready
from summarizing_context.adapters.amplifier.manager import read_options
from summarizing_context.stores.sqlite.store import APPLICATION_ID
from tests.adapters.host import mounted, session_of, unstamped
from tests.behaviour.contexts import TINY, fill
from tests.docs.checkout import PACKAGE, ROOT, run_python
from tests.laws.builders import system, user

HELLO, MORE = user("Hello"), user("Go on.")


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    return {"storage_path": str(tmp_path / "run.db")}


async def test_mounting_twice_makes_no_file_task_or_thread_and_cleanup_may_come_before_the_first_use_and_twice(
    tmp_path, config
):
    tasks, threads, coordinator = asyncio.all_tasks(), {*threading.enumerate()}, MockCoordinator()
    cleanup = await mount(coordinator, {**config, "persistence": {"required": True}})
    used = coordinator.get("context")
    async with mounted(config) as unused:
        assert unused is not used
        new = {*threading.enumerate()} - threads  # one of an earlier test may end now
        assert (asyncio.all_tasks(), new, os.listdir(tmp_path)) == (tasks, set(), [])
    await used.add_message(HELLO)
    assert unstamped(await used.get_messages()) == [HELLO]
    for _ in range(2):
        await cleanup()
    for manager in (used, unused):
        with pytest.raises(errors.ContextClosedError):
            await manager.get_messages()


@pytest.mark.parametrize("end", ["in the first use", "given up by the host", "refused"])
async def test_any_end_leaves_a_session_that_can_be_opened(config, end):
    async with mounted(config) as manager:
        adding = asyncio.create_task(manager.add_message(HELLO))
        await asyncio.sleep(0) if end == "in the first use" else await adding
        if end == "given up by the host":
            ending = asyncio.create_task(manager.close())
            await asyncio.sleep(0)
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
        elif end == "refused":
            with pytest.raises(errors.WrongEventLoopError):
                await asyncio.to_thread(lambda: asyncio.run(manager.close()))
    (outcome,) = await asyncio.gather(adding, return_exceptions=True)
    assert outcome is None or isinstance(outcome, errors.ContextClosedError)
    async with mounted(config) as again:
        assert unstamped(await again.get_messages()) == ([HELLO] if outcome is None else [])


async def test_the_host_names_the_session_and_a_coordinator_without_anything_or_with_another_context_will_do():
    for named, name in (({}, "test-session"), ({"session_id": "mine"}, "mine")):
        async with mounted(named) as manager:
            assert manager.session_id == name
    bare = SimpleNamespace(mount=AsyncMock())
    cleanup = await mount(bare, {})
    (((point, manager), _),) = bare.mount.await_args_list
    await manager.add_message(HELLO)
    assert (point, unstamped(await manager.get_messages_for_request())) == ("context", [HELLO])
    await cleanup()
    coordinator = MockCoordinator()
    await on_session_ready(coordinator)
    await coordinator.mount("context", object())
    await on_session_ready(coordinator)


@pytest.mark.parametrize("place", [".", "file/run.db", "missing/run.db", "x" * 300, "/proc/run.db"])
async def test_a_path_where_no_file_can_be_means_memory_unless_persistence_is_required(tmp_path, place):
    (tmp_path / "file").write_text("notes")
    path, coordinator, note = str(tmp_path / place), MockCoordinator(), AsyncMock(return_value=None)
    coordinator.hooks.register("context:degraded", note, 0, "note")
    async with mounted({"storage_path": path}, coordinator) as manager:
        await manager.add_message(HELLO)
        assert "in memory only" in manager.statistics().store
    ((_, told),) = (call.args for call in note.await_args_list)
    assert "its folder does not exist" in told["reason"] or place != "missing/run.db"
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
    log = [user(f"{number} " + "plain words " * 12) for number in range(120)]
    critical = system("Never push.") | {"critical": True}
    for at, row in ((120, system("The branch is main. 119")), (31, critical), (21, system("The branch is main. 20"))):
        log.insert(at, row)
    async with mounted({**TINY, "max_tokens": 2_000, "preserve_system": preserve}) as manager:
        await fill(manager, [system("Be kind."), system("A context file.", "developer"), *log])
        view = await manager.get_messages_for_request()
        shown = {row["content"] for row in view if row["role"] in ("system", "developer")}
        covered = {"Be kind.", "A context file.", "The branch is main. 20"}
        assert shown == {"Never push.", "The branch is main. 119", *(covered if preserve else ())}
        await manager.set_system_prompt_factory(lambda: "You are kind.")
        view = await manager.get_messages_for_request()
        assert view[0] == {"role": "system", "content": "You are kind."}
        assert (view[1]["role"] == "developer") == preserve


DEFAULT = str(Path("~/.amplifier/contexts.db").expanduser())


async def refusal(config: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        await mount(MockCoordinator(), config)
    return caught.value.problems


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        *((none, {}) for none in (None, {})),
        ({"compact_threshold": 0.92}, {"high_water": 0.92}),
        ({"compaction_threshold": 0.5}, {"high_water": 0.5}),
        ({"compaction_strategy": "truncate"}, {"strategy": "truncate"}),
        ({"storage_path": "a.db"}, {"store": "a.db"}),
        ({"persistence": {"path": "a.db"}}, {"store": "a.db"}),
        ({"persistence": {"enabled": True, "path": "a.db"}, "storage_path": "a.db"}, {"store": "a.db"}),
        ({"persistence": {"enabled": False, "path": "a.db"}, "storage_path": "b.db"}, {}),
        *(({"persistence": either}, {"store": DEFAULT}) for either in ({}, {"path": ""}, {"enabled": True})),
        ({"persistence": {"enabled": False}}, {}),
        ({"persistence": None, "preserve_system": None}, {}),
        (dict.fromkeys(("storage_path", "max_tokens", "compact_threshold", "session_id", "idle_after")), {}),
        ({"storage_path": "", "idle_after": "never"}, {"idle_after": "never"}),
        ({"semantic_memory": {"enabled": True}}, {"memory_include": "auto", "memory_extract": True}),
        ({"semantic_memory": {"similarity_threshold": 0.7}}, {"similarity_threshold": 0.7}),
        ({"storage_path": "~/a.db"}, {"store": str(Path("~/a.db").expanduser())}),
        ({"max_messages": 40, "keep_recent": 10}, {"max_messages": 40, "keep_recent": 10}),
    ],
)
def test_the_hosts_options_mean_what_its_documents_say(theirs, ours):
    settings = read_options(theirs).settings
    assert (settings, settings.max_tokens_is_set) == (Settings(**ours), False)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"max_tokns": None}, "did you mean max_tokens?"),
        ({"persistence": {"pth": None}}, "did you mean persistence.path?"),
        ({"compact_treshold": 0.9}, "did you mean compact_threshold?"),
        ({"persistence": {7: 1, "path": "x"}}, "a name is a string"),
        ({"persistence": "a.db"}, "allowed: a mapping of enabled, path, required"),
        ({"persistence": {"path": "x", "enabled": "yes"}}, "persistence.enabled = 'yes' is refused"),
        ({"hooks": "later"}, "hooks = 'later' is refused; allowed: one of background, await"),
        ({"preserve_system": "no"}, "preserve_system = 'no' is refused"),
        ({"preserve_system": False, "header_role": "system"}, "needs header_role = 'user'"),
        ({"compact_threshold": 2}, "compact_threshold = 2 is refused"),
        ({"compact_threshold": 0.9, "high_water": 0.8}, "high_water is given twice, as compact_threshold too"),
        ({"storage_path": "a", "persistence": {"path": "b"}}, "storage_path is given twice, as persistence.path too"),
        ({"summarizer": "openai"}, "needs a model"),
        *((wrong, "are a mapping") for wrong in (5, "text", [("max_tokens", 5)])),
    ],
)
async def test_a_refusal_names_the_option_and_says_what_to_do(config, words):
    assert words in "\n".join(await refusal(config))


async def test_all_problems_are_told_at_once_and_no_key_is_shown():
    wrong = {"max_tokens": 0, "nonsense": 1, "persistence": {"path": "x", "enabled": "x"}, "preserve_system": 3}
    assert len(await refusal(wrong)) == 4
    assert "secret-1234" not in str(await refusal({"api_kye": "secret-1234", "api_key": "secret 1234"}))


@pytest.mark.parametrize("language", ["json", "yaml"])
async def test_a_documented_mount_plan_works(language, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".amplifier").mkdir()
    page = (ROOT / "docs" / "integrate" / "amplifier.md").read_text(encoding="utf-8")
    written = re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    plan = yaml.safe_load(written)  # reads JSON too
    async with session_of({}, context=plan["session"]["context"]) as session:
        assert await session.execute("Read.") == "Answer 3."
        context = session.coordinator.get("context")
        assert context.statistics().store == str(tmp_path / ".amplifier" / "contexts.db")


SUITES = """
from amplifier_core.validation.behavioral import ContextBehaviorTests as TestBehaviour
from amplifier_core.validation.structural import ContextStructuralTests as TestStructure
"""


def test_the_hosts_own_suites_pass_and_none_is_skipped(tmp_path):
    (tmp_path / "test_suites.py").write_text(SUITES)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    report = tmp_path / "report.xml"
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-q", f"--junitxml={report}", f"--module-path={PACKAGE}"]
    done = run_python(["-m", "pytest", *options, str(tmp_path)], cwd=tmp_path, env={"PYTEST_ADDOPTS": ""})
    assert done.returncode == 0, done.stdout
    suite = ElementTree.parse(report).getroot().find("testsuite")
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "11", "failures": "0", "errors": "0", "skipped": "0"}
