"""Vectors in a database that has pgvector: the same contract, compared by the server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.stores.postgres.address import read_address
from summarizing_context.stores.postgres.store import PostgresStore
from tests import postgres_server
from tests.contract import test_vectors as contract
from tests.contract.test_vectors import LONG, ONE, OTHER, embed
from tests.laws.builders import user


@pytest.fixture(scope="module")
def database(postgres: str) -> Iterator[str]:
    """A database of its own, for an extension belongs to all schemas of one."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        if not connection.execute("select from pg_available_extensions where name = 'vector'").fetchall():
            pytest.skip("this server has no pgvector")
        connection.execute(f"create database {name}".encode())
        yield urlunsplit(urlsplit(postgres)._replace(path=f"/{name}"))
        connection.execute(f"drop database {name} with (force)".encode())


@pytest.fixture
def address(database: str) -> str:
    """A store that is not there yet."""
    return f"{database}{'&' if '?' in database else '?'}schema=test_{uuid.uuid4().hex}&lease={postgres_server.LEASE}"


@pytest.fixture
def pgvector(database: str) -> Iterator[None]:
    """The extension, in a schema with an unusual name."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute('create schema if not exists "Far away"')
        connection.execute('create extension vector schema "Far away"')
        yield
        connection.execute("drop extension vector cascade")


def meanings(address: str) -> list[Any]:
    known = read_address(address)
    with psycopg.connect(known.url) as connection:
        query = f"select number, meaning::text from {known.schema}.vectors order by number"
        return connection.execute(query.encode()).fetchall()


async def opened(address: str, **options: Any) -> PostgresStore:
    store = PostgresStore(address, **options)
    await store.open()
    return store


@pytest.mark.usefixtures("pgvector")
@pytest.mark.parametrize(
    "case",
    [
        contract.test_vectors_are_kept_and_compared,
        contract.test_each_recipe_and_each_kind_of_text_has_vectors_of_its_own,
        contract.test_a_newer_vector_takes_the_place_of_an_older_one_also_after_reopening,
        contract.test_vectors_of_another_length_count_as_missing_and_those_dropped_are_gone,
        contract.test_what_is_forgotten_is_not_found_even_if_its_number_is_used_again,
        contract.test_an_embedding_whose_vectors_change_their_length_embeds_anew,
        contract.test_messages_and_memories_are_found_by_meaning,
    ],
)
async def test_the_contract_of_vectors_holds(case: Any, address: str):
    await case(Settings(store=address, session_id="s"))


@pytest.mark.usefixtures("pgvector")
async def test_the_server_compares(address: str, monkeypatch: pytest.MonkeyPatch):
    async with open_context(Settings(store=address, session_id="s"), embedder=embed) as context:
        await context.add_message(user("A kitten sleeps"))
        await context.add_message(user("The invoice was sent"))
        monkeypatch.delattr("numpy.frombuffer")
        assert [hit.start for hit in await context.search("cat")] == [0]
    async with open_context(Settings(store=address, session_id="s"), embedder=embed, read_only=True) as context:
        assert [hit.start for hit in await context.search("cat")] == [0]


async def test_vectors_from_before_the_extension_are_compared_and_then_kept_for_it(
    address: str, request: pytest.FixtureRequest
):
    store = await opened(address)
    await store.vectors.save("row", "r", {1: ONE, 2: OTHER, 3: LONG})
    await store.close()
    request.getfixturevalue("pgvector")
    reader = await opened(address, read_only=True)  # it adds no column
    assert set(await reader.vectors.near("row", "r", [1, 2, 3], ONE)) == {1, 2}
    await reader.close()
    store = await opened(address)
    assert meanings(address) == [(1, None), (2, None), (3, None)]
    for _ in range(2):
        near = await store.vectors.near("row", "r", [1, 2, 3], ONE)
        assert near == {1: pytest.approx(1.0), 2: pytest.approx(0.7071, abs=1e-4)}
        assert [number for number, meaning in meanings(address) if meaning is not None] == [1, 2, 3]
    await store.close()
