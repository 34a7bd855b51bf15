"""What every store promises, whatever it keeps things in."""

import asyncio
import os
import threading
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.errors import SessionInUseError, StoreError, StoreReadOnlyError, WrongEventLoopError
from summarizing_context.stores.base import (
    MemoryEdit,
    MemoryScope,
    NewActivation,
    NewMemory,
    Place,
    Store,
    StoredEntry,
    StoredFailure,
    StoredVerdict,
    keep_memories,
)
from tests.contract.store_builders import entries, entry, key, log_of, make_store, nothing, numbered, opened, summary

pytestmark = pytest.mark.usefixtures("backend")


async def test_entries_come_back_in_order_and_byte_for_byte(store):
    odd = [StoredEntry(b"\xff\x00\xfe", b""), StoredEntry(b"", b"\x00"), StoredEntry(b"\xed\xa0\x80", b"surrogate")]
    await store.append("s", odd[:1], nothing)
    await store.append("s", odd[1:], nothing)
    loaded = await store.load("s")
    assert loaded.entries == odd


async def test_facts_are_replaced_beside_their_messages_on_every_branch_of_the_log(store):
    await store.append("s", entries("a", "b", "c"), nothing)
    await store.replace("s", 2, entries("d"), nothing)  # "d" lies on another branch than "a" and "b"
    await store.save_facts("s", [(1, b"facts of B"), (2, b"facts of D")])
    await store.save_facts("s", [])
    loaded = await store.load("s")
    kept = [(entry.message, entry.facts) for entry in loaded.entries]
    assert kept == [(b"a", b"facts of a"), (b"b", b"facts of B"), (b"d", b"facts of D")]


def rule(name: str, version: str = "v1", verdict: str = "") -> StoredVerdict:
    return StoredVerdict(name.encode(), version, (verdict or f"rules of {name}").encode())


def said(*names: str) -> list[StoredEntry]:
    """Messages that humans wrote; a name that begins with a dot is somebody else's."""
    return [StoredEntry(name.encode(), b"", () if name.startswith(".") else (rule(name),)) for name in names]


async def test_rules_come_back_in_the_order_of_the_log_and_are_forgotten_with_their_messages(where):
    """Those of several versions stand side by side, and the first write wins."""
    async with opened(where, "s", "t") as store:
        await store.append("s", said("b", ".tool", "a"), nothing)
        await store.append("s", said("c", "b"), nothing)
        assert (await store.load("s")).verdicts == (rule("b"), rule("a"), rule("c"))
        assert (await store.load("t")).verdicts == ()
        await store.save_verdicts("s", [(0, rule("b", "v2")), (2, rule("a", verdict="other"))])
        await store.save_verdicts("s", [])
        assert (await store.load("s")).verdicts == (rule("b"), rule("b", "v2"), rule("a"), rule("c"))
        await store.replace("s", 3, said("d", "b"), nothing)
        assert (await store.load("s")).verdicts == (rule("b"), rule("b", "v2"), rule("a"), rule("d"))
        await store.replace("s", 0, said("b"), nothing)
        assert (await store.load("s")).verdicts == (rule("b"),)


async def test_logs_of_sessions_are_apart(where):
    async with opened(where, "a", "b") as store:
        await asyncio.gather(*(store.append(name, entries(name + str(i)), nothing) for i in range(3) for name in "ab"))
        assert await log_of(store, "a") == ["a0", "a1", "a2"]
        assert await log_of(store, "b") == ["b0", "b1", "b2"]


async def test_a_session_has_one_writer(store):
    with pytest.raises(SessionInUseError) as raised:
        await store.claim("s")
    assert raised.value.pid == os.getpid()
    await store.claim("another")


async def test_a_session_is_written_by_its_writer_alone(path):
    async with opened(path, "s") as writer, opened(path) as other:
        await writer.append("s", numbered(2), nothing)
        for write in (
            lambda: other.append("s", entries("x"), nothing),
            lambda: other.replace("s", 0, entries("x"), nothing),
            lambda: other.save_activation("s", "p", b"state"),
            lambda: other.save_pins("s", "pins", nothing),
            lambda: other.checkpoints.save("s", None, Place(0, 2), []),
        ):
            with pytest.raises(StoreError):
                await write()
        with pytest.raises(SessionInUseError):
            await other.delete_session("s")
        own, of_all = MemoryScope(None, "s"), MemoryScope("p", "s")
        (kept,) = await keep_memories(writer.memories, own, [NewMemory("Mine.", {})])
        for edit in (MemoryEdit(None, "Of another host."), MemoryEdit(kept.id, "Other."), MemoryEdit(kept.id, None)):
            with pytest.raises(StoreError):
                await other.memories.edit(own, lambda known, marked, edit=edit: [edit])
        assert [memory.content for memory in await other.memories.all(own)] == ["Mine."]
        await keep_memories(other.memories, of_all, [NewMemory("Ours.", {})])  # those of a project are everybody's
        assert [memory.content for memory in await writer.memories.all(of_all)] == ["Ours."]
        found = await writer.load("s")
        assert (len(found.entries), found.activations, found.pins) == (2, [], "")
        assert await writer.checkpoints.listed("s") == []


async def test_a_session_keeps_its_project_until_a_claim_names_another(tmp_path):
    for project, kept in (("p", "p"), (None, "p"), ("q", "q")):
        async with opened(tmp_path / "run.db") as store:
            await store.claim("s", project=project)
            assert (await store.load("s")).project == kept


async def test_a_session_of_a_deleted_name_begins_with_nothing(store):
    own = MemoryScope(None, "s")
    await store.append("s", numbered(2), nothing)
    await store.save_activation("s", "p", b"state", NewActivation(1, "figures"))
    await store.save_pins("s", "pins", nothing)
    await store.checkpoints.save("s", None, Place(0, 2), [])
    await store.memories.edit(own, lambda *_: [MemoryEdit(None, "Mine.")], "reader", ["mark"])
    assert await store.delete_session("s")
    assert not await store.delete_session("s")
    await store.claim("s")
    found = await store.load("s")
    assert (len(found.entries), found.activations, found.pins) == (0, [], "")
    assert await store.list_activations("s") == await store.checkpoints.listed("s") == []
    assert await store.memories.all(own) == []
    assert await store.memories.marked(own, "reader", ["mark"]) == set()


async def test_sessions_are_listed_with_all_that_is_known_of_them_the_newest_change_first(where):
    async with opened(where, "old", "new") as store:
        await store.claim("middle", project="p")
        for name in ("old", "middle", "new"):
            await store.append(name, numbered(2), nothing)
        await store.save_request("new", 8_000, None)
        await store.save_request("new", 16_000, "Mend the parser.")
        await store.save_failure("new", StoredFailure(2, "TimeoutError", "2026-11-01T00:00:00+00:00"))
        await store.save_failure("new", StoredFailure(1, "OSError", "2026-11-02T00:00:00+00:00"))
        await store.save_summary("new", key(1), summary("text"))
        listed = await store.sessions()
        made = await store.checkpoints.save("new", None, Place(0, 0), [])
        await store.checkpoints.fork("new", made.id, "fork")  # begins with budget and title
        requests = {one.session_id: (one.budget, one.title) for one in await store.sessions()}
        assert requests["fork"] == (16_000, "Mend the parser.")
        assert requests["old"] == (None, None)
    told = [(one.session_id, one.project, one.messages, one.summaries, one.writer_pid, one.budget) for one in listed]
    assert told == [
        ("new", None, 2, 1, os.getpid(), 16_000),
        ("middle", "p", 2, 0, os.getpid(), None),
        ("old", None, 2, 0, os.getpid(), None),
    ]
    failures = [(one.failed, one.last_error, one.last_error_at) for one in listed]
    assert failures == [(3, "OSError", "2026-11-02T00:00:00+00:00"), (0, None, None), (0, None, None)]
    for one in listed:
        created, updated = (datetime.fromisoformat(text) for text in (one.created_at, one.updated_at))
        assert created.utcoffset() == updated.utcoffset() == datetime.fromisoformat("2000-01-01T00Z").utcoffset()
        assert created < updated


async def test_a_refused_entry_fails_alone_and_without_a_callback(store):
    called: list[str] = []
    good, bad = entry("good"), StoredEntry(["not", "bytes"], b"")
    results = await asyncio.gather(
        store.append("s", [good], lambda: called.append("first")),
        store.append("s", [good, bad], lambda: called.append("bad")),
        store.append("s", [good], lambda: called.append("last")),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), StoreError, type(None)]
    assert called == ["first", "last"]
    assert await log_of(store) == ["good", "good"]


async def test_an_error_does_not_repeat_what_was_to_be_kept(store):
    for bad in ({"text": "secret"}, "secret \ud800", ["secret"], 1 << 70):
        with pytest.raises(StoreError) as raised:
            await store.append("s", [StoredEntry(b"", b""), StoredEntry(bad, b"")], nothing)
        assert "secret" not in f"{raised.value} {raised.value.__cause__!r}"
    assert await log_of(store) == []


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("method", ["append", "replace"])
async def test_a_cancelled_write_has_happened_in_both_places_or_in_neither(where, method, turns):
    called: list[str] = []

    async def write(store: Store) -> None:
        if method == "append":
            await store.append("s", entries("b", "c"), lambda: called.append("done"))
        else:
            await store.replace("s", 1, entries("b", "c"), lambda: called.append("done"))

    async with opened(where, "s") as store:
        await store.append("s", [entry("a")], nothing)
        task = asyncio.get_running_loop().create_task(write(store))
        for _ in range(turns):  # 0: before it began; then in the queue, or already there
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        happened = turns > 0
        assert await log_of(store) == (["a", "b", "c"] if happened else ["a"])
        assert called == (["done"] if happened else [])


steps = st.lists(st.tuples(st.none() | st.integers(0, 30), st.integers(0, 4)), max_size=25)


@settings(max_examples=12, deadline=None)
@given(steps)
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


async def test_the_four_newest_provider_keys_keep_their_newest_state(where):
    async with opened(where, "s", "other") as store:
        await store.save_activation("other", "p1", b"of another session")
        for name, state in [("p1", b"1"), ("p2", b"2"), ("p1", b"1b"), ("p3", b"3"), ("p4", b"4"), ("p5", b"\x00\xff")]:
            await store.save_activation("s", name, state)
        loaded = await store.load("s")
        assert loaded.activations == [("p1", b"1b"), ("p3", b"3"), ("p4", b"4"), ("p5", b"\x00\xff")]
        assert (await store.load("other")).activations == [("p1", b"of another session")]


async def test_the_state_before_an_activation_comes_back_and_a_replaced_log_keeps_what_they_were(store):
    await store.append("s", numbered(4), nothing)
    await store.save_activation("s", "p", b"one", NewActivation(1, "{}", before=b"none"))
    await store.save_activation("s", "q", b"two", NewActivation(2, "{}"))
    await store.save_activation("s", "p", b"none", NewActivation(3, "{}", before=b"one", undoes=1))
    assert [await store.state_before("s", number) for number in (1, 2, 3, 4)] == [b"none", None, b"one", None]
    await store.replace("s", 2, entries("x"), nothing)
    listed = await store.list_activations("s")
    told = [(one.number, one.provider_key, one.has_before, one.is_undone, one.log_version) for one in listed]
    assert told == [(1, "p", True, True, 0), (2, "q", False, False, 0), (3, "p", True, False, 0)]
    assert (await store.load("s")).activations == []


async def test_summaries_of_a_session_come_in_the_order_of_its_log_with_their_places(where):
    async with opened(where, "s", "t") as store:
        await store.append("s", numbered(9), nothing)
        await store.save_summary("s", key(2), summary("second"), {key(2): (4, 9)})
        await store.save_summary("s", key(1), summary("first"), {key(1): (0, 4)})
        await store.save_summary("t", key(3), summary("of another"))
        assert list((await store.summaries_of("s")).items()) == [
            (key(1), (summary("first"), (0, 4))),
            (key(2), (summary("second"), (4, 9))),
        ]
        assert await store.summaries_of("t") == {key(3): (summary("of another"), None)}


async def test_what_is_opened_to_be_read_is_not_written(path):
    async with opened(path, "s") as store:
        await store.append("s", entries("a"), nothing)
        await store.save_summary("s", key(1), summary("text"))
    async with opened(path, read_only=True) as store:
        assert await log_of(store) == ["a"]
        assert await store.find_summaries("s", [key(1)]) == {key(1): summary("text")}
        for write, given in ((store.claim, ()), (store.append, (entries("b"), nothing)), (store.delete_session, ())):
            with pytest.raises(StoreReadOnlyError):
                await write("s", *given)
        assert await log_of(store) == ["a"]


async def test_the_first_summary_of_a_key_wins_and_is_returned(where):
    async with opened(where, "s", "t") as store:
        assert await store.save_summary("s", key(1), summary("first")) == summary("first")
        assert await store.save_summary("t", key(1), summary("second")) == summary("first")
        assert await store.save_summary("t", key(1, "another recipe"), summary("other")) == summary("other")
        found = await store.find_summaries("t", [key(1), key(1, "another recipe"), key("missing")])
        assert found == {key(1): summary("first"), key(1, "another recipe"): summary("other")}


async def test_what_a_session_finds_counts_as_its_own(where):
    async with opened(where, "s", "t") as store:
        await store.save_summary("s", key(1), summary("text"))
        await store.save_summary("nobody", key(2), summary("text"))
        await store.find_summaries("t", [key(1), key(2), key(3)])
        await store.find_summaries("unknown", [key(1)])
        listed = {one.session_id: one for one in await store.sessions()}
        assert {name: one.summaries for name, one in listed.items()} == {"s": 1, "t": 2}
        paid = summary("text").input_tokens, summary("text").output_tokens
        assert (listed["s"].input_tokens, listed["s"].output_tokens) == paid
        assert (listed["t"].input_tokens, listed["t"].output_tokens) == (2 * paid[0], 2 * paid[1])


async def test_purge_ends_the_use_of_summaries_of_a_log_that_was_replaced(store):
    await store.append("s", numbered(4), nothing)
    for name, place in ((1, (0, 2)), (2, (2, 4))):
        await store.save_summary("s", key(name), summary("text"), {key(name): place})
    await store.replace("s", 2, entries("x"), nothing)
    await store.find_summaries("s", [key(1)], {key(1): (0, 2)})
    await store.purge()
    assert await store.summaries_of("s") == {key(1): (summary("text"), (0, 2))}
    assert await store.find_summaries("s", [key(2)]) == {}


async def test_closing_finishes_what_is_queued_and_leaves_no_thread(where):
    called: list[int] = []
    before = threading.active_count()
    async with opened(where, "s") as store:
        for i in range(200):
            store.append("s", [entry(str(i))], lambda i=i: called.append(i))
    assert called == list(range(200))
    assert threading.active_count() == before
    await store.close()


async def test_a_store_that_is_not_open_refuses_calls(where):
    store = make_store(where)
    with pytest.raises(StoreError):
        await store.load("s")
    await store.open()
    with pytest.raises(StoreError):
        await store.open()
    await store.claim("s")
    await store.close()
    for call in (store.load("s"), store.claim("t"), store.sessions(), store.purge(), store.open()):
        with pytest.raises(StoreError):
            await call
    with pytest.raises(StoreError):
        await store.append("s", [entry("x")], nothing)


async def test_a_call_from_another_event_loop_is_refused(where):
    async with opened(where, "s") as store:

        def elsewhere() -> None:
            asyncio.run(store.load("s"))

        with pytest.raises(WrongEventLoopError):
            await asyncio.to_thread(elsewhere)
        with pytest.raises(WrongEventLoopError):
            await asyncio.to_thread(lambda: store.append("s", [entry("x")], nothing))
        assert await log_of(store) == []
