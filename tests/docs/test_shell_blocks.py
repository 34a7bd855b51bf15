"""The shell blocks of the pages run as they stand, in their order, where they need no server, no key and no client."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.cli import main
from summarizing_context.testing import Conversation
from tests.docs import documents
from tests.docs.checkout import ROOT

PROGRAM = "summarizing-context"
ELSEWHERE = ("postgresql://", "~/.codex", "~/.gemini", "opencode.db")  # servers, and logs of other clients
OTHERS = {"proxy", "mcp", "inspect", "worker", "check", "eval", "tune", "demo"}  # tests of their own run these
OTHERS |= {"install", "uninstall", "continue"}
EVALS = ("docs/guides/evals.md", "docs/guides/tuning.md", "docs/reference/cli.md")  # and the examples of these pages


LINES: dict[str, list[str]] = {}
for page, line in documents.commands(PROGRAM):
    is_elsewhere = any(place in line for place in ELSEWHERE) or shlex.split(line)[1] in OTHERS
    if page not in EVALS and not is_elsewhere:
        LINES.setdefault(page, []).append(line)


def messages() -> list[dict[str, Any]]:
    talk = Conversation()
    first = talk.user("Fix the parser. The billing tables are in schema ledger; the staging port is 6543.")
    return [first, talk.assistant("A failed deploy, and a flaky test."), *talk.turns(40)]


async def fill(store: Path, *sessions: str) -> None:
    for session in sessions:
        async with open_context(Settings(store=store, session_id=session, max_tokens=2_000)) as context:
            for message in messages():
                await context.add_message(message)
                await context.get_messages_for_request()
            await context.compact()  # there is something to undo


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of two sessions, for each page to copy."""
    folder = tmp_path_factory.mktemp("filled")
    anyio.run(fill, folder / "run.db", "s1", "s2")
    return folder


@pytest.mark.parametrize("page", LINES)
def test_the_commands_of_a_page_run_in_their_order(
    page: str, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    text = "".join(json.dumps(message) + "\n" for message in messages())
    for folder in (Path("logs"), Path(".claude/projects")):
        folder.mkdir(parents=True)
        (folder / "one.jsonl").write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "prompts", "mine")
    for line in LINES[page]:
        status = main(shlex.split(line)[1:])
        written = capsys.readouterr()
        assert status == 0, f"{line}\n{written.out}{written.err}"
