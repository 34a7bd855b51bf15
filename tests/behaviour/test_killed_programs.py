"""The documented programs, killed at every point of a step and run again: no provider refuses a request of theirs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs import documents
from tests.docs.checkout import ROOT
from tests.laws.builders import Message as Row
from tests.laws.builders import assistant
from tests.laws.checkers import refusals
from tests.laws.shapes import answered_ids
from tests.providers.serve import serving_apart
from tests.providers.server import Answer, Request

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the programs are forked")

AT_MOST = 500  # seconds for all points of all programs, on a busy machine
TURN = ["user", "assistant", "tool", "tool", "assistant"]
QUICKSTART = "docs/quickstart.md"
PAGES = {"README.md": 12, QUICKSTART: 14}  # and at how many points each is killed


class Provider:
    """A chat provider on the loopback that refuses what OpenAI refuses. It asks for two tools, then it answers."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.requests: list[list[Row]] = []
        self.made = 0

    def reply(self, body: dict[str, Any]) -> tuple[int, Row]:
        """The status and the body of the answer to a request."""
        rows = body["messages"]
        self.requests.append(rows)
        if problems := refusals(rows) + ["nothing is asked"] * (rows[-1]["role"] == "assistant"):
            self.refused += problems
            return 400, {"error": {"message": "; ".join(problems), "type": "invalid_request_error"}}
        asked = max(at for at, row in enumerate(rows) if row["role"] == "user")
        message: Row = assistant("It reads a file.")
        if body.get("tools") and not any(map(answered_ids, rows[asked:])):
            message = {"role": "assistant", "content": None, "tool_calls": [self.call(), self.call()]}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return 200, {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}

    def call(self) -> Row:
        self.made += 1
        function = {"name": "read_file", "arguments": json.dumps({"path": f"file {self.made}.py"})}
        return {"id": f"call_{self.made}", "type": "function", "function": function}


def killed_at_every_point(url: str, folder: Path) -> list[dict[str, Any]]:
    """What became of each page's program that calls a provider, for each point at which it was killed."""
    for number, page in enumerate(PAGES):
        texts = (block.text for block in documents.blocks("python") if block.page == page)
        program = next(text for text in texts if "AsyncOpenAI" in text)
        (folder / f"{number}.py").write_text(program, encoding="utf-8")
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    env = {**keep, "PYTHONPATH": str(ROOT), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "NO_PROXY": "*"}
    command = [sys.executable, "-m", "tests.behaviour.killed", str(folder)]
    options: Any = {"capture_output": True, "text": True, "timeout": AT_MOST, "check": False}
    done = subprocess.run(command, cwd=ROOT, env=env, **options)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def roles(log: list[Row]) -> list[str]:
    return [row["role"] for row in log]


def test_a_program_killed_at_any_point_runs_again_and_no_request_is_refused(tmp_path: Path):
    fake = Provider()

    def script(request: Request) -> Answer:
        status, body = fake.reply(request.body)
        return Answer(status, body=json.dumps(body).encode())

    with serving_apart(script) as server:
        runs = killed_at_every_point(f"{server.root}/v1", tmp_path)
    points = [(number, point) for number, most in enumerate(PAGES.values()) for point in range(1, most + 1)]
    assert [(int(run["script"]), run["point"]) for run in runs] == points
    assert fake.refused == []
    assert "no result of this call" not in json.dumps(fake.requests)
    for run in runs:
        assert run["after"][: len(run["before"])] == run["before"], "what was acknowledged stays"
        assert refusals(run["after"]) == [], "every call has its own result, in the log itself"
        if list(PAGES)[int(run["script"])] == QUICKSTART:
            # each turn ends as if nothing had happened; where it was over, the second run begins one
            assert roles(run["after"]) == TURN * (1 + (roles(run["before"]) == TURN)), run["name"]
