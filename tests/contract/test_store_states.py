"""Activation states of checkpoints: kept as differences, come back whole, and leave nothing of themselves behind."""

from __future__ import annotations

import hashlib
import json
import random
from functools import cache

import pytest

from summarizing_context.stores.base import Place, StoredProviderView
from summarizing_context.stores.relational.checkpoints import DEEPEST, pack, unpack
from tests.contract.store_builders import opened, sql

pytestmark = pytest.mark.anyio
STATES = DEEPEST + 24  # the last of them build on one that stands whole again


@cache
def line_of(at: int) -> str:
    return random.Random(at).randbytes(40).hex()


def state_of(number: int, provider: str = "p") -> bytes:
    """A state that shares most of its lines with those before and after it."""
    lines = [line_of(at) for at in range(number, number + 60)]
    return json.dumps({"serial": number, "text": "\n".join(lines), "provider": provider}).encode()


async def kept(store, session_id: str, number: int, *providers: str) -> str:
    shown = [StoredProviderView(provider, state_of(number, provider), "[]") for provider in providers or ("p",)]
    return (await store.checkpoints.save(session_id, None, Place(0, 0), shown)).id


async def came_back(store, session_id: str, marks: dict[str, int], *providers: str) -> bool:
    for id, number in marks.items():
        found = await store.checkpoints.load(session_id, id)
        if [one.state for one in found.provider_views] != [
            state_of(number, provider) for provider in providers or ("p",)
        ]:
            return False
    return True


@pytest.mark.parametrize("seed", range(30))
def test_what_is_packed_comes_back_whatever_it_is(seed: int):
    rng = random.Random(seed)
    words = [b'","', b"\\n", b"},{", b"\n", b"\xff\x00", b"a line\\n", b"another", b"", rng.randbytes(9)]
    data, base = (b"".join(rng.choices(words, k=rng.randrange(60))) for _ in range(2))
    for known in (b"", base, data, data + base):
        assert unpack(pack(data, known), known) == data


async def test_states_cost_what_is_new_in_them_and_all_come_back(tmp_path):
    path = tmp_path / "run.db"
    async with opened(path, "s") as store:
        marks = {await kept(store, "s", number, "p", "q"): number for number in range(STATES)}
    async with opened(path, "s") as store:
        marks[await kept(store, "s", STATES, "p", "q")] = STATES  # against one that this process has not kept
        assert await came_back(store, "s", marks, "p", "q")
    with sql(path) as connection:
        stored, deepest = connection.execute("select sum(length(state)), max(depth) from checkpoint_states").fetchone()
    assert stored < sum(len(state_of(number)) for number in range(STATES)) / 10
    assert deepest == DEEPEST


@pytest.mark.parametrize("seed", range(3))
async def test_forgetting_some_leaves_the_others_whole_and_nothing_of_those(tmp_path, seed: int):
    path, rng = tmp_path / "run.db", random.Random(seed)
    async with opened(path, "s", "t") as store:
        marks = {await kept(store, "s", number): number for number in range(20)}
        other = {await kept(store, "t", 1): 1}  # equal to one of the first session
        gone = dict(rng.sample(sorted(marks.items()), 14))
        for id in gone:
            await store.checkpoints.delete("s", id)
            del marks[id]
        assert await came_back(store, "s", marks)
        marks |= {await kept(store, "s", number): number for number in range(20, 25)}
        assert await came_back(store, "s", marks)
        await store.delete_session("t" if seed else "s")
        assert await came_back(store, *(("s", marks) if seed else ("t", other)))
        alive = set(marks.values()) if seed else {1}
    with sql(path) as connection:
        digests = {digest for (digest,) in connection.execute("select digest from checkpoint_states")}
    assert digests == {hashlib.sha256(state_of(number)).digest()[:16] for number in alive}
