"""The documented programs, killed at every point of a step and run again: no provider refuses a request of theirs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import documents
from tests.docs.checkout import ROOT
from tests.laws.builders import Message as Row
from tests.laws.builders import assistant, call
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


def killed_at_every_point(url: str, folder: Path) -> None:
    """Run each page's program that calls a provider, once for each point at which it is killed."""
    for page in PAGES:
        texts = (block.text for block in documents.blocks("python") if block.page == page)
        program = next(text for text in texts if "AsyncOpenAI" in text)
        (folder / f"{Path(page).stem}.py").write_text(program, encoding="utf-8")
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    env = {**keep, "PYTHONPATH": str(ROOT), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "NO_PROXY": "*"}
    command = [sys.executable, "-m", "tests.behaviour.killed", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=AT_MOST, check=False)
    assert done.returncode == 0, done.stderr


def roles(log: list[Row]) -> list[str]:
    return [row["role"] for row in log]


def test_a_program_killed_at_any_point_runs_again_and_no_request_is_refused(tmp_path: Path):
    fake = Provider()
    with serving_apart(fake.answer) as server:
        killed_at_every_point(f"{server.root}/v1", tmp_path)
    assert fake.refused == []
    assert "no result of this call" not in json.dumps(fake.requests)
    for page, points in PAGES.items():
        told = list((tmp_path / Path(page).stem).glob("*/told.json"))
        assert len(told) == points
        for run in map(json.loads, map(Path.read_text, told)):
            assert run["after"][: len(run["before"])] == run["before"], "what was acknowledged stays"
            assert refusals(run["after"]) == [], "every call has its own result, in the log itself"
            if page == QUICKSTART:
                # each turn ends as if nothing had happened; where it was over, the second run begins one
                assert roles(run["after"]) == TURN * (1 + (roles(run["before"]) == TURN)), run["name"]
