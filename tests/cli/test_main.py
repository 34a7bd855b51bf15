"""The entry point: help, completion, errors and their exit statuses, `--json`, a file of settings."""

import re
import shlex
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import anyio
import pytest
from cli.commands import Runner, fill_store, helps, says, write_transcript

from summarizing_context import Settings, open_context
from summarizing_context.commands import COMMANDS
from summarizing_context.summarizers.prompts import latest, load, names
from tests.docs.checkout import ROOT, run_python

PROGRAM = [sys.executable, "-m", "summarizing_context"]
PAIR = [says("user", "hello"), says("assistant", "hi")]
EMPTY = re.compile(r"error: Invalid value for '.*: it is empty; name a file or a folder; see --help\n")
ARGUMENTS = ["replay", "import", "eval run", "eval compare", "eval compare x", "eval ask", "tune", "sessions import"]
FAMILIES = {(), ("eval",), ("sessions",), ("prompts",)}


def test_the_help_of_every_command_fits_a_screen():
    assert {*COMMANDS} - {"help"} < {words[0] for words in helps() if words}
    assert len(helps()) > 44
    for words, text in helps().items():
        assert (text.count("\n") <= 40, max(map(len, text.splitlines()))) == (True, 80), words
        assert not re.search(r"…|<bool>|<Path>|<str>|<list\[", text), words
        assert ("--json" in text) is (words not in FAMILIES), words


def test_the_help_of_a_command_shows_only_its_own_examples_with_options_that_it_has():
    for words, text in helps().items():
        examples = re.split(r"^ summarizing-context ", text.rpartition("╯")[2], flags=re.MULTILINE)[1:]
        of_family = [text, *(one for other, one in helps().items() if words and other[: len(words)] == words)]
        for example in (" ".join(one.partition("\n\n")[0].split()) for one in examples):
            assert example.startswith(" ".join(words))
            known = {*re.findall(r"--[a-z-]+", "".join(one.rpartition("╯")[0] for one in of_family))}
            assert {*re.findall(r"(?<!\S)--[a-z][a-z-]+", example)} <= known, words


def test_an_empty_path_is_refused_on_one_line(run: Runner):
    options = re.compile(r"^│ (--[a-z-]+)[ \S]*? (?:FILE|DIR|PATH|STORE) ", re.MULTILINE)
    places = [(*words, option) for words, text in helps().items() for option in options.findall(text)]
    assert len(places) > 90
    for words in [*places, *map(str.split, ARGUMENTS)]:
        for empty in ("", " \t"):
            ran = run(*words, empty)
            assert (ran.status, ran.out) == (2, "")
            assert EMPTY.fullmatch(ran.err), words


INTERRUPTED = """
import runpy
from summarizing_context import cli

def main():
    try:
        exec("raise KeyboardInterrupt")  # as the code of a dataclass is run
    except KeyboardInterrupt:
        return 130

cli.main = main
runpy.run_module("summarizing_context", run_name="__main__")
"""


def test_an_interrupt_ends_a_command_with_130_and_one_line_also_while_a_class_is_made():
    with subprocess.Popen([*PROGRAM, "demo"], stderr=subprocess.PIPE, text=True, cwd=ROOT) as ran:
        assert ran.stderr.readline().startswith("Replaying the demo session: ")
        ran.send_signal(signal.SIGINT)
        assert ran.stderr.read() == "error: stopped; nothing that was stored is lost\n"
        assert ran.wait(60) == 130
    assert run_python(["-c", INTERRUPTED]).returncode == 130


def test_every_problem_of_a_file_of_settings_has_a_line(run: Runner, tmp_path: Path):
    config = tmp_path / "agent.toml"
    config.write_text('[summarizing_context]\nhigh_water = 2\nsesion_id = "s1"\nmodel = 3\n')
    ran = run("view", "s1", "--config", config)
    named = re.findall(rf"^error: .*{re.escape(str(config))}: \[summarizing_context\] (\w+)", ran.err, re.MULTILINE)
    assert (ran.status, ran.err.count("\n"), named) == (2, 3, ["high_water", "sesion_id", "model"])


def test_a_reader_who_has_seen_enough_changes_no_exit_status(tmp_path: Path):
    log = write_transcript(tmp_path / "one.jsonl", [says("system", "word " * 400), *PAIR])
    command = [*PROGRAM, "replay", str(log), "--budget", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as ran:
        ran.stdout.close()
        assert ran.stderr.read().startswith("Replaying 1 file at 100 tokens.")
        assert ran.wait(60) == 3


def test_the_version_is_told_and_commands_are_completed_where_a_shell_asks(run: Runner):
    assert run("--version").out == f"summarizing-context {version('summarizing_context')}\n"
    asked = {"COMP_WORDS": "summarizing-context exp", "COMP_CWORD": "1"}
    asked["_SUMMARIZING_CONTEXT_COMPLETE"] = "complete_bash"
    script = "from summarizing_context.cli import main; main()"
    assert run_python(["-c", script], env=asked).stdout.split() == ["expand"]


def test_one_prompt_is_shown_with_its_text_and_a_folder_of_the_user_goes_first(run: Runner, tmp_path: Path):
    assert run("prompts", "show", "segment").out == f"{latest('segment').text}\n"  # a file to begin with
    assert run("prompts", "show", "rollup/v4", "--json", "-").document["text"] == load("rollup/v4").text
    listed = run("prompts", "list", "--json", "-").document["prompts"]
    assert [row["name"] for row in listed] == names()
    assert all(100 < row["fixed_tokens"] <= (600 if row["name"] == "rules/v1" else 450) for row in listed)
    assert load("segment/v3").hash[:12] in run("prompts", "list").out
    mine, own = ("--prompts", tmp_path / "mine"), tmp_path / "mine" / "segment" / "v9.md"
    own.parent.mkdir(parents=True)
    own.write_text("---\npurpose: Mine.\n---\n{{max_tokens}} \x1b[31mtokens", encoding="utf8")
    ran = run("prompts", "show", "segment", *mine)
    assert ("segment/v9: Mine." in ran.err, "\x1b" in ran.out) == (True, False)
    assert run("prompts", "show", "memory", *mine).status == 0
    own.write_text("no front matter", encoding="utf8")
    assert run("prompts", "list", *mine).status == 2


def test_a_request_is_rendered_for_a_transcript(run: Runner, tmp_path: Path):
    messages = [says("user", f"{at} " + "look at the log in /var/log/app.log again " * 200) for at in range(6)]
    command = ("prompts", "render", "segment", write_transcript(tmp_path / "run.jsonl", messages))
    rendered = run(*command, "--json", "-").document
    assert rendered["system"] == latest("segment").render(max_tokens=rendered["max_tokens"])
    assert messages[0]["content"][:40] in rendered["user"]
    ran = run(*command, "--number", 99)
    assert (ran.status, f"this log makes {rendered['among']} such requests; give --number" in ran.err) == (2, True)


# What is wrong with the arguments of any command: told on one line, with the status of bad input

WRONG = """
repaly                                                        | replay
replay {log} --buget 1                                        | --budget
replay {none}                                                 | no such file or folder; check the path
replay --budget 1k                                            | PATH
replay {empty}                                                | holds no message
replay {log} --format codex                                   | no message of the format codex; take --format auto
import {log} --store {store} --format codex                   | no message of the format codex; take --format auto
replay {log} --budget 1k --strategy truncat                   | truncate
replay {log} --budget 1k --summarizer host                    | take extractive
replay {log} --budget 4k --dry-run                            | name the model that summarizes
replay {log} --budget 4k --dry-run --summarizer anthropic     | --model
replay {log} --format gemnii                                  | gemini
replay {log} --model m --summarizer extractive                | asks no model
replay {log} --prompts {none}                                 | is not a folder
replay {log} --prompts {mine}                                 | name the model
demo --budget many                                            | 'many' is not a number of tokens; write it like 16000
demo --budget 0                                               | is not a number of tokens
import {log} --store :memory:                                 | name a store
view s1                                                       | --store
view s3 --store {store}                                       | did you mean 's1'
status shirt --store {store}                                  | there is no session 'shirt'
search s1 hello --store {store} --project                     | the session has none
sessions remove                                               | remove
sessions delete s11 --store {store} --yes                     | did you mean
expand s2 0 --store {store}                                   |
expand s1 0 x --store {store}                                 | behind the node
unpin s1 nothing --store {store}                              |
restore s1 c99 --store {store}                                | no checkpoint
checkpoint s1 c12 --store {store}                             |
fork s1 c1 --store {store}                                    |
prompts show segmen                                           | there are
prompts render segment                                        | TRANSCRIPT
prompts render segment {log} --format codxe                   | codex
prompts render answers {log}                                  | this log makes 0 such requests
prompts list --prompts {mine}                                 | is not a folder that holds a prompt
eval run                                                      | SOURCE
eval run {none}                                               | no such file
eval run {cut}                                                | cut.jsonl:1
eval run beam:{none}                                          | cannot be read
eval run real                                                 | stands in a checkout
eval run {log} --arms ours,nothing                            | there is no arm 'nothing'
eval run {log} --format gemini --out {none} --model m --dry-run | a content without a list of parts
eval ask {log} --format gemini --model m --judge-model n      | a content without a list of parts
eval ask {log} --model m                                      | --judge-model: name another model
tune {log} --format gemini --model m --propose 2              | a content without a list of parts
eval run {log} --dry-run                                      | without a model nothing is sent
eval compare {mine} {mine}                                    | is not the report of a run
eval compare {none} {mine}                                    | there is no such folder or file
tune {log} --cassette c.jsonl --propose 2                      | name the model that summarizes
tune {log} --cassette c.jsonl --model m                       | say what to try
proxy run --store {store} --lisen 8000 -- client              | --lisen: there is no such option
continue s1 --store {store} --in codx                         | '--in': 'codx' is not one of
worker --store {store}                                        | is no address
tune {log} --cassette c.jsonl --prompts {mine}                | name the model that they are for
eval ask {log} --dry-run --model m --judge-model m            | name another model
eval ask {log} --dry-run --model m --judge-model n --arms hierarchical --budget 3 | there is no arm
eval ask {log} --dry-run --model m --judge-model n --budget 900k| take a budget below
eval ask {log} --dry-run --judge-model n                      | --model: name the model that summarizes
inspect --store {store} --listen 0.0.0.0:0 --no-browser       | other machines
inspect --store {store} --listen 0.0.0.0:0 --no-browser       | SSH tunnel
view s1 --store {store} --config {none}/none.toml             |
undo s1 --store {store}                                       |
proxy                                                         | --store
proxy --store x.db --listen 0.0.0.0:0                         | --token
proxy --store x.db --listen 0.0.0.0:0 --token ''              | token
proxy --store x.db --listen 0.0.0.0:0 --token short           | token
proxy --store x.db --listen 0.0.0.0:0 --token 'sixteen signs !!'| token
proxy --store x.db --listen nowhere:1                         | IP address
proxy --store x.db --listen 0 --anthropic nothing             | --anthropic
proxy --store x.db --listen 0 --openai ftp://host             | --openai
proxy --store x.db --listen 0 --openai https://user:word@host | --openai
proxy --store x.db --listen 0 --openai https://host?q=1       | --openai
proxy --store x.db --listen 0 --budget many                   | --budget
proxy run --store x.db -- no-such-command                     | no-such-command
proxy --store x.db --listen 0 --model m --summarizer openai   | OPENAI_API_KEY
proxy --store x.db --listen 0 --model m                       | OPENAI_API_KEY
"""
OTHERS = {
    "view s1 --store {store} --budget 1": 3,  # a view is refused
    "view s1 --store {none}": 4,  # the store, or the environment
    "view s1 --store {notes}": 4,
    "proxy run --store {notes} -- client": 4,  # before the client, which is not there either
    "proxy run --store {mine} -- client": 4,
    "inspect --store {none} --no-browser": 4,
    "replay {log} --json {none}/figures.json": 4,
    # no such address; it has looked at its model before, of which no key is missing in the shadow
    "proxy --store x.db --shadow --model m --listen 192.0.2.1:0 --token sixteensignsandmore": 4,
}
ROWS: list[tuple[str, int, str]] = [
    *((command.strip(), 2, hint.strip()) for command, hint in (line.split("|") for line in WRONG.splitlines() if line)),
    *((command, status, "") for command, status in OTHERS.items()),
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, said = tmp_path_factory.mktemp("places"), [says("user", "hello"), says("assistant", "hi")]
    fill_store(folder / "store", "s1", said)
    (folder / "mine").mkdir()
    (folder / "cut.jsonl").write_text('{"role": "us', encoding="utf8")
    (folder / "notes").write_text("these are notes, no database at all " * 10)
    logs = {name: write_transcript(folder / f"{name}.jsonl", rows) for name, rows in (("log", said), ("empty", []))}
    return {name: folder / name for name in ("store", "none", "mine", "notes")} | logs | {"cut": folder / "cut.jsonl"}


@pytest.mark.parametrize(("command", "status", "hint"), ROWS)
def test_each_failure_has_its_status_and_one_line(run: Runner, places, command, status, hint, tmp_path, monkeypatch):
    """One that helps; and nothing is made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ran = run(*shlex.split(command.format(**places)))
    told = [line for line in ran.err.splitlines() if not line.startswith(("Replaying", "Dry run", "Importing"))]
    assert (ran.status, ran.out, len(told)) == (status, "", 1), ran
    assert told[0].startswith("error: ")
    assert hint in told[0]
    assert not {"/context", "()"} & set(told[0].replace("'", " ").split())
    assert not places["none"].exists()


async def test_a_session_that_is_open_elsewhere_is_not_changed(run: Runner, places):
    async with open_context(Settings(store=places["store"], session_id="s1")):
        ran = await anyio.to_thread.run_sync(run, "pin", "s1", "0", "--store", places["store"])
    assert (ran.status, ran.out, ran.err.startswith("error: "), ran.err.count("\n")) == (4, "", True, 1)


POSTGRESQL = "postgresql://agents@127.0.0.1:1/agents"


@pytest.mark.parametrize(
    ("command", "store", "said"),
    [
        *((command, POSTGRESQL, "needs psycopg; install it with") for command in ("worker", "sessions list")),
        ("mcp", "{store}", "pip install 'summarizing-context[mcp]'"),
    ],
)
def test_a_missing_package_is_named(run: Runner, places, command: str, store: str, said: str, monkeypatch):
    monkeypatch.setattr("summarizing_context.assembly.find_spec", lambda name: None)
    for name in [name for name in sys.modules if f"{name}.".startswith(("mcp.", "summarizing_context.adapters.mcp."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    ran = run(*command.split(), "--store", store.format(**places))
    assert (ran.status, said in " ".join(ran.err.split())) == (4, True)
