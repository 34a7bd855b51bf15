"""The same content and query give the same hits on SQLite and on PostgreSQL; each ranks them in its own way."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from summarizing_context.messages.search_terms import query_terms
from summarizing_context.stores.base import Scope, SessionStore, StoredEntry
from summarizing_context.stores.postgres.store import PostgresStore
from summarizing_context.stores.sqlite.store import SqliteStore
from tests.contract.store_builders import key, nothing, summary

pytestmark = pytest.mark.anyio

WORDS = [f"{letter}{end}" for letter in "bcdfgklmnprstvz" for end in ("apple", "iver", "onder", "una")]
ODD = ["src/parse_config.py", "Straße", "naïve", "HTTPServer", "running runs", "迁移失败", "the", "café", "v1.2.3"]
QUERIES = [*(" ".join(random.Random(seed).sample(WORDS, 1 + seed % 4)) for seed in range(12)), *ODD, "the naive run"]


def say(count: int, chance: random.Random) -> list[StoredEntry]:
    """Messages whose words differ in how common they are; some are long, and some say the same."""
    common = [1 / (at + 1) for at in range(len(WORDS))]
    texts = [" ".join(chance.choices(WORDS, common, k=chance.choice((3, 9, 40, 300)))) for _ in range(count)]
    texts += [f"the {odd} {chance.choice(WORDS)}" for odd in ODD for _ in range(3)]
    texts += [texts[at] for at in range(0, count, 7)]
    return [StoredEntry(json.dumps({"role": "user", "content": text}).encode(), b"") for text in texts]


async def fill(store: SessionStore) -> None:
    chance = random.Random(7)
    for session in ("s", "t"):
        await store.claim(session)
        await store.append(session, say(100, chance), nothing)
    very_long = " ".join(chance.choices(WORDS, k=9_000))
    await store.append("s", [StoredEntry(json.dumps({"role": "user", "content": very_long}).encode(), b"")], nothing)
    for number in range(5):
        text = " ".join(chance.choices(WORDS, k=60))
        await store.save_summary("s", key(number), summary(text), {key(number): (number, number + 1)})


async def hits(store: SessionStore, scope: Scope) -> dict[str, set[tuple[object, ...]]]:
    found: dict[str, set[tuple[object, ...]]] = {}
    for query in QUERIES:
        matches = await store.index.find(query_terms(query), scope, 1_000)
        assert [match.score for match in matches] == sorted((match.score for match in matches), reverse=True)
        found[query] = {(match.kind, match.session_id, match.start) for match in matches}
    return found


async def test_hits_are_the_same(tmp_path: Path, address: str):
    stores: list[SqliteStore | PostgresStore] = [SqliteStore(tmp_path / "run.db"), PostgresStore(address)]
    for store in stores:
        await store.open()
        await fill(store)
    for scope in (Scope("s", "s"), Scope("s")):
        ours, theirs = [await hits(store, scope) for store in stores]
        assert ours == theirs
        assert all(ours.values())
    for store in stores:  # the collection grows smaller
        await store.replace("s", 20, say(10, random.Random(8)), nothing)
        await store.delete_session("t")
        await store.purge()
    ours, theirs = [await hits(store, Scope("s")) for store in stores]
    assert ours == theirs
    for store in stores:
        await store.close()
