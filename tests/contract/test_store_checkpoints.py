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


async def test_a_checkpoint_of_a_log_that_was_replaced_meanwhile_is_not_made(store):
    called: list[int] = []
    await store.append("s", numbered(5), nothing)
    made = await store.checkpoints.save("s", None, Place(0, 5), SHOWN)
    await store.replace("s", 1, [], nothing)
    with pytest.raises(StoreError, match="replaced"):
        await store.checkpoints.save("s", None, Place(0, 5), SHOWN)
    with pytest.raises(StoreError, match="replaced"):
        await store.checkpoints.restore("s", made.id, Place(0, 5), "back", [], lambda: called.append(1))
    assert (await log_of(store), called) == (["m0"], [])
    assert await store.checkpoints.restore("s", made.id, Place(1, 1), "back", [], lambda: called.append(1))
    assert (len(await log_of(store)), called) == (5, [1])
    assert (await store.load("s")).activations == [(one.provider_key, one.state) for one in SHOWN]


async def test_a_log_is_replaced_with_a_checkpoint_of_what_it_was_or_not_at_all(store):
    called: list[int] = []
    await store.append("s", numbered(5), nothing)
    checkpoints = store.checkpoints
    with pytest.raises(StoreError, match="replaced"):
        await checkpoints.replace("s", Place(1, 5), "old", SHOWN, 2, entries("x"), lambda: called.append(1))
    assert (len(await log_of(store)), called, await checkpoints.listed("s")) == (5, [], [])
    made = await checkpoints.replace("s", Place(0, 5), "old", SHOWN, 2, entries("x"), lambda: called.append(1))
    assert (await log_of(store), called, made.seq, made.name) == (["m0", "m1", "x"], [1], 5, "old")
    found = await checkpoints.load("s", made.id)
    assert (texts(found), found.provider_views) == ([f"m{n}" for n in range(5)], SHOWN)


def ruled(name: str) -> StoredEntry:
    """An entry with a rule in it."""
    return StoredEntry(name.encode(), b"", (StoredVerdict(name.encode(), "v1", b"rule"),))


async def test_a_restore_brings_back_what_was_kept_and_counts_as_a_replacement(store):
    await store.append("s", [ruled("m0"), ruled("m1")], nothing)
    await store.save_pins("s", "pins of then", nothing)
    await store.checkpoints.save("s", "mark", Place(0, 2), SHOWN)
    await store.replace("s", 1, [ruled("other")], nothing)
    await store.save_pins("s", "pins of now", nothing)
    present = await store.checkpoints.restore("s", "mark", Place(1, 2), "before", [], nothing)
    found = await store.load("s")
    assert (texts(found), found.pins, found.log_version) == (["m0", "m1"], "pins of then", 2)
    assert list(found.activations) == [(one.provider_key, one.state) for one in SHOWN]
    assert [one.digest for one in found.verdicts] == [b"m0"]  # of what both logs begin with
    assert (present.name, present.seq) == ("before", 2)
    before = await store.checkpoints.load("s", "before")
    assert (texts(before), before.pins) == (["m0", "other"], "pins of now")


async def test_a_fork_has_what_its_checkpoint_had_and_the_rules_that_it_shares_and_takes_no_other_name(where):
    async with opened(where, "t") as store:
        await store.claim("s", project="p")
        await store.append("s", [ruled("m0"), ruled("m1")], nothing)
        await store.save_pins("s", "a pin", nothing)
        await store.save_summary("s", key(1), summary("text"), {key(1): (0, 1)})
        made = await store.checkpoints.save("s", None, Place(0, 2), SHOWN)
        await store.save_pins("s", "another pin", nothing)
        await store.append("t", entries("of another"), nothing)
        await store.checkpoints.fork("s", made.id, "early")
        await store.replace("s", 1, [ruled("other")], nothing)
        await store.checkpoints.fork("s", made.id, "fork")
        for taken in ("fork", "s", "t"):
            with pytest.raises(SessionExistsError):
                await store.checkpoints.fork("s", made.id, taken)
        assert await log_of(store, "t") == ["of another"]
        found = await store.load("fork")
        assert (texts(found), found.project, found.pins) == (["m0", "m1"], "p", "a pin")
        assert list(found.activations) == [(one.provider_key, one.state) for one in SHOWN]
        assert [one.digest for one in found.verdicts] == [b"m0"]
        assert await store.summaries_of("early") == {key(1): (summary("text"), (0, 1))}
        await store.claim("fork")  # it has no writer


async def test_purge_keeps_the_summaries_that_a_checkpoint_stands_on(where):
    async with opened(where, "s", "t") as store:
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
