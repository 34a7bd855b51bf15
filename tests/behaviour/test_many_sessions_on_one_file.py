"""Sessions on one file: no add is lost, what is deleted leaves the file, and what is damaged there is noticed."""

import asyncio
import json
import random
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings
from summarizing_context.cli import main
from summarizing_context.errors import DamagedMessageError
from tests.behaviour.contexts import begun, said
from tests.contract.store_builders import bytes_beside, sql
from tests.laws.builders import Message, user

PATIENCE = 300  # seconds, for what takes a few
LOG = [said(number, f"look at src/mod{number}.py") for number in range(20)]


async def test_a_hundred_sessions_that_add_at_once_lose_nothing(tmp_path: Path):
    async def one(session: str) -> None:
        async with begun(LOG, of=Settings, store=tmp_path / "run.db", session_id=session, token_counter="estimate"):
            pass

    names = [f"s{number}" for number in range(100)]
    await asyncio.wait_for(asyncio.gather(*map(one, names)), PATIENCE)
    listed = tmp_path / "sessions.json"
    command = ["sessions", "list", "--store", str(tmp_path / "run.db"), "--json", str(listed)]
    assert await anyio.to_thread.run_sync(main, command) == 0
    told = json.loads(await anyio.Path(listed).read_text())["sessions"]
    assert {info["session_id"]: info["messages"] for info in told} == dict.fromkeys(names, len(LOG))


async def test_an_add_waits_while_another_process_has_the_file_locked_for_longer_than_seconds(tmp_path: Path):
    async with begun(LOG[:1], of=Settings, store=tmp_path / "run.db") as context:
        with sql(tmp_path / "run.db") as other:
            other.execute("begin immediate")
            adding = asyncio.ensure_future(context.add_message(LOG[1]))
            await asyncio.sleep(6)
            other.execute("rollback")
        await asyncio.wait_for(adding, PATIENCE)
        assert await context.get_messages() == LOG[:2]


async def test_a_deletion_that_is_killed_leaves_a_file_that_purge_puts_in_order(tmp_path: Path):
    store, draw = tmp_path / "run.db", random.Random(7)
    words = (" ".join(f"secret{draw.randrange(100_000)}" for _ in range(20)) for _ in range(800))
    given: dict[str, Any] = {"of": Settings, "store": store, "token_counter": "estimate", "count_tokens": None}
    async with begun(session_id="long", **given) as long:
        await long.set_messages([said(at, f"secret {text}") for at, text in enumerate(words)])
    command = [sys.executable, "-m", "summarizing_context", "sessions"]
    with anyio.fail_after(PATIENCE):
        async with (
            await anyio.open_process([*command, "delete", "long", "--store", str(store), "--yes"]) as deletion,
            begun(session_id="other", **given) as other,
        ):
            while deletion.returncode is None and await other.search("secret", scope="all"):
                await other.add_message(LOG[0])
            if deletion.returncode is None:
                deletion.kill()
            await deletion.wait()
        assert (await anyio.run_process([*command, "purge", "--store", str(store), "--yes"])).returncode == 0
    assert not any(b"secret" in content for content in bytes_beside(store).values())
    async with begun(session_id="long", **given) as again:
        assert await again.get_messages() == []


# A byte of a stored message that became another.


async def filled(path: Path, *, messages: int = 50) -> list[Message]:
    log = (user(f"SECRET m{at} " + "word " * 30) for at in range(messages))
    async with begun(log, of=Settings, store=path, session_id="s1") as context:
        return await context.get_messages()


def damage_message(path: Path, seq: int) -> None:
    """Change a letter of one stored message."""
    with sql(path) as file:
        (data,) = file.execute("select message from entries where position = ?", (seq,)).fetchone()
        file.execute("update entries set message = ? where position = ?", (data.replace(b"SECRET", b"SECRES"), seq))


def chain(error: BaseException | None) -> str:
    """All that an error and its causes hold."""
    if error is None:
        return ""
    held = repr(error) + repr(vars(error)) + str(getattr(error, "doc", "")) + str(getattr(error, "object", ""))
    return held + chain(error.__cause__ or error.__context__)


@pytest.mark.parametrize("read_only", [False, True])
async def test_the_error_names_session_and_message_and_the_way_out(tmp_path: Path, read_only: bool):
    await filled(tmp_path / "a.db")
    damage_message(tmp_path / "a.db", 17)
    with pytest.raises(DamagedMessageError, match=r"message 17 of session 's1' is damaged.*sessions export") as raised:
        async with begun(of=Settings, store=tmp_path / "a.db", session_id="s1", read_only=read_only):
            pass
    assert (raised.value.session_id, raised.value.seq) == ("s1", 17)
    assert "SECRE" not in chain(raised.value)


@pytest.mark.parametrize("damaged", [True, False])
def test_all_other_messages_are_exported_and_imported_again(tmp_path, capsys, damaged: bool):
    log = anyio.run(filled, tmp_path / "a.db")
    if damaged:
        damage_message(tmp_path / "a.db", 17)
        del log[17]
    out = tmp_path / "s1.jsonl"
    export = ["sessions", "export", "s1", "--store", str(tmp_path / "a.db"), "--out", str(out)]
    assert main(export) == (4 if damaged else 0)
    assert ("Damaged and left out: s1 [17]" in " ".join(capsys.readouterr().out.split())) is damaged
    assert [message for message, _ in json.loads(out.read_text())["messages"]] == log
    assert out.stat().st_mode & 0o777 == 0o600
    assert main(export) == 2
    assert main(["sessions", "import", str(out), "--store", str(tmp_path / "b.db")]) == 0
    assert anyio.run(partial(filled, messages=0), tmp_path / "b.db") == log
