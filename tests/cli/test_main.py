"""The entry point: help, completion, errors and their exit statuses, `--json`, a file of settings."""

import json
import os
import re
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


@pytest.mark.parametrize("words", helps(), ids=" ".join)
def test_the_help_of_a_command_shows_only_its_own_examples_with_options_that_it_has(words: tuple[str, ...]):
    text = helps()[words]
    examples = re.split(r"^ summarizing-context ", text.rpartition("╯")[2], flags=re.MULTILINE)[1:]
    of_family = [text, *(one for other, one in helps().items() if words and other[: len(words)] == words)]
    for example in (" ".join(one.partition("\n\n")[0].split()) for one in examples):
        assert example.startswith(" ".join(words))
        assert {*re.findall(r"(?<!\S)--[a-z][a-z-]+", example)} <= {*re.findall(r"--[a-z-]+", "".join(of_family))}


def test_an_empty_path_is_refused_on_one_line(run: Runner):
    options = re.compile(r"^│ (--[a-z-]+)[ \S]*? (?:FILE|DIR|PATH|STORE) ", re.MULTILINE)
    places = [(*words, option) for words, text in helps().items() for option in options.findall(text)]
    assert len(places) > 90
    for words in [*places, *map(str.split, ARGUMENTS)]:
        for empty in ("", " \t"):
            ran = run(*words, empty)
            assert (ran.status, ran.out) == (2, "")
            assert EMPTY.fullmatch(ran.err), words


def test_each_failure_has_its_status_and_one_line(run: Runner, tmp_path: Path):
    store = fill_store(tmp_path / "run.db", "s1", PAIR)
    (tmp_path / "notes").write_text("these are notes, no database at all " * 10)
    log = write_transcript(tmp_path / "log.jsonl", PAIR)

    def fails(command: str, status: int) -> None:
        ran = run(*command.split())
        (said,) = [line for line in ran.err.splitlines() if not line.startswith("Replaying")]
        assert (ran.status, ran.out, said.startswith("error: ")) == (status, "", True), ran

    fails(f"view s1 --store {store} --config {tmp_path}/none.toml", 2)  # what is given is wrong
    fails(f"undo s1 --store {store}", 2)
    fails(f"view s1 --store {store} --budget 1", 3)  # a view is refused
    fails(f"view s1 --store {tmp_path}/none.db", 4)  # the store, or the environment
    fails(f"view s1 --store {tmp_path}/notes", 4)
    fails(f"replay {log} --json {tmp_path}/none/figures.json", 4)
    assert not (tmp_path / "none.db").exists()  # nothing is made

    async def held() -> None:
        async with open_context(Settings(store=store, session_id="s1")):
            await anyio.to_thread.run_sync(fails, f"pin s1 0 --store {store}", 4)

    anyio.run(held)


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


@pytest.mark.parametrize("words", [("inspect", "--no-browser"), ("proxy",)])
def test_what_serves_says_in_a_line_of_json_what_where_and_with_which_token(tmp_path: Path, words: tuple[str, ...]):
    store = fill_store(tmp_path / "run.db", "s1", PAIR)
    command = [*PROGRAM, *words, "--store", str(store), "--listen", "127.0.0.1:0", "--json", "-"]
    home = {**os.environ, "HOME": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=home) as ran:
        try:
            said = json.loads(ran.stdout.readline())
        finally:
            ran.terminate()  # an interrupt may be ignored where tests run in the background
        assert ran.wait(60) in (0, -signal.SIGTERM)
        assert ran.stdout.read() == ""
    assert (said["serves"], said["store"]) == (words[0], str(store))
    assert re.match(r"http://127\.0\.0\.1:\d+", said["at"])
    if words == ("proxy",):
        assert Path(said["token_file"]).read_text().strip() in said["urls"]["ANTHROPIC_BASE_URL"]


def test_a_command_behind_a_proxy_says_it_in_a_file(tmp_path: Path):
    place = ["--store", str(tmp_path / "run.db"), "--json", str(tmp_path / "at.json")]
    show = f"print(open({str(tmp_path / 'at.json')!r}).read())"
    ran = run_python(["-m", "summarizing_context", "proxy", "run", *place, "--", sys.executable, "-c", show])
    said = json.loads(next(line for line in ran.stdout.splitlines() if line.startswith("{")))
    assert (said["serves"], said["command"][0]) == ("proxy", sys.executable)
