"""What is wrong with the arguments of any command is told on one line, with the status of bad input."""

import sys
from pathlib import Path

import pytest
from cli.commands import Runner, fill_store, says, write_transcript

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
eval ask {log} --model m                                      | --judge-model: name the model
tune {log} --format gemini --model m --propose 2              | a content without a list of parts
eval run {log} --dry-run                                      | without a model nothing is sent
eval compare {mine} {mine}                                    | is not the report of a run
tune {log} --cassette c.jsonl --propose 2                      | name the model that summarizes
tune {log} --cassette c.jsonl --model m                       | say what to try
proxy run --store {store} --lisen 8000 -- client              | --lisen: there is no such option
continue s1 --store {store} --in codx                         | '--in': 'codx' is not one of
worker --store {store}                                        | is no address
"""
ROWS = [tuple(part.strip() for part in line.split("|")) for line in WRONG.strip().splitlines()]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, said = tmp_path_factory.mktemp("places"), [says("user", "hello"), says("assistant", "hi")]
    fill_store(folder / "store", "s1", said)
    (folder / "mine").mkdir()
    (folder / "cut.jsonl").write_text('{"role": "us', encoding="utf8")
    logs = {name: write_transcript(folder / f"{name}.jsonl", rows) for name, rows in (("log", said), ("empty", []))}
    return {name: folder / name for name in ("store", "none", "mine")} | logs | {"cut": folder / "cut.jsonl"}


@pytest.mark.parametrize(("command", "hint"), ROWS)
def test_a_wrong_argument_is_one_line_that_helps(run: Runner, places, command: str, hint: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = run(*command.format(**places).split())
    told = [line for line in ran.err.splitlines() if not line.startswith(("Replaying", "Dry run", "Importing"))]
    assert (ran.status, ran.out, len(told)) == (2, "", 1), ran
    assert told[0].startswith("error: ")
    assert hint in told[0]
    assert not {"/context", "()"} & set(told[0].replace("'", " ").split())


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
