"""Nothing that a name or a text holds is obeyed by a terminal or by the tables."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from cli.commands import Runner, fill_store, says

from summarizing_context.cli import main
from tests.laws.builders import call, result

MARKUP = ("[/]", "[link=http://evil.example]shop[/link]", "[blink]", "[bold red", ":skull:", "\\[/x]")
ESCAPES = ("\x1b]0;x\x07", "\x1b[5m\x1b[2J", "\x9b5m", "\x1b]8;;http://evil.example\x07", "\u202e\u2066\x00\x08\r")
OURS = re.compile(r"\x1b\[[0-9;]*m|\r?\x1b\[(?:\?25[lh]|\d*[AK])")  # colours of tables, and what moves a bar
BLINKING = re.compile(r"\x1b\[(?:\d+;)*5(?:;\d+)*m")
ACTED_UPON = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202e\u2066]")


def assert_inert(shown: str) -> None:
    assert not BLINKING.search(shown)
    assert not ACTED_UPON.search(OURS.sub("", shown))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions with hostile texts in everything that has a name."""
    path = tmp_path_factory.mktemp("store") / "[blink]run [].db"
    for number, hostile in enumerate((" ".join(MARKUP), " ".join(ESCAPES), "".join((*ESCAPES, *MARKUP)))):
        said = [says("user", f"Never touch {hostile} findme.")]
        failed = f"Error: findme {hostile} /src/{quote(hostile)}{hostile}.py " * 30
        for at in range(12):
            said.append(call("openai", (f"c{at}", f"tool {hostile}", {"path": hostile})))
            said += [result("openai", f"c{at}", failed), says("assistant", f"We decided for {hostile} findme. " * 30)]
        fill_store(path, f"s{number}", said, project=hostile, max_tokens=3_000)
        words = f"s{number}", "--store", str(path)
        assert main(["pin", *words, f"keep {hostile}"]) == 0
        assert main(["checkpoint", *words, "".join(char for char in hostile if char.isprintable())]) == 0
    return path


COMMANDS = """\
view {}; view {hostile}; view {} --budget {hostile}; view {} --{hostile}; sessions list; status {}
search {} findme --all; search {} {hostile}; pins {}; pin {} {hostile}; unpin {} {hostile}; expand {} 0..4; expand {} 0
expand {} {hostile}; recall {} findme; memory {} findme; ledger {}; checkpoints {}; restore {} {hostile}
summarize {} --topic {hostile}; compress {}; fork {} {hostile} new; checkpoint {} --name {hostile}; {hostile}
sessions delete {hostile} --yes; prompts show {hostile}; replay {hostile}; eval run {hostile}"""


@pytest.mark.parametrize("command", re.split(r"; |\n", COMMANDS))
def test_every_command_shows_hostile_names_as_they_are(run: Runner, store: Path, command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORCE_COLOR", "1")
    uses_store = command.split()[0] not in ("prompts", "replay", "eval", "{hostile}")
    for number, hostile in enumerate((" ".join(MARKUP), " ".join(ESCAPES).replace("\x00", ""))):
        words = [word.format(f"s{number}", hostile=hostile) for word in command.split()]
        ran = run(*words, *(("--store", store) if uses_store else ()))
        assert ran.out or ran.err
        assert "fault of the program" not in ran.err
        assert_inert(ran.out + ran.err)


def test_files_with_hostile_names_are_replayed_and_shown_as_they_are(run: Runner, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    for name in ("[link=x]a.jsonl", "[].jsonl", "\x1b[5mb\x1b]0;x\x07.jsonl", "[blink]c\u202e.jsonl"):
        (tmp_path / name).write_text('{"role": "user", "content": "hi"}\n', encoding="utf8")
    dry = ("--dry-run", "--summarizer", "openai", "--model", "gpt-5.4-mini")
    shown = []
    for more in ((), dry):
        ran = run("replay", tmp_path, "--budget", "1k", "--jobs", 1, *more)
        assert (ran.status, "fault of the program" in ran.err) == (0, False)
        assert_inert(ran.out)  # the bar moves the cursor itself
        shown.append(OURS.sub("", ran.out))
    assert "[link=x]a.jsonl" in shown[0]
