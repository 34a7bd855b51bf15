"""The documented programs, killed at every point of a step and run again: no provider refuses a request of theirs."""

import asyncio
import itertools
import json
import signal
from pathlib import Path

import pytest

from summarizing_context import Settings, open_context
from tests.behaviour.killed import run
from tests.docs import documents
from tests.killed_work import killed
from tests.laws.builders import Message as Row
from tests.laws.builders import assistant, call
from tests.laws.checkers import refusals
from tests.laws.shapes import answered_ids
from tests.providers.serve import serving_apart
from tests.providers.server import Answer, Request

TURN = ["user", "assistant", "tool", "tool", "assistant"]
PAGES = {"README.md": 12, "docs/quickstart.md": 14}  # and at how many points each is killed


class Provider:
    """A chat provider that refuses what OpenAI refuses. It asks for two tools, then it answers."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.requests: list[list[Row]] = []
        self.made = 0

    def answer(self, request: Request) -> Answer:
        rows = request.body["messages"]
        self.requests.append(rows)
        if problems := refusals(rows) + ["nothing is asked"] * (rows[-1]["role"] == "assistant"):
            self.refused += problems
            return Answer(400)
        asked = max(at for at, row in enumerate(rows) if row["role"] == "user")
        message: Row = assistant("It reads a file.")
        if request.body.get("tools") and not any(map(answered_ids, rows[asked:])):
            self.made += 2
            made = [(f"call_{n}", "read_file", {"path": f"file {n}.py"}) for n in (self.made - 1, self.made)]
            message = call("openai", *made) | {"content": None}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        told = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        return Answer(body=json.dumps(told).encode())


async def log_of(folder: Path) -> list[Row]:
    async with open_context(Settings(store=folder / "agent.db", session_id="s1")) as context:
        return await context.get_messages()


def roles(log: list[Row]) -> list[str]:
    return [row["role"] for row in log]


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
                assert roles(after) == TURN * (1 + (roles(before) == TURN)), name
    assert point == PAGES[page] + 1
    assert fake.refused == []
    assert "no result of this call" not in json.dumps(fake.requests)
