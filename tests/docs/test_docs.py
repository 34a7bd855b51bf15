"""The documents keep their word: code and commands run, settings load, links lead somewhere."""

import ast
import asyncio
import json
import re
import shlex
import shutil
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest
import yaml

import summarizing_context
from docs.tools import generate_docs
from summarizing_context import Settings, open_context
from summarizing_context.cli import build_command, main
from summarizing_context.summarizers.prompts import latest
from tests.cli.commands import fill_store, write_transcript
from tests.docs import documents
from tests.docs.checkout import ROOT
from tests.docs.documents import Block
from tests.evaluation.sessions import write
from tests.providers.serve import serving_apart
from tests.providers.server import Answer, Request
from tests.talk import Talk

PROGRAM = "summarizing-context"
TALK = Talk()
MESSAGES = [
    TALK.user("Fix the parser. The billing tables are in schema ledger; the staging port is 6543."),
    *(TALK.assistant("A failed deploy, and a flaky test."), *TALK.turns(40)),
]

CALL = {"index": 0, "id": "call-1", "type": "function", "function": {"name": "read_file", "arguments": ""}}
PARTS = [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in ('{"path":', ' "a.py"}')]
SAID = [{"role": "assistant", "content": "It reads "}, {"content": "a file."}]
CHOICES = [[{"index": 0, "delta": delta}] for delta in (*SAID, {"tool_calls": [CALL]}, *PARTS)]
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
EVENTS = [*(json.dumps({**CHUNK, "choices": choices}) for choices in [*CHOICES, []]), "[DONE]"]


def answering(request: Request) -> Answer:
    """A reply; where a stream is asked for, a text and a tool call in pieces."""
    if not request.body.get("stream"):
        return Answer(model=lambda body: f"A reply to {len(body['messages'])} messages.")
    body = "".join(f"data: {event}\n\n" for event in EVENTS).encode()
    return Answer(headers=(("content-type", "text/event-stream"),), body=body)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A folder with the transcript of a session, and both providers on the loopback; no key of the machine is left."""
    monkeypatch.chdir(tmp_path)
    (write(tmp_path / "logs", 1) / "session-1.jsonl").rename(tmp_path / "run.jsonl")
    (tmp_path / "mine.md").write_text(f"{latest('segment').text}\n- Keep every id.\n", encoding="utf-8")
    with serving_apart(answering) as server:
        for name in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{name}_API_KEY", "test-key")
            monkeypatch.setenv(f"{name}_BASE_URL", f"{server.root}/v1" if name == "OPENAI" else server.root)
        yield server


AGENT: dict[str, Any] = {"session_id": "s1", "project": "shop", "max_tokens": 4_000}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a session, for each block to copy."""
    return fill_store(tmp_path_factory.mktemp("agent") / "agent.db", messages=MESSAGES, **AGENT)


async def run(block: Block, names: dict[str, Any]) -> None:
    """Execute a block, whose top level may await if it is marked as one of a session."""
    code = compile(block.text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    async with open_context(Settings(store="agent.db", **AGENT)) as context:
        await context.get_messages_for_request()
        names["context"] = context
        if (work := eval(code, names)) is not None:
            await work


@pytest.mark.parametrize("block", documents.blocks("python"), ids=str)
def test_a_python_block_runs_as_it_stands(
    block: Block, provider: Any, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if block.mark.startswith("needs "):
        pytest.importorskip(block.mark.removeprefix("needs "))
    module = types.ModuleType("documented")
    monkeypatch.setitem(sys.modules, "documented", module)
    if block.mark == "in a session":
        shutil.copy(agent, tmp_path)
        asyncio.run(run(block, module.__dict__))
    else:  # await may not stand at the top level
        exec(compile(block.text, str(block), "exec", dont_inherit=True), module.__dict__)
    for test in [one for name, one in module.__dict__.items() if name.startswith("test_")]:
        assert test() is None, f"{test.__name__} is not run by pytest alone"


COMMAND: Any = build_command()


@pytest.mark.parametrize(("page", "line"), documents.commands(PROGRAM))
def test_a_documented_command_is_one_of_the_program(page: str, line: str):
    command, arguments = COMMAND, shlex.split(line)[1:]
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("-"):
        assert arguments[0] in command.commands, f"{page}: {line}"
        command = command.commands[arguments.pop(0)]
    if "--help" not in arguments:
        command.make_context("documented", arguments)


ELSEWHERE = ("postgresql://", "~/.codex", "~/.gemini", "opencode.db")  # servers, and logs of other clients
OTHERS = {"proxy", "mcp", "inspect", "worker", "check", "eval", "tune", "demo"}  # tests of their own run these
OTHERS |= {"install", "uninstall", "continue"}
EVALS = ("docs/guides/evals.md", "docs/guides/tuning.md", "docs/reference/cli.md")  # and the examples of these pages
LINES: dict[str, list[str]] = {}
for page, line in documents.commands(PROGRAM):
    if page not in EVALS and shlex.split(line)[1] not in OTHERS and not any(place in line for place in ELSEWHERE):
        LINES.setdefault(page, []).append(line)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of two sessions, and with logs, for each page to copy."""
    folder = tmp_path_factory.mktemp("filled")
    for session in ("s1", "s2"):
        fill_store(folder / "run.db", session, MESSAGES, max_tokens=2_000)
        assert main(["compress", session, "--store", str(folder / "run.db")]) == 0  # there is something to undo
    for logs in (folder / "logs", folder / ".claude" / "projects"):
        logs.mkdir(parents=True)
        write_transcript(logs / "one.jsonl", MESSAGES)
    shutil.copytree(ROOT / "prompts", folder / "mine")
    return folder


@pytest.mark.parametrize("page", LINES)
def test_the_commands_of_a_page_run_in_their_order(page: str, filled: Path, tmp_path: Path, monkeypatch, capsys):
    """As they stand, where they need no server, no key and no client."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for line in LINES[page]:
        status = main(shlex.split(line)[1:])
        written = capsys.readouterr()
        assert status == 0, f"{line}\n{written.out}{written.err}"


PROJECT = tomllib.loads(documents.read("pyproject.toml"))["project"]
EXTRAS = PROJECT["optional-dependencies"].keys()
TARGETS = {*re.findall(r"^([a-z-]+):", documents.read("Makefile"), re.MULTILINE)}


async def test_documented_targets_modules_extras_and_slash_commands_exist():
    for page, line in documents.commands("make "):
        assert {word for word in shlex.split(line)[1:] if "=" not in word and word[0] != "-"} <= TARGETS, page
    for page, line in documents.commands("python -m "):
        module = ROOT.joinpath(*shlex.split(line)[2].split("."))
        assert module.with_suffix(".py").is_file() or module.joinpath("__main__.py").is_file(), page
    for page, line in documents.commands("pip install "):
        named = re.findall(rf"(?:{PROGRAM}|(?<=[ '\"])\.)(?:\[([\w,-]+)\])?", line)
        assert named, page
        assert {extra for group in named for extra in group.split(",") if extra} <= EXTRAS, page
    rows = [line for line in documents.read("docs/quickstart.md").splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])} == EXTRAS  # lists each
    shown = "\n".join(block.text for block in documents.blocks("text"))
    async with open_context() as context:
        known = (await context.handle_command("/context help")).text
    assert set() < {*re.findall(r"^/context (\w+)", shown, re.MULTILINE)} <= {*re.findall(r"\w+", known)}


@pytest.mark.parametrize("block", documents.blocks("json", "toml"), ids=str)
def test_a_documented_configuration_is_accepted(block: Block, tmp_path: Path):
    file = tmp_path / f"documented.{block.language}"
    file.write_text(block.text, encoding="utf-8")
    found = json.loads(block.text) if block.language == "json" else tomllib.loads(block.text)
    if '"context_management"' in block.text:
        Settings.from_json(file)
    elif "summarizing_context" in found:
        Settings.from_toml(file)
    elif "models" in found:
        Settings(prices=file)
    elif "mcpServers" in found:  # of an MCP client
        for server in found["mcpServers"].values():
            assert server["command"] == PROGRAM
            COMMAND.commands[server["args"][0]].make_context("documented", server["args"][1:])
    else:
        assert set(found) <= {"session", "role", "cuts", "probes", "hash"}, "say here how this is checked"


def test_the_workflow_runs_targets_of_the_makefile_with_the_oldest_libraries_that_the_package_allows():
    jobs = yaml.safe_load(documents.read(".github/workflows/check.yml"))["jobs"].values()
    wanted = {*re.findall(r"make ([a-z-]+)", " ".join(step.get("run", "") for job in jobs for step in job["steps"]))}
    wanted |= {target for job in jobs for target in job.get("strategy", {}).get("matrix", {}).get("target", [])}
    assert {"lint", "test", "docs", "package", "oldest"} <= wanted <= TARGETS
    lines = [line for line in documents.read("tests/oldest.txt").splitlines() if not line.startswith("#")]
    assert lines == [each.replace(">=", "==") for each in PROJECT["dependencies"]]


def test_the_generated_pages_are_up_to_date_and_every_public_name_is_on_one_of_reference():
    assert generate_docs.outdated() == []
    text = documents.read("docs/reference/api.md") + documents.read("docs/reference/errors.md")
    assert [name for name in summarizing_context.__all__ if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("page", documents.pages())
def test_every_link_of_a_page_leads_somewhere(page: str):
    found = documents.links(page)
    assert [link for link, path, _ in found if not path.exists()] == []
    inside = [(link, path, anchor) for link, path, anchor in found if anchor and path.suffix == ".md"]
    assert [link for link, path, anchor in inside if anchor not in documents.anchors(str(path.relative_to(ROOT)))] == []
