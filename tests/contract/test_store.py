"""What every store promises, whatever it keeps things in, and a context on a store that a program gives it."""

import asyncio
import os
import threading
from dataclasses import replace
from datetime import datetime
from typing import Any
from unittest.mock import AsyncMock

import hypothesis
import pytest
from hypothesis import strategies as st

from summarizing_context import Settings, SettingsError, open_context
from summarizing_context.errors import SessionInUseError, StoreError, StoreReadOnlyError, WrongEventLoopError
from summarizing_context.stores import base
from tests.contract.store_builders import entries, entry, key, log_of, make_store, nothing, numbered, opened, summary
from tests.laws.builders import assistant, user

pytestmark = pytest.mark.usefixtures("backend")
OWN, OF_ALL = base.MemoryScope(None, "s"), base.MemoryScope("p", "s")


async def test_entries_come_back_in_order_and_byte_for_byte(store):
    """Each in the log of its session, also where several append at once."""
    odd = [
        base.StoredEntry(b"\xff\x00\xfe", b""),
        base.StoredEntry(b"", b"\x00"),
        base.StoredEntry(b"\xed\xa0\x80", b"surrogate"),
    ]
    await store.append("s", odd[:1], nothing)
    await store.append("s", odd[1:], nothing)
    await asyncio.gather(*(store.append(name, entries(name + str(i)), nothing) for i in range(3) for name in "st"))
    assert (await store.load("s")).entries == [*odd, *numbered(3, "s")]
    assert await log_of(store, "t") == ["t0", "t1", "t2"]


async def test_facts_are_replaced_beside_their_messages_on_every_branch_of_the_log(store):
    await store.append("s", entries("a", "b", "c"), nothing)
    await store.replace("s", 2, entries("d"), nothing)  # "d" lies on another branch than "a" and "b"
    found = [base.StoredEntry(name, b"facts of " + name.upper()) for name in (b"b", b"d", b"c")]
    await store.save_facts("s", [(1, found[0]), (2, found[1])])
    await store.save_facts("s", [(0, found[1]), (2, found[2])])  # other messages stand there
    await store.save_facts("s", [])
    kept = [(entry.message, entry.facts) for entry in (await store.load("s")).entries]
    assert kept == [(b"a", b"facts of a"), (b"b", b"facts of B"), (b"d", b"facts of D")]


def memory(content: str) -> base.StoredMemory:
    return base.StoredMemory("", content, {}, "", "")


async def test_a_session_has_one_writer(path):
    """Others are refused, in what they write as well."""
    async with opened(path, "s") as writer, opened(path) as other:
        for store in (writer, other):
            with pytest.raises(SessionInUseError) as raised:
                await store.claim("s")
            assert raised.value.pid == os.getpid()
        await other.claim("another")
        await writer.append("s", numbered(2), nothing)
        made = await writer.save_checkpoint("s", base.Present(0, 2, None, []))
        (kept,) = await base.keep_memories(writer, OWN, [base.NewMemory("Mine.", {})])
        edits = (
            lambda held, _: held.update(x=memory("Of another host.")),
            lambda held, _: held.update({kept.id: memory("Other.")}),
            lambda held, _: held.clear(),
        )
        for write in (
            lambda: other.append("s", entries("x"), nothing),
            lambda: other.replace("s", 0, entries("x"), nothing),
            lambda: other.save_activation("s", "p", b"state"),
            lambda: other.save_pins("s", "pins", nothing),
            lambda: other.save_checkpoint("s", base.Present(0, 2, None, [])),
            lambda: other.delete_checkpoint("s", made.id),
            lambda: writer.replace("s", 3, [], nothing),  # more than there is
            *(lambda edit=edit: other.edit_memories(OWN, edit) for edit in edits),
        ):
            with pytest.raises(StoreError):
                await write()
        with pytest.raises(SessionInUseError):
            await other.delete_session("s")
        listed = {one.session_id: one.writer_pid for one in await other.sessions()}
        assert listed == dict.fromkeys(("s", "another"), os.getpid())  # whoever asks
        assert [one.content for one in await other.memories(OWN)] == ["Mine."]
        await base.keep_memories(other, OF_ALL, [base.NewMemory("Ours.", {})])
        assert [one.content for one in await writer.memories(OF_ALL)] == ["Ours."]
        found = await writer.load("s")
        assert (len(found.entries), found.activations, found.pins) == (2, [], "")
        assert await writer.checkpoints("s") == [made]


async def test_a_session_keeps_its_project_until_a_claim_names_another(tmp_path):
    for project, kept in (("p", "p"), (None, "p"), ("q", "q")):
        async with opened(tmp_path / "run.db") as store:
            await store.claim("s", project=project)
            assert (await store.load("s")).project == kept


async def test_sessions_are_listed_with_all_that_is_known_of_them_the_newest_change_first(where):
    async with opened(where, "old", "new") as store:
        await store.claim("middle", project="p")
        for name in ("old", "middle", "new"):
            await store.append(name, numbered(2), nothing)
        for budget, title, fixed, failed, error, at in (
            (8_000, None, 0, 2, "TimeoutError", "2026-11-01"),
            (16_000, "Mend the parser.", 900, 1, "OSError", "2026-11-02"),
        ):
            await store.save_request("new", budget, title, fixed)
            await store.save_failure("new", base.StoredFailure(failed, error, at))
        await store.save_summary("new", key(1), summary("text"))
        listed = await store.sessions()
        made = await store.save_checkpoint("new", base.Present(0, 0, None, []))
        await store.fork("new", made.id, "fork")  # begins with what is known of the last request
        requests = {one.session_id: (one.budget, one.title) for one in await store.sessions()}
        assert requests["fork"] == (16_000, "Mend the parser.")
        loaded = [await store.load(name) for name in ("new", "fork", "old")]
        assert [one and one.fixed_tokens for one in loaded] == [900, 900, 0]
    own = ("project", "messages", "summaries", "writer_pid", "budget", "title", "failed", "last_error", "last_error_at")
    assert [(one.session_id, *(getattr(one, name) for name in own)) for one in listed] == [
        ("new", None, 2, 1, os.getpid(), 16_000, "Mend the parser.", 3, "OSError", "2026-11-02"),
        ("middle", "p", 2, 0, os.getpid(), None, None, 0, None, None),
        ("old", None, 2, 0, os.getpid(), None, None, 0, None, None),
    ]
    for one in listed:
        created, updated = (datetime.fromisoformat(text) for text in (one.created_at, one.updated_at))
        assert created.utcoffset() == updated.utcoffset() == datetime.fromisoformat("2000-01-01T00Z").utcoffset()
        assert created < updated


async def test_a_refused_entry_fails_alone_without_a_callback_and_its_error_does_not_repeat_it(store):
    called: list[object] = []
    for bad in (["secret"], {"text": "secret"}, "secret \ud800", 1 << 70):
        first, error, last = await asyncio.gather(
            store.append("s", entries("good"), lambda: called.append("first")),
            store.append("s", [entry("good"), base.StoredEntry(bad, b"")], lambda: called.append("bad")),
            store.append("s", entries("good"), lambda: called.append("last")),
            return_exceptions=True,
        )
        assert (first, type(error), last) == (None, StoreError, None)
        assert "secret" not in f"{error} {error.__cause__!r}"
    assert called == ["first", "last"] * 4
    assert await log_of(store) == ["good", "good"] * 4


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("method", ["append", "replace"])
async def test_a_cancelled_write_has_happened_in_both_places_or_in_neither(store, method, turns):
    called: list[str] = []

    async def write() -> None:
        place = [1] if method == "replace" else []
        await getattr(store, method)("s", *place, entries("b", "c"), lambda: called.append("done"))

    await store.append("s", entries("a"), nothing)
    task = asyncio.get_running_loop().create_task(write())
    for _ in range(turns):  # 0: before it began; then in the queue, or already there
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert (await log_of(store), called) == ((["a", "b", "c"], ["done"]) if turns else (["a"], []))


async def test_what_a_cancelled_call_claimed_is_free_once_its_store_is_closed(path):
    async with opened(path), opened(path) as store:
        claiming = asyncio.ensure_future(store.claim("s"))
        await asyncio.sleep(0)
        claiming.cancel()
        await store.close()
        async with opened(path, read_only=True) as other:
            assert [info.writer_pid for info in await other.sessions()] == [None]


@hypothesis.settings(max_examples=12, deadline=None)
@hypothesis.given(st.lists(st.tuples(st.none() | st.integers(0, 30), st.integers(0, 4)), max_size=25))
def test_a_log_is_what_a_list_would_be(steps):
    async def follow() -> None:
        model: list[str] = []
        async with opened(":memory:", "s") as store:
            for number, (keep, count) in enumerate(steps):
                new = [f"{number}-{i}" for i in range(count)]
                if keep is None:
                    model += new
                    await store.append("s", entries(*new), nothing)
                else:
                    keep = min(keep, len(model))
                    model[keep:] = new
                    await store.replace("s", keep, entries(*new), nothing)
                assert await log_of(store) == model
            await store.purge()
            assert await log_of(store) == model

    asyncio.run(follow())


async def test_states_of_activations_come_back_and_a_replaced_log_keeps_what_they_were(store):
    """Of each session the newest states of the four newest provider keys, and the state before each activation."""
    await store.save_activation("t", "p1", b"of another session")
    for name, state in [("p1", b"1"), ("p2", b"2"), ("p1", b"1b"), ("p3", b"3"), ("p4", b"4"), ("p5", b"\x00\xff")]:
        await store.save_activation("s", name, state)
    assert (await store.load("s")).activations == [("p1", b"1b"), ("p3", b"3"), ("p4", b"4"), ("p5", b"\x00\xff")]
    assert (await store.load("t")).activations == [("p1", b"of another session")]
    await store.append("s", numbered(4), nothing)
    await store.save_activation("s", "p", b"one", base.NewActivation(1, "{}", before=b"none"))
    await store.save_activation("s", "q", b"two", base.NewActivation(2, "{}"))
    await store.save_activation("s", "p", b"none", base.NewActivation(3, "{}", before=b"one", undoes=1))
    assert [await store.state_before("s", number) for number in (1, 2, 3, 4)] == [b"none", None, b"one", None]
    await store.replace("s", 2, entries("x"), nothing)
    listed = (await store.load("s")).history
    told = [(one.number, one.provider_key, one.has_before, one.is_undone, one.log_version) for one in listed]
    assert told == [(1, "p", True, True, 0), (2, "q", False, False, 0), (3, "p", True, False, 0)]
    assert (await store.load("s")).activations == []


async def test_what_is_opened_to_be_read_is_not_written(path):
    async with opened(path, "s") as store:
        await store.append("s", entries("a"), nothing)
        await store.save_summary("s", key(1), summary("text"))
    async with opened(path, read_only=True) as store:
        assert await store.find_summaries("s", {key(1): None}) == {key(1): summary("text")}
        for write, given in ((store.claim, ()), (store.append, (entries("b"), nothing)), (store.delete_session, ())):
            with pytest.raises(StoreReadOnlyError):
                await write("s", *given)
        assert await log_of(store) == ["a"]


async def test_the_first_summary_of_a_key_wins_and_is_returned(store):
    assert await store.save_summary("s", key(1), summary("first")) == summary("first")
    assert await store.save_summary("t", key(1), summary("second")) == summary("first")
    assert await store.save_summary("t", key(1, "another recipe"), summary("other")) == summary("other")
    found = await store.find_summaries("t", dict.fromkeys([key(1), key(1, "another recipe"), key("missing")]))
    assert found == {key(1): summary("first"), key(1, "another recipe"): summary("other")}


async def test_summaries_that_a_session_has_or_finds_are_its_own_until_its_log_is_replaced_or_it_is_deleted(
    store,
):
    """They come in the order of the log with their places."""
    first, second, odd = (summary(text) for text in ("first", "second", "of no session"))
    await store.append("s", numbered(9), nothing)
    await store.save_summary("s", key(2), second, (4, 9))
    await store.save_summary("s", key(1), first, (0, 4))
    await store.save_summary("unknown", key(3), odd)
    await store.find_summaries("t", dict.fromkeys([key(1), key(3), key(4)]))
    await store.find_summaries("unknown", {key(1): None})
    own = [(key(1), (first, (0, 4))), (key(2), (second, (4, 9)))]
    assert list((await store.summaries_of("s")).items()) == own
    assert await store.summaries_of("t") == {key(1): (first, None), key(3): (odd, None)}
    listed = {one.session_id: (one.summaries, one.input_tokens, one.output_tokens) for one in await store.sessions()}
    assert listed == dict.fromkeys("st", (2, 2 * first.input_tokens, 2 * first.output_tokens))
    await store.replace("s", 4, entries("x"), nothing)
    await store.find_summaries("s", {key(1): (0, 4)})
    await store.purge()
    assert list((await store.summaries_of("s")).items()) == own[:1]
    assert await store.find_summaries("s", {key(2): None}) == {}
    for deleted, left in (("s", {key(1): first}), ("t", {})):
        await store.delete_session(deleted)
        assert await store.find_summaries("unknown", {key(1): None}) == left


async def test_closing_finishes_what_is_queued_and_leaves_no_thread(where):
    called: list[int] = []
    before = threading.active_count()
    async with opened(where, "s") as store:
        for i in range(200):
            store.append("s", [entry(str(i))] * (i % 3), lambda i=i: called.append(i))  # of none, one and two
    assert called == list(range(200))
    assert threading.active_count() == before
    await store.close()


async def test_a_store_that_is_not_open_or_is_called_from_another_event_loop_refuses(where):
    store = make_store(where)
    with pytest.raises(StoreError):
        await store.load("s")
    await store.open()
    with pytest.raises(StoreError):
        await store.open()
    await store.claim("s")
    for call in (lambda: asyncio.run(store.load("s")), lambda: store.append("s", entries("x"), nothing)):
        with pytest.raises(WrongEventLoopError):
            await asyncio.to_thread(call)
    assert await log_of(store) == []
    await store.close()
    for refused in (store.load("s"), store.claim("t"), store.sessions(), store.purge(), store.open()):
        with pytest.raises(StoreError):
            await refused
    with pytest.raises(StoreError):
        await store.append("s", entries("x"), nothing)


def learnt(content: str, message: int, **more: Any) -> base.NewMemory:
    place = {"source": "session", "session_id": "s", "message": message, "quote": content}
    return base.NewMemory(content, {**place, "subject": "gate", **more})


async def contents(store: Any) -> list[str]:
    return [one.content for one in await store.memories(OF_ALL)]


async def test_what_is_marked_as_read_is_not_learnt_again_by_the_same_reader(store):
    read: dict[str, Any] = {"reader": "model", "marks": ["a"], "again": False}
    (kept,) = await base.keep_memories(store, OF_ALL, [learnt("Gate 1.", 0)], **read)
    await store.edit_memories(OF_ALL, lambda held, _: held.pop(kept.id))
    assert await base.keep_memories(store, OF_ALL, [learnt("Gate 1.", 0)], **read) == await contents(store) == []
    assert await store.marked(OF_ALL, "model", ["a", "b"]) == {"a"}
    assert await store.marked(OF_ALL, "rules", ["a"]) == set()
    for other in (base.MemoryScope("q", "s"), base.MemoryScope(None, "s")):
        assert await store.marked(other, "model", ["a"]) == set()
        assert len(await base.keep_memories(store, other, [learnt("Gate 1.", 0)], **read)) == 1


async def test_an_edit_is_all_or_nothing_and_tells_the_ids(store):
    new = {id: memory(content) for id, content in (("x", "One."), ("y", "Two."))}
    ids = await store.edit_memories(OF_ALL, lambda held, marked: held.update(new), "model", ["a"])
    first, second = ids["x"], ids["y"]
    known, odd = list[str](), {"m99": base.StoredMemory("", "?", {"not JSON": b""}, "", "")}

    def decide(held: Any, marked: set[str]) -> None:
        known[:] = [one.content for one in held.values()] + sorted(marked)
        held |= {first: memory("First."), **odd}
        del held[second]

    with pytest.raises(StoreError):
        await store.edit_memories(OF_ALL, decide, "model", ["a", "b"])
    assert known == ["One.", "Two.", "a"]
    assert await contents(store) == ["One.", "Two."]
    assert await store.marked(OF_ALL, "model", ["a", "b"]) == {"a"}
    odd.clear()
    assert await store.edit_memories(OF_ALL, decide) == {}
    assert await contents(store) == ["First."]


async def test_what_was_said_last_is_kept_and_a_memory_that_is_replaced_in_one_reading_has_the_id_of_that(store):
    for subject, order in (("bed", (1, 2)), ("mill", (2, 1))):  # in whatever order a session is read
        for message in order:
            new = learnt(f"The {subject} is {message}.", message, subject=subject)
            await base.keep_memories(store, OF_ALL, [new])
        assert await contents(store) == [f"The {subject} is 2."]
        await store.edit_memories(OF_ALL, lambda held, _: held.clear())
    about = [learnt("Ada owns it.", 1, relation="owner"), learnt("It is at :80.", 2, relation="place")]
    kept = await base.keep_memories(store, OF_ALL, [*about, learnt("It is gone.", 3)])
    (left,) = await store.memories(OF_ALL)
    assert [one.change for one in kept] == ["stored", "stored", "replaced"]
    assert ({one.id for one in kept}, left.content) == ({left.id}, "It is gone.")
    assert left.metadata["replaces"] == "It is at :80. Ada owns it."
    await store.edit_memories(OF_ALL, lambda held, _: held.update({left.id: replace(left, content="It is back.")}))
    assert await contents(store) == ["It is back."]


SETTINGS = Settings(max_tokens=4_000, session_id="s", project="p")


async def open_store(path: Any) -> Any:
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

    async def close(self) -> None: ...


async def test_what_is_no_store_is_refused_with_what_it_lacks():
    lacking = ((Half(), r"Half and lacks append, .*, name, "), (Half, "type and lacks append"))
    for store, words in (("run.db", r"Settings\(store=\)"), *lacking):
        with pytest.raises(SettingsError, match=words):
            async with open_context(SETTINGS, store=store):
                pass
