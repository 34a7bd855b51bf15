"""What the page on capacity shows for a load beyond one server's: partitions, and several databases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.assembly import open_store
from summarizing_context.stores.postgres.address import read_address
from tests import postgres_server
from tests.making import assistant, user

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "operate" / "capacity.md").read_text(encoding="utf-8")


def shown(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(text)


async def talk(address: str, session: str, turns: range, about: str) -> list[dict[str, Any]]:
    async with open_context(Settings(store=address, session_id=session)) as context:
        rows = [
            row
            for number in turns
            for row in (user(f"Plant bed {number} with {about}."), assistant(f"Bed {number} is planted."))
        ]
        await context.set_messages([*await context.get_messages(), *rows])
        return await context.get_messages()


async def test_a_store_goes_on_with_its_messages_in_partitions(postgres, tmp_path):
    address = postgres_server.address_for(tmp_path)
    known = read_address(address)
    await talk(address, "a", range(30), "tulips")
    before = await talk(address, "b", range(3), "roses")
    with psycopg.connect(known.url, autocommit=True) as connection:
        connection.execute(shown("sql").replace("summarizing_context", known.schema).encode())
    after = await talk(address, "b", range(3, 400), "roses")  # so many are copied
    assert after[: len(before)] == before
    assert len(after) == 800
    async with open_context(Settings(store=address, session_id="b")) as context:
        kept = await context.checkpoint()
        await context.set_messages(after[:5])
        await context.restore(kept)
        assert await context.get_messages() == after
        assert (await context.search("bed 399"))[0].start >= 790
    store = await open_store(address)
    assert await store.delete_session("a")
    assert await store.purge() >= 0
    await store.close()
    with psycopg.connect(known.url, autocommit=True) as connection:
        asked = f"select count(*) from {known.schema}.entries where convert_from(message, 'UTF8') like '%tulips%'"
        assert connection.execute(asked.encode()).fetchall() == [(0,)]


async def test_sessions_of_two_databases_do_not_meet(postgres, tmp_path):
    names: dict[str, Any] = {}
    exec(shown("python"), names)
    databases = [postgres_server.address_for(tmp_path / name) for name in "ab"]
    names["DATABASES"][:] = databases
    chosen = {f"project-{number}": names["store_of"](f"project-{number}") for number in range(6)}
    assert set(chosen.values()) == set(databases)
    for project, address in chosen.items():
        assert await talk(address, project, range(2), project)
    for address in databases:
        store = await open_store(address, read_only=True)
        assert {one.session_id for one in await store.sessions()} == {one for one in chosen if chosen[one] == address}
        await store.close()
