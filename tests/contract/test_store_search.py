"""The index of a store finds what is there, and forgets what is gone; so do keepers of vectors, SQLite and Chroma."""

import json
import random
import shutil
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anyio
import hypothesis
import pytest
from hypothesis import strategies as st

from summarizing_context import MissingExtraError, Settings, StoreError, open_context
from summarizing_context.assembly import make_vectors
from summarizing_context.contrib import chroma
from summarizing_context.messages.text import query_terms
from summarizing_context.retrieval.embeddings import packed
from summarizing_context.stores import base
from summarizing_context.stores.base import Match, MemoryScope, Present, Scope, SessionStore, StoredEntry
from summarizing_context.stores.sqlite.store import Database, SqliteStore
from tests.contract.store_builders import check_index, is_there, key, make_store, nothing, opened, summary

of_every_backend = pytest.mark.usefixtures("backend")
needs_chroma = pytest.mark.skipif(find_spec("chromadb") is None, reason="chromadb is not installed: the extra `chroma`")


@pytest.fixture
def where(path: Path) -> str:
    return str(path)


def say(*texts: str) -> list[StoredEntry]:
    return [StoredEntry(json.dumps({"role": "user", "content": text}).encode(), b"") for text in texts]


async def found(store: SessionStore, query: str, scope: Scope | None = None) -> list[Match]:
    return await store.search(query_terms(query), scope or Scope("s", "s"), 50)


async def places(store: SessionStore, query: str, scope: Scope | None = None) -> list[tuple[str, int]]:
    matches = await found(store, query, scope)
    return sorted((session_id, start) for match in matches for session_id, start, _ in match.places)


async def test_a_message_is_found_by_its_words_in_any_form_and_case(store):
    await store.append("s", say("The migration of BILLING tables", "nothing here", "src/parse_config.py"), nothing)
    await store.append("s", say("数据库迁移失败了", "Le café était fermé"), nothing)  # a script without spaces, accents
    decomposed = unicodedata.normalize("NFD", "ガイド.pdf, 계획서.txt")  # as names of files from macOS
    coloured = "\x1b[31mFAILED\x1b[0m te\x1b[1mst_x"
    await store.append("s", say("서버는 서울에", decomposed, coloured, "ｻｰﾊﾞｰ ﬁx Ａ１"), nothing)
    for at, queries in {
        0: ("migrations", "billing", "Migration table", "zebra billing"),
        2: ("src/parse_config.py", "parse_config", "config"),
        3: ("迁移",),
        4: ("cafe", "CAFÉ ferme"),
        5: ("서버", "서버의 위치"),  # Korean particles stand at their words
        6: ("ガイド", "계획서"),
        7: ("failed", "test_x"),
        8: ("サーバー", "fix", "a1"),
    }.items():
        assert [[match.start for match in await found(store, query)] for query in queries] == [[at]] * len(queries)
    assert (await found(store, "billing"))[0].text == "The migration of BILLING tables"
    assert await found(store, "zebra") == await found(store, "移迁") == []


async def test_scopes_are_a_session_a_project_and_all_and_what_a_fork_shares_is_told_of_both(store):
    """First of the one that asks."""
    for session, project in (("a", "p"), ("b", "p"), ("c", "q")):
        await store.claim(session, project=project)
        await store.append(session, say(f"tulip in {session}", "rose"), nothing)
    made = await store.save_checkpoint("c", Present(0, 1, None, []))
    await store.fork("c", made.id, "fork")
    await store.claim("fork")
    await store.append("fork", say("daisy"), nothing)
    for scope, sessions in (
        (Scope("a", "a"), "a"),
        (Scope("a", None, "p"), "ab"),
        (Scope("a"), ["a", "b", "c", "fork"]),
        (Scope("fork", "fork"), ["fork"]),
    ):
        assert await places(store, "tulip", scope) == [(session, 0) for session in sessions]
    own = [("fork", 0), ("fork", 1)]
    assert await places(store, "tulip daisy rose", Scope("fork", "fork")) == own
    assert await places(store, "tulip daisy rose", Scope("c", None, "q")) == [("c", 0), ("c", 1), *own]
    for nearest, other in (("c", "fork"), ("fork", "c")):
        (tulip,) = await found(store, "tulip", Scope(nearest, None, "q"))
        assert [session_id for session_id, *_ in tulip.places] == [nearest, other]


async def test_summaries_are_found_with_the_messages_they_stand_for(store):
    """What a replaced log held is found no more until it is restored."""
    await store.append("s", say(*"abcdef", "a rose"), nothing)
    await store.save_summary("s", key(1), summary("they agreed on tulips"), (2, 5))
    await store.save_summary("s", key(2), summary("tulips, from an older version"))
    (match,) = await found(store, "tulip")
    assert (match.kind, match.start, match.stop, match.text) == ("summary", 2, 5, "they agreed on tulips")
    await store.find_summaries("s", {key(1): (3, 6)})
    (match,) = await found(store, "tulip")
    assert (match.start, match.stop) == (3, 6)
    made = await store.save_checkpoint("s", Present(0, 7, None, []))
    await store.replace("s", 0, say("a daisy or tulip"), nothing)
    assert (await places(store, "tulip"), await places(store, "rose")) == ([("s", 0)], [])
    await store.restore("s", made.id, nothing, Present(1, 1, "back", []))
    assert (await places(store, "daisy"), await places(store, "rose")) == ([], [("s", 6)])


async def test_common_words_hide_no_rare_one(store):
    await store.append("s", say("the zebra"), nothing)
    for _ in range(2):
        await store.append("s", say(*(f"fix the test of server {at % 9}" for at in range(5_000))), nothing)
    await store.append("t", say("the other", "fix the other test", "nothing"), nothing)
    matches = await found(store, "fix the test server zebra")
    assert [match.start for match in matches] == [0, *range(10_000, 10_000 - 49, -1)]
    for scope in (Scope("t", "t"), Scope("t")):
        assert ("t", 1) in await places(store, "fix the test", scope)


@pytest.mark.parametrize("seed", range(2))
async def test_an_oracle_finds_the_same(store, path, seed):
    rng, words = random.Random(seed), [f"w{number}x" for number in range(40)]
    logs: dict[str, list[str]] = {"s": [], "t": []}
    for _ in range(40):
        log = logs[session := rng.choice("st")]
        texts = [" ".join(rng.choices(words, k=rng.randint(1, 6))) for _ in range(rng.randint(1, 4))]
        keep = len(log) if rng.random() < 0.7 else rng.randint(0, len(log))
        if keep == len(log):
            await store.append(session, say(*texts), nothing)
        else:
            await store.replace(session, keep, say(*texts), nothing)
        log[keep:] = texts
        if rng.random() < 0.2:
            await store.purge()
        query = set(rng.choices(words, k=2))
        expected = {(name, at) for name in logs for at, text in enumerate(logs[name]) if query & {*text.split()}}
        assert set(await places(store, " ".join(query), Scope(None))) == expected
    check_index(path)


async def test_what_stays_is_found_where_a_long_session_goes_whose_words_are_not_taken_back_one_by_one(
    store, path, monkeypatch
):
    async def both() -> list[tuple[str, str]]:
        return [(match.kind, match.text) for match in await found(store, "zebra", Scope(None))]

    await store.append("s", say("the zebra"), nothing)
    await store.append("t", say(*(f"zebra{at} of a SECRET" for at in range(1_000)), "zebra"), nothing)
    for session, name in (("s", "kept"), ("t", "gone")):
        await store.save_summary(session, key(name), summary(f"a zebra is {name}"), (0, 1))
    assert len(await both()) == 4
    taken_back = Mock()
    monkeypatch.setattr(Database, "unindex_texts", taken_back)
    assert await store.delete_session("t")
    assert sorted(await both()) == [("message", "the zebra"), ("summary", "a zebra is kept")]
    await store.append("s", say("another zebra"), nothing)
    assert len(await both()) == 3
    check_index(path)
    assert not is_there(path, "SECRET")
    assert not is_there(path, "secret")
    assert not any([*one.args[0]] for one in taken_back.call_args_list)


ODD = ["AND", "OR", "NOT", "NEAR(", '"', "*", "^a", ":", "-", "tulip"]
QUERIES = st.text(max_size=40) | st.lists(st.sampled_from(ODD)).map(" ".join)


@of_every_backend
@hypothesis.settings(max_examples=3, deadline=None)
@hypothesis.given(st.lists(QUERIES, min_size=4, max_size=8))
def test_no_query_is_a_syntax_error(queries):
    async def ask() -> None:
        async with opened(":memory:", "s") as store:
            for query in queries:
                await store.append("s", say("a tulip and an or", query), nothing)
                matches = await found(store, query)
                assert "tulip" not in query_terms(query) or matches

    anyio.run(ask)


ONE, OTHER, LONG = packed([1.0, 0.0]), packed([1.0, 1.0]), packed([1.0, 0.0, 0.0])
SCOPE = MemoryScope(None, "s")


def embed(texts: list[str]) -> list[list[float]]:
    """Near to each other are texts about cats, and others."""
    return [[1.0, 0.1] if "cat" in text or "kitten" in text else [0.0, 1.0] for text in texts]


embed.recipe = "cats/1"


@pytest.fixture(params=["sqlite", pytest.param("chroma", marks=needs_chroma)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    pytest.importorskip("numpy")
    return Settings(store=tmp_path / "run.db", session_id="s", vector_store=request.param)


@asynccontextmanager
async def vectors_of(settings: Settings) -> AsyncIterator[Any]:
    """An open store, and its vectors."""
    store = make_store(settings.store)
    await store.open()
    vectors = make_vectors(settings, store.vectors, read_only=False)
    yield store, vectors
    for _ in range(2 * hasattr(vectors, "close")):
        await vectors.close()
    await store.close()


@of_every_backend
async def test_vectors_are_kept_and_compared_with_those_of_their_length(settings):
    """Marks are vectors without bytes. What is forgotten is not found, even if its number is used again."""
    async with vectors_of(settings) as (store, vectors):
        assert await vectors.near("r", [1, 2], ONE) == {}
        await vectors.save("r", {1: ONE, 2: OTHER, 4: LONG})
        near = await vectors.near("r", [1, 2, 3, 4], ONE)
        assert near == {1: pytest.approx(1.0), 2: pytest.approx(0.7071, abs=1e-4)}
        assert await vectors.near("r", [2], ONE) == {2: near[2]}
        assert await vectors.near("r", [1, 2], LONG) == {}
        await vectors.save("r", {1: LONG})
        assert set(await vectors.near("r", [1, 2], LONG)) == {1}
        await vectors.save("other", {1: ONE})
        assert await vectors.near("other", [1, 2], ONE) == {1: pytest.approx(1.0)}
        await store.vectors.save("marks", {1: b"", 2: ONE, 4: b""})
        assert set(await store.vectors.near("marks", [1, 2, 3], b"")) == {1}
        await store.claim(SCOPE.session_id)
        id = (await base.keep_memories(store, SCOPE, [base.NewMemory("kitten", {})]))[0].id
        number = int(id[1:])
        other_words = lambda held, _: held.update({id: replace(held[id], content="cat")})  # noqa: E731
        for edit in (other_words, lambda held, _: held.pop(id)):
            await vectors.save("memories", {number: ONE})
            await store.edit_memories(SCOPE, edit)
            assert await vectors.near("memories", [number], ONE) == {}
    async with vectors_of(settings) as (_, vectors):
        await vectors.save("memories", {number + 1: OTHER})
        assert await vectors.near("memories", [number, number + 1], OTHER) == {number + 1: pytest.approx(1.0)}


def test_the_vectors_of_a_store_of_ones_own_need_no_numpy(monkeypatch):
    monkeypatch.setattr("summarizing_context.assembly.find_spec", lambda _: None)
    own = Mock()
    assert make_vectors(Settings(), own, read_only=False) is own
    with pytest.raises(MissingExtraError, match="numpy"):
        make_vectors(Settings(), SqliteStore(":memory:").vectors, read_only=False)


async def test_vectors_that_chroma_lost_are_told_of_once(monkeypatch, caplog):
    pytest.importorskip("numpy")
    monkeypatch.setattr(chroma, "find_spec", Mock())
    async with opened(":memory:") as store:
        vectors = chroma.ChromaVectors(store.vectors, None)
        vectors._client = Mock()
        vectors._table("any").get.return_value = {"ids": [], "embeddings": []}
        await vectors.save("r", {1: ONE})
        assert [await vectors.near("r", [1], ONE) for _ in range(2)] == [{}, {}]
    assert caplog.messages == ["vectors are gone; they are made again where the embedding works"]


async def test_memories_are_found_by_meaning(settings):
    for _ in range(2):  # the second time from what is kept
        async with open_context(settings, embedder=embed) as context:
            await context.memory.store("She has a cat")
            await context.memory.store("The invoice was sent")
            assert [hit.snippet for hit in await context.search("kitten")] == ["She has a cat"]
            assert (await context.memory.retrieve("kitten"))[0].content == "She has a cat"


@needs_chroma
async def test_a_chroma_folder_is_private_and_what_it_lost_is_made_anew(tmp_path):
    settings = Settings(store=tmp_path / "run.db", session_id="s", vector_store="chroma")
    folder = tmp_path / "run.db.chroma"
    async with open_context(settings, embedder=embed) as context:
        await context.memory.store("A kitten sleeps")
        assert len(await context.search("cat")) == 1
        assert folder.stat().st_mode & 0o077 == 0
    shutil.rmtree(folder)
    async with open_context(settings, embedder=embed) as context:
        assert [len(await context.search("cat")) for _ in range(2)] == [1, 1]
    for part in folder.rglob("*"):
        if part.is_file():
            part.write_bytes(b"no database" * 100)
    async with open_context(settings, embedder=embed) as context:
        with pytest.raises(StoreError, match=r"run\.db\.chroma: .* remove it"):
            await context.search("cat")
