"""The same content and query give the same hits in the same order on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from summarizing_context.messages.search_terms import query_terms
from summarizing_context.stores.base import Scope, SessionStore, StoredEntry
from summarizing_context.stores.postgres import words
from summarizing_context.stores.postgres.address import read_address
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


@asynccontextmanager
async def both(path: Path, address: str, **options: Any) -> AsyncIterator[tuple[SessionStore, SessionStore]]:
    """A store of each kind, open."""
    stores = SqliteStore(path / "run.db", **options), PostgresStore(address, **options)
    for store in stores:
        await store.open()
    try:
        yield stores
    finally:
        for store in stores:
            await store.close()


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
    await store.index.complete(Scope("s"))


async def hits(store: SessionStore, scope: Scope) -> dict[str, list[tuple[object, ...]]]:
    await store.index.complete(scope)
    found: dict[str, list[tuple[object, ...]]] = {}
    for query in QUERIES:
        matches = await store.index.find(query_terms(query), scope, 20)
        found[query] = [(match.kind, match.session_id, match.start, round(match.score, 9)) for match in matches]
    return found


async def test_hits_and_their_order_are_the_same_whatever_the_server_knows_of_its_tables(tmp_path, address):
    async with both(tmp_path, address) as (sqlite, postgres):
        for store in (sqlite, postgres):
            await fill(store)
        for scope in (Scope("s", "s"), Scope("s")):
            before = await hits(postgres, scope)
            assert before == await hits(sqlite, scope)
            assert all(before.values())
            with psycopg.connect(read_address(address).url, autocommit=True) as connection:
                connection.execute(f"analyze {read_address(address).schema}.words".encode())
            assert await hits(postgres, scope) == before
        for store in (sqlite, postgres):  # the collection grows smaller
            await store.replace("s", 20, say(10, random.Random(8)), nothing)
            await store.delete_session("t")
            await store.purge()
        assert await hits(postgres, Scope("s")) == await hits(sqlite, Scope("s"))


async def test_readers_of_what_is_not_indexed_yet_find_the_same(tmp_path, address):
    async with both(tmp_path, address, gives_way=lambda: True) as stores:
        for store in stores:
            await fill(store)
            await store.append("s", say(60, random.Random(9)), nothing)
            assert await store.index.backlog()
        async with both(tmp_path, address, read_only=True) as (sqlite, postgres):
            assert await hits(postgres, Scope("s")) == await hits(sqlite, Scope("s"))


async def test_a_store_of_the_version_before_knows_its_sums_after_the_migration(tmp_path, address):
    known = read_address(address)
    async with both(tmp_path, address) as (_, postgres):
        await fill(postgres)
        before = await hits(postgres, Scope("s"))
    with psycopg.connect(known.url, autocommit=True) as connection:  # as that version left it
        connection.execute(f"set search_path = {known.schema}".encode())
        connection.execute("update words set size = least(4000, size - 4000 * part)")
        connection.execute("drop table word_totals")
        connection.execute("update version set number = 9")
    async with both(tmp_path, address) as (_, postgres):
        assert await hits(postgres, Scope("s")) == before


def test_words_of_megabytes_are_read_piece_by_piece(monkeypatch: pytest.MonkeyPatch):
    text, sizes, pattern = "".join(f"GET /v1/größe_{at} 迁移 200\n" for at in range(20_000)), list[int](), words._APART
    whole = pattern.sub(" ", words._plain(text)).strip()

    class Noted:
        def sub(self, by: str, piece: str) -> str:
            sizes.append(len(piece))
            return pattern.sub(by, piece)

    monkeypatch.setattr(words, "_APART", Noted())
    assert words.plain(text) == whole
    assert " ".join(part for _, _, part in words.parts(text)) == whole
    assert max(sizes) <= 200_000 < len(text)
