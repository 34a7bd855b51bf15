"""Sessions on one file, damage, and the documented programs killed at any point: nothing acknowledged is lost."""

import asyncio
import itertools
import json
import random
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.cli import main
from summarizing_context.errors import DamagedMessageError
from tests.behaviour.contexts import begun, fill, said
from tests.behaviour.killed import run
from tests.contract.store_builders import bytes_beside, sql
from tests.docs import documents
from tests.killed_work import killed
from tests.laws.builders import Message, call, user
from tests.laws.checkers import refusals
from tests.laws.shapes import answered_ids
from tests.providers.protocols import completion
from tests.providers.serve import serving_apart
from tests.providers.server import Answer, Request

PATIENCE = 300  # seconds, for what takes a few
LOG = [said(number, f"look at src/mod{number}.py") for number in range(20)]


async def test_a_hundred_sessions_that_add_at_once_lose_nothing(tmp_path: Path):
    async def one(session: str) -> None:
        async with begun(of=Settings, store=tmp_path / "run.db", session_id=session) as context:
            for at in range(0, len(LOG), 4):
                await fill(context, LOG[at : at + 4])

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
    given: dict[str, Any] = {"of": Settings, "store": store, "count_tokens": None}
    async with begun(session_id="long", **given) as long:
        await long.set_messages([said(at, f"secret {text}") for at, text in enumerate(words)])
    delete = ["sessions", "delete", "long", "--store", str(store), "--yes"]
    with anyio.fail_after(PATIENCE):
        async with (
            await anyio.open_process([sys.executable, "-m", "summarizing_context", *delete]) as deletion,
            begun(session_id="other", **given) as other,
        ):
            while deletion.returncode is None and await other.search("secret", scope="all"):
                await other.add_message(LOG[0])
                await asyncio.sleep(0.01)
            if deletion.returncode is None:
                deletion.kill()
            await deletion.wait()
        purge = ["sessions", "purge", "--store", str(store), "--yes"]
        assert await anyio.to_thread.run_sync(main, purge) == 0
    assert not any(b"secret" in content for content in bytes_beside(store).values())
    async with begun(session_id="long", **given) as again:
        assert await again.get_messages() == []


def chain(error: BaseException | None) -> str:
    """All that an error and its causes hold."""
    if error is None:
        return ""
    held = repr(error) + repr(vars(error)) + str(getattr(error, "doc", "")) + str(getattr(error, "object", ""))
    return held + chain(error.__cause__ or error.__context__)


def test_a_damaged_message_is_named_with_the_way_out_and_all_others_are_exported_and_imported_again(tmp_path, capsys):
    stores, out = [tmp_path / f"{name}.db" for name in "ab"], tmp_path / "s1.jsonl"

    async def log_of(store: Path, *added: Message, **given: Any) -> list[Message]:
        async with begun(added, of=Settings, store=store, session_id="s1", **given) as context:
            return await context.get_messages()

    log = anyio.run(log_of, stores[0], *(user(f"SECRET m{at} " + "word " * 30) for at in range(50)))
    with sql(stores[0]) as file:
        (data,) = file.execute("select message from entries where position = 17").fetchone()
        file.execute("update entries set message = ? where position = 17", (data.replace(b"SECRET", b"SECRES"),))
    for read_only in (False, True):
        told = pytest.raises(DamagedMessageError, match=r"message 17 of session 's1' is damaged.*sessions export")
        with told as raised:
            anyio.run(partial(log_of, stores[0], read_only=read_only))
        assert (raised.value.session_id, raised.value.seq) == ("s1", 17)
        assert "SECRE" not in chain(raised.value)
    export = ["sessions", "export", "s1", "--store", str(stores[0]), "--out", str(out)]
    assert main(export) == 4
    assert "Damaged and left out: s1 [17]" in " ".join(capsys.readouterr().out.split())
    assert [message for message, *_ in json.loads(out.read_text())["messages"]] == log[:17] + log[18:]
    assert out.stat().st_mode & 0o777 == 0o600
    assert main(export) == 2
    assert main(["sessions", "import", str(out), "--store", str(stores[1])]) == 0
    assert anyio.run(log_of, stores[1]) == log[:17] + log[18:]


# The documented programs, killed at every point of a step and run again: no provider refuses a request of theirs.


TURN = ["user", "assistant", "tool", "tool", "assistant"]
PAGES = {"README.md": 12, "docs/quickstart.md": 14}  # and at how many points each is killed


class Provider:
    """A chat provider that refuses what OpenAI refuses. It asks for two tools, then it answers."""

    def __init__(self) -> None:
        self.refused, self.requests = list[str](), list[list[Message]]()
        self.ids = itertools.count(1)

    def answer(self, request: Request) -> Answer:
        rows = request.body["messages"]
        self.requests.append(rows)
        if problems := refusals(rows) + ["nothing is asked"] * (rows[-1]["role"] == "assistant"):
            self.refused += problems
            return Answer(400)
        asked = max(at for at, row in enumerate(rows) if row["role"] == "user")
        reply = completion("It reads a file.")
        if request.body.get("tools") and not any(map(answered_ids, rows[asked:])):
            made = [(f"call_{n}", "read_file", {"path": f"file {n}.py"}) for n in itertools.islice(self.ids, 2)]
            reply = completion(None, tool_calls=call("openai", *made)["tool_calls"])
        return Answer(body=json.dumps(reply).encode())


async def log_of(folder: Path) -> list[Message]:
    async with open_context(Settings(store=folder / "agent.db", session_id="s1")) as context:
        return await context.get_messages()


@pytest.mark.parametrize("page", PAGES)
def test_a_program_killed_at_any_point_runs_again_and_no_request_is_refused(page: str, tmp_path: Path):
    fake, texts = Provider(), (block.text for block in documents.blocks("python") if block.page == page)
    program = next(text for text in texts if "AsyncOpenAI" in text)
    with serving_apart(fake.answer) as server:
        env = {"OPENAI_BASE_URL": f"{server.root}/v1", "OPENAI_API_KEY": "none", "NO_PROXY": "*"}
        for point in itertools.count(1):
            (folder := tmp_path / str(point)).mkdir()
            name, status = killed(run, program, folder, env, point)
            if status == 0:
                break  # it has no such point
            assert status == signal.SIGKILL
            before = asyncio.run(log_of(folder))
            assert killed(run, program, folder, env, 0) == ([], 0)
            after = asyncio.run(log_of(folder))
            assert after[: len(before)] == before, "what was acknowledged stays"
            assert refusals(after) == [], "every call has its own result, in the log itself"
            if page == "docs/quickstart.md":
                # each turn ends as if nothing had happened; where it was over, the second run begins one
                assert [row["role"] for row in after] == TURN * (1 + ([row["role"] for row in before] == TURN)), name
    assert point == PAGES[page] + 1
    assert fake.refused == []
    assert "no result of this call" not in json.dumps(fake.requests)
