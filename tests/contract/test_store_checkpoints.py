"""Checkpoints in a store: what they keep from removal, and what overtakes them."""

import pytest

from summarizing_context.errors import CheckpointNotFoundError, SessionExistsError, StoreError
from summarizing_context.stores.base import Place, StoredEntry, StoredProviderView, StoredVerdict
from tests.contract.store_builders import bytes_beside, entries, key, log_of, nothing, numbered, opened, summary, texts

pytestmark = pytest.mark.usefixtures("backend")
SHOWN = [StoredProviderView("p", b"state", "marks"), StoredProviderView("q", b"\xff\x00", "{}")]


async def test_a_checkpoint_comes_back_as_it_was_kept(store):
    await store.append("s", numbered(5), nothing)
    made = await store.checkpoints.save("s", "name", Place(0, 3), SHOWN)
    assert (made.name, made.seq) == ("name", 3)
    await store.append("s", entries("m5"), nothing)
    found = await store.checkpoints.load("s", made.id)
    assert (found.checkpoint, texts(found), found.provider_views) == (made, ["m0", "m1", "m2"], SHOWN)
    assert await store.checkpoints.listed("s") == [made]
    assert await store.checkpoints.listed("other") == []
    await store.checkpoints.save("s", "name", Place(0, 4), [])
    assert (await store.checkpoints.load("s", "name")).checkpoint.seq == 4, "a name means its newest one"
    await store.checkpoints.delete("s", "name")
    assert [one.seq for one in await store.checkpoints.listed("s")] == [3]


async def test_a_checkpoint_of_a_log_that_was_replaced_meanwhile_is_neither_made_nor_restored(store):
    called: list[int] = []
    checkpoints, call, whole = store.checkpoints, lambda: called.append(1), [f"m{n}" for n in range(5)]
    await store.append("s", numbered(5), nothing)
    made = await checkpoints.save("s", None, Place(0, 5), SHOWN)
    await store.replace("s", 1, [], nothing)
    for refused in (
        checkpoints.save("s", None, Place(0, 5), SHOWN),
        checkpoints.restore("s", made.id, Place(0, 5), "back", [], call),
        checkpoints.replace("s", Place(0, 5), "old", SHOWN, 1, entries("x"), call),
    ):
        with pytest.raises(StoreError, match="replaced"):
            await refused
    assert (await log_of(store), called, await checkpoints.listed("s")) == (["m0"], [], [made])
    assert await checkpoints.restore("s", made.id, Place(1, 1), "back", [], call)
    assert (await log_of(store), called) == (whole, [1])
    assert (await store.load("s")).activations == [(one.provider_key, one.state) for one in SHOWN]
    old = await checkpoints.replace("s", Place(2, 5), "old", SHOWN, 2, entries("x"), call)
    assert (await log_of(store), called, old.seq, old.name) == (["m0", "m1", "x"], [1, 1], 5, "old")
    found = await checkpoints.load("s", old.id)
    assert (texts(found), found.provider_views) == (whole, SHOWN)


def ruled(name: str) -> StoredEntry:
    """An entry with a rule in it."""
    return StoredEntry(name.encode(), b"", (StoredVerdict(name.encode(), "v1", b"rule"),))


async def test_what_a_checkpoint_kept_comes_back_in_forks_and_by_a_restore_which_counts_as_a_replacement(where):
    """A fork shares the rules that the log still has, takes no other name, and has no writer."""
    async with opened(where, "t") as store:
        checkpoints = store.checkpoints
        await store.claim("s", project="p")
        await store.append("s", [ruled("m0"), ruled("m1")], nothing)
        await store.append("t", entries("of another"), nothing)
        await store.save_pins("s", "pins of then", nothing)
        await store.save_summary("s", key(1), summary("text"), {key(1): (0, 1)})
        made = await checkpoints.save("s", "mark", Place(0, 2), SHOWN)
        await checkpoints.fork("s", made.id, "early")
        await store.replace("s", 1, [ruled("other")], nothing)
        await store.save_pins("s", "pins of now", nothing)
        await checkpoints.fork("s", made.id, "fork")
        for taken in ("fork", "s", "t"):
            with pytest.raises(SessionExistsError):
                await checkpoints.fork("s", made.id, taken)
        present = await checkpoints.restore("s", "mark", Place(1, 2), "before", [], nothing)
        for name in ("s", "fork"):
            found = await store.load(name)
            assert (texts(found), found.project, found.pins) == (["m0", "m1"], "p", "pins of then")
            assert list(found.activations) == [(one.provider_key, one.state) for one in SHOWN]
            assert [one.digest for one in found.verdicts] == [b"m0"]  # of what both logs begin with
        assert ((await store.load("s")).log_version, present.name, present.seq) == (2, "before", 2)
        before = await checkpoints.load("s", "before")
        assert (texts(before), before.pins) == (["m0", "other"], "pins of now")
        assert await store.summaries_of("early") == {key(1): (summary("text"), (0, 1))}
        assert await log_of(store, "t") == ["of another"]
        await store.claim("fork")


async def test_purge_keeps_the_summaries_that_a_checkpoint_stands_on(store):
    for session in ("s", "t"):
        await store.append(session, numbered(4), nothing)
    for name, place in ((1, (0, 2)), (2, (2, 4))):
        await store.save_summary("s", key(name), summary("text"), {key(name): place})
    made = await store.checkpoints.save("s", None, Place(0, 3), SHOWN)
    await store.replace("s", 0, entries("x"), nothing)
    await store.purge()
    assert await store.find_summaries("t", [key(1), key(2)]) == {key(1): summary("text")}
    await store.delete_session("t")
    await store.checkpoints.delete("s", made.id)
    await store.purge()
    assert await store.find_summaries("s", [key(1)]) == {}


async def test_purge_keeps_what_a_checkpoint_needs_until_it_is_forgotten(path):
    async with opened(path, "s") as store:
        await store.append("s", entries("m0", "SECRET-ONE", "SECRET-TWO"), nothing)
        made = await store.checkpoints.save("s", None, Place(0, 2), [StoredProviderView("p", b"SECRET-STATE" * 9, "")])
        await store.replace("s", 1, entries("new"), nothing)
        await store.purge()
        assert texts(await store.checkpoints.load("s", made.id)) == ["m0", "SECRET-ONE"]
        assert not any(b"SECRET-TWO" in data for data in bytes_beside(path).values())
        await store.checkpoints.delete("s", made.id)
        await store.purge()
        assert not any(b"SECRET" in data for data in bytes_beside(path).values())
        with pytest.raises(CheckpointNotFoundError):
            await store.checkpoints.load("s", made.id)
