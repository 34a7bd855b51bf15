"""Checkpoints in a store, what overtakes them, and removal to the last byte of what neither they nor a log need."""

import asyncio

import pytest

from summarizing_context.errors import CheckpointNotFoundError, SessionExistsError, StoreError, StoreLockedError
from summarizing_context.stores.base import MemoryScope, NewActivation, NewMemory, Present, StoredEntry, keep_memories
from tests.contract.store_builders import entries, is_there, key, log_of, nothing, numbered, opened, sql, summary, texts

pytestmark = pytest.mark.usefixtures("backend")
SHOWN = [("p", b"state"), ("q", b"\xff\x00")]


async def test_a_checkpoint_comes_back_as_it_was_kept(store):
    await store.append("s", numbered(5), nothing)
    made = await store.save_checkpoint("s", Present(0, 3, "name", SHOWN))
    assert (made.name, made.seq) == ("name", 3)
    await store.append("s", entries("m5"), nothing)
    found = await store.load_checkpoint("s", made.id)
    assert (found.checkpoint, texts(found), found.activations) == (made, ["m0", "m1", "m2"], SHOWN)
    assert await store.checkpoints("s") == [made]
    assert await store.checkpoints("other") == []
    await store.save_checkpoint("s", Present(0, 4, "name", []))
    assert (await store.load_checkpoint("s", "name")).checkpoint.seq == 4, "a name means its newest one"
    await store.delete_checkpoint("s", "name")
    assert [one.seq for one in await store.checkpoints("s")] == [3]


async def test_a_checkpoint_of_a_log_that_was_replaced_meanwhile_is_neither_made_nor_restored(store):
    called: list[int] = []
    call, whole = lambda: called.append(1), [f"m{n}" for n in range(5)]
    await store.append("s", numbered(5), nothing)
    made = await store.save_checkpoint("s", Present(0, 5, None, SHOWN))
    await store.replace("s", 1, [], nothing)
    for refused in (
        store.save_checkpoint("s", Present(0, 5, None, SHOWN)),
        store.restore("s", made.id, call, Present(0, 5, "back", [])),
        store.replace("s", 1, entries("x"), call, Present(0, 5, "old", SHOWN)),
    ):
        with pytest.raises(StoreError, match="replaced"):
            await refused
    assert (await log_of(store), called, await store.checkpoints("s")) == (["m0"], [], [made])
    assert await store.restore("s", made.id, call, Present(1, 1, "back", []))
    assert (await log_of(store), called) == (whole, [1])
    assert (await store.load("s")).activations == SHOWN
    old = await store.replace("s", 2, entries("x"), call, Present(2, 5, "old", SHOWN))
    assert (await log_of(store), called, old.seq, old.name) == (["m0", "m1", "x"], [1, 1], 5, "old")
    found = await store.load_checkpoint("s", old.id)
    assert (texts(found), found.activations) == (whole, SHOWN)


async def test_what_a_checkpoint_kept_comes_back_in_forks_and_by_a_restore_which_counts_as_a_replacement(where):
    """A fork shares what is found out about its messages later, takes no other name, and has no writer."""
    async with opened(where, "t") as store:
        await store.claim("s", project="p")
        await store.append("s", numbered(2), nothing)
        await store.append("t", entries("of another"), nothing)
        await store.save_pins("s", "pins of then", nothing)
        await store.save_activation("s", "p", b"state", NewActivation(1, "figures"))
        await store.save_summary("s", key(1), summary("text"), (0, 1))
        made = await store.save_checkpoint("s", Present(0, 2, "mark", SHOWN))
        await store.fork("s", made.id, "early")
        await store.replace("s", 1, entries("other"), nothing)
        await store.save_pins("s", "pins of now", nothing)
        await store.save_facts("s", [(0, StoredEntry(b"m0", b"found out"))])
        await store.fork("s", made.id, "fork")
        for taken in ("fork", "s", "t"):
            with pytest.raises(SessionExistsError):
                await store.fork("s", made.id, taken)
        present = await store.restore("s", "mark", nothing, Present(1, 2, "before", []))
        for name in ("s", "fork"):
            found = await store.load(name)
            assert (texts(found), found.project, found.pins) == (["m0", "m1"], "p", "pins of then")
            assert list(found.activations) == SHOWN
            assert [one.facts for one in found.entries] == [b"found out", b"facts of m1"]
        assert ((await store.load("s")).log_version, present.name, present.seq) == (2, "before", 2)
        assert [len((await store.load(name)).history) for name in ("s", "fork")] == [1, 0]
        before = await store.load_checkpoint("s", "before")
        assert (texts(before), before.pins) == (["m0", "other"], "pins of now")
        assert await store.summaries_of("early") == {key(1): (summary("text"), (0, 1))}
        assert await log_of(store, "t") == ["of another"]
        await store.claim("fork")


async def test_purge_keeps_what_a_checkpoint_needs_until_it_is_forgotten(path):
    """Of the messages and of the summaries."""
    async with opened(path, "s") as store:
        await store.append("s", entries("m0", "SECRET-ONE", "SECRET-TWO " * 50), nothing)
        for place in ((0, 2), (2, 3)):
            await store.save_summary("s", key(place), summary("SECRET-SUMMARY"), place)
        made = await store.save_checkpoint("s", Present(0, 2, None, [("p", b"SECRET-STATE" * 9)]))
        await store.replace("s", 0, entries("new"), nothing)
        assert await store.purge() >= 550
        assert texts(await store.load_checkpoint("s", made.id)) == ["m0", "SECRET-ONE"]
        asked = dict.fromkeys([key((0, 2)), key((2, 3))])
        assert set(await store.find_summaries("unknown", asked)) == {key((0, 2))}
        await store.delete_checkpoint("s", made.id)
        await store.purge()
        with pytest.raises(CheckpointNotFoundError):
            await store.load_checkpoint("s", made.id)
        assert await store.find_summaries("unknown", asked) == {}
        assert not is_there(path, "SECRET")


async def test_a_fork_that_goes_on_where_a_session_ended_keeps_what_it_adds_while_that_one_is_deleted(path):
    async with opened(path, "gone") as store:
        await store.append("gone", numbered(1_500), nothing)
        made = await store.save_checkpoint("gone", Present(0, 1_500, None, []))
        await store.fork("gone", made.id, "kept")
        await store.delete_checkpoint("gone", made.id)
        await store.claim("kept")
        made = await store.save_checkpoint("kept", Present(0, 1_500, None, []))
        await store.append("kept", entries("taken back"), nothing)
        back = Present(0, 1_501, "back", [])
        await store.restore("kept", made.id, nothing, back)  # on the other's branch
        deleting = asyncio.create_task(store.delete_session("gone"))
        for i in range(50):
            await store.append("kept", entries(f"x{i}"), nothing)
        assert await deleting is True
    async with opened(path) as store:
        assert await log_of(store, "kept") == [f"m{i}" for i in range(1_500)] + [f"x{i}" for i in range(50)]


async def test_a_deleted_session_is_nowhere_in_the_bytes_of_the_folder(path):
    """Nor is what a fork added, to the messages that it shares."""
    async with opened(path, "kept", "gone") as store:
        for i in range(300):  # entries of both sessions lie on the same pages
            await store.append("gone", entries(f"SECRET-LOG-{i} " * 9), nothing)
            await store.append("kept", entries(f"public {i} " * 5), nothing)
        secret = StoredEntry(b"SECRET-LONG " * 5000, b"SECRET-FACTS")
        await store.append("gone", [*entries("tulip"), secret], nothing)
        await store.append("kept", entries("tulip"), nothing)
        await store.save_activation("gone", "provider", b"SECRET-STATE")
        await store.replace("gone", 100, entries("SECRET-AFTER"), nothing)
        await store.save_activation("gone", "provider", b"SECRET-STATE")
        await store.save_summary("gone", key(1), summary("SECRET-SUMMARY"))
        assert is_there(path, "SECRET")
        assert await store.delete_session("gone") is True
        assert not is_there(path, "SECRET")
        assert await store.load("gone") is None

        made = await store.save_checkpoint("kept", Present(0, 301, None, []))
        await store.fork("kept", made.id, "fork")
        await store.claim("fork")
        mark = await store.save_checkpoint("fork", Present(0, 301, None, []))
        await store.append("fork", entries("SECRET-ONE"), nothing)
        await store.restore("fork", mark.id, nothing, Present(0, 302, "back", []))
        await store.append("fork", entries("SECRET-TWO"), nothing)
        assert (await log_of(store, "fork"))[300:] == ["tulip", "SECRET-TWO"]
        await store.delete_session("fork")
        assert not is_there(path, "SECRET")
        assert (await log_of(store, "kept"))[300:] == ["tulip"]
    assert not is_there(path, "SECRET")
    assert is_there(path, "public")


@pytest.mark.parametrize("turns", range(1, 6))
async def test_a_session_whose_deletion_was_cancelled_can_be_opened(path, turns):
    async with opened(path) as store:
        await store.claim("other")
        async with opened(path, "s") as writer:
            await writer.append("s", numbered(3), nothing)
        deleting = asyncio.create_task(store.delete_session("s"))
        for _ in range(turns):
            await asyncio.sleep(0)
        deleting.cancel()
        await asyncio.wait([deleting])
        async with opened(path, "s") as writer:
            assert await log_of(writer) == []


@pytest.mark.parametrize("when", ["during", "behind"])
async def test_a_session_that_is_begun_while_or_after_one_of_its_name_is_removed_has_nothing_of_that(path, when):
    own = MemoryScope(None, "s")
    async with opened(path, "s") as store:
        await store.append("s", entries(*(f"SECRET-{i}" for i in range(1_500))), nothing)
        await store.save_activation("s", "p", b"SECRET-STATE", NewActivation(1, "figures"))
        await store.save_pins("s", "SECRET-PINS", nothing)
        await store.save_checkpoint("s", Present(0, 2, None, []))
        await keep_memories(store, own, [NewMemory("SECRET-MEMORY", {})], reader="reader", marks=["mark"])
        deleting = asyncio.create_task(store.delete_session("s"))
        await (deleting if when == "behind" else asyncio.sleep(0))
        await store.claim("s")
        found = await store.load("s")
        assert (len(found.entries), found.activations, found.pins) == (0, [], "")
        assert found.history == await store.checkpoints("s") == await store.memories(own) == []
        assert await store.marked(own, "reader", ["mark"]) == set()
        await store.append("s", entries("new"), nothing)
        assert await deleting
        assert await log_of(store) == ["new"]
        assert not await store.delete_session("unknown")
        assert not is_there(path, "SECRET")


async def test_purge_removes_what_no_log_reaches_to_the_last_byte(path):
    async with opened(path, "s", "t") as store:
        await store.append("s", entries("kept", *["SECRET-LOG " * 50] * 200), nothing)
        await store.save_summary("s", key("old"), summary("SECRET-SUMMARY"))
        await store.save_summary("s", key("new"), summary("still used"))
        await store.save_summary("nobody", key("stray"), summary("SECRET-STRAY"))
        await store.replace("s", 1, entries("after"), nothing)
        await store.find_summaries("s", {key("new"): None})
        assert is_there(path, "SECRET")
        assert await store.purge() >= 200 * 550
        assert not is_there(path, "SECRET")
        assert set(await store.find_summaries("s", dict.fromkeys([key("old"), key("new")]))) == {key("new")}
        assert await store.purge() == 0
        await store.append("s", entries("more"), nothing)
        assert await log_of(store) == ["kept", "after", "more"]


async def test_removal_that_a_reader_holds_up_says_that_bytes_may_be_left(path):
    async with opened(path, "s", busy_timeout=0.05) as store:
        await store.append("s", entries("SECRET"), nothing)
        with sql(path) as reader:
            reader.execute("begin")
            reader.execute("select count(*) from entries").fetchall()
            with pytest.raises(StoreLockedError, match="call purge"):
                await store.delete_session("s")
        assert await store.load("s") is None
        await store.purge()
        assert not is_there(path, "SECRET")
        await store.claim("s")
