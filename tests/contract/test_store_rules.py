"""Standing rules beside a log: written with their message, gone with it, and read again where a file has none."""

import pytest

from summarizing_context.stores.base import StoredEntry, StoredVerdict
from tests.contract.store_builders import bytes_beside, nothing, opened, sql

pytestmark = pytest.mark.usefixtures("backend")


def row(name: str, version: str = "v1") -> StoredVerdict:
    return StoredVerdict(name.encode(), version, f"rules of {name}".encode())


def said(*names: str) -> list[StoredEntry]:
    """Messages that humans wrote; a name that begins with a dot is somebody else's."""
    return [StoredEntry(name.encode(), b"", () if name.startswith(".") else (row(name),)) for name in names]


async def kept(store, session_id: str = "s") -> list[str]:
    return [one.digest.decode() for one in (await store.load(session_id)).verdicts]


async def test_rules_are_written_with_their_messages_and_come_back_in_the_order_of_the_log(where):
    """Those of several versions stand side by side, and the first write wins."""
    async with opened(where, "s", "t") as store:
        await store.append("s", said("b", ".tool", "a"), nothing)
        await store.append("s", said("c", "b"), nothing)
        assert (await store.load("s")).verdicts == (row("b"), row("a"), row("c"))
        assert (await store.load("t")).verdicts == ()
        await store.save_verdicts("s", [(0, row("b", "v2")), (2, row("a")._replace(verdict=b"other"))])
        await store.save_verdicts("s", [])
        assert (await store.load("s")).verdicts == (row("b"), row("b", "v2"), row("a"), row("c"))


async def test_what_a_replaced_log_said_is_forgotten(store):
    await store.append("s", said("a", "b", "c", "a"), nothing)
    await store.replace("s", 2, said("d", "b"), nothing)
    assert await kept(store) == ["a", "b", "d"]
    await store.replace("s", 0, said("b"), nothing)
    assert await kept(store) == ["b"]


async def test_a_deleted_session_leaves_no_byte_of_its_rules(path):
    async with opened(path, "s", "t") as store:
        await store.append("s", said("tulip"), nothing)
        await store.append("t", said("tulip", "rose"), nothing)
        assert await store.delete_session("t")
        assert await kept(store) == ["tulip"]
    assert not any(b"rules of rose" in content for content in bytes_beside(path).values())
    with sql(path) as connection:
        assert connection.execute("select count(*) from rules").fetchone() == (1,)
