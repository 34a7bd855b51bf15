"""Heads move and logs are forked without copies; what nobody needs is really removed, to the last byte."""

import asyncio
from pathlib import Path

import pytest

from summarizing_context.errors import StoreLockedError
from summarizing_context.stores.base import Place, StoredEntry, StoredVerdict
from tests.contract.store_builders import bytes_beside, entries, key, log_of, nothing, numbered, opened, sql, summary

pytestmark = pytest.mark.usefixtures("backend")


def is_there(path: Path, text: str) -> bool:
    return any(text.encode() in content for content in bytes_beside(path).values())


async def test_a_fork_that_goes_on_where_a_session_ended_keeps_what_it_adds_while_that_one_is_deleted(path):
    async with opened(path, "gone") as store:
        await store.append("gone", numbered(1_500), nothing)
        made = await store.checkpoints.save("gone", None, Place(0, 1_500), [])
        await store.checkpoints.fork("gone", made.id, "kept")
        await store.checkpoints.delete("gone", made.id)
        await store.claim("kept")
        made = await store.checkpoints.save("kept", None, Place(0, 1_500), [])
        await store.append("kept", entries("taken back"), nothing)
        await store.checkpoints.restore("kept", made.id, Place(0, 1_501), "back", [], nothing)  # on the other's branch
        deleting = asyncio.create_task(store.delete_session("gone"))
        for i in range(50):
            await store.append("kept", entries(f"x{i}"), nothing)
        assert await deleting is True
    async with opened(path) as store:
        assert await log_of(store, "kept") == [f"m{i}" for i in range(1_500)] + [f"x{i}" for i in range(50)]


async def test_a_deleted_session_is_nowhere_in_the_bytes_of_the_folder(path):
    async with opened(path, "kept", "gone") as store:
        for i in range(300):  # entries of both sessions lie on the same pages
            await store.append("gone", entries(f"SECRET-LOG-{i} " * 9), nothing)
            await store.append("kept", entries(f"public {i} " * 5), nothing)
        ruled = StoredEntry(b"tulip", b"", (StoredVerdict(b"tulip", "v1", b"rules of tulip"),))
        secret = StoredEntry(b"SECRET-LONG " * 5000, b"", (StoredVerdict(b"SECRET-DIGEST", "v1", b"SECRET-RULE"),))
        await store.append("gone", [ruled, secret], nothing)
        await store.append("kept", [ruled], nothing)
        await store.save_activation("gone", "provider", b"SECRET-STATE")
        await store.replace("gone", 100, entries("SECRET-AFTER"), nothing)
        await store.save_activation("gone", "provider", b"SECRET-STATE")
        await store.save_summary("gone", key(1), summary("SECRET-SUMMARY"))
        assert is_there(path, "SECRET")
        assert await store.delete_session("gone") is True
        assert not is_there(path, "SECRET")
        assert await store.load("gone") is None
        kept = await store.load("kept")
        assert (len(kept.entries), kept.verdicts) == (301, ruled.verdicts)
    assert not is_there(path, "SECRET")
    assert is_there(path, "public")


async def test_a_shared_summary_stays_until_its_last_session_is_deleted(store):
    await store.save_summary("s", key(1), summary("shared"))
    await store.save_summary("s", key(2), summary("own"))
    await store.find_summaries("t", [key(1)])
    await store.delete_session("s")
    assert set(await store.find_summaries("t", [key(1), key(2)])) == {key(1)}
    await store.delete_session("t")
    assert await store.find_summaries("nobody", [key(1)]) == {}


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


async def test_purge_removes_what_no_log_reaches_to_the_last_byte(path):
    async with opened(path, "s", "t") as store:
        await store.append("s", entries("kept", *["SECRET-LOG " * 50] * 200), nothing)
        await store.save_summary("s", key("old"), summary("SECRET-SUMMARY"))
        await store.save_summary("s", key("new"), summary("still used"))
        await store.save_summary("nobody", key("stray"), summary("SECRET-STRAY"))
        await store.replace("s", 1, entries("after"), nothing)
        await store.find_summaries("s", [key("new")])
        assert is_there(path, "SECRET")
        assert await store.purge() >= 200 * 550
        assert not is_there(path, "SECRET")
        assert await log_of(store) == ["kept", "after"]
        assert set(await store.find_summaries("s", [key("old"), key("new")])) == {key("new")}
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
