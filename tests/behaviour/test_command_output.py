"""What commands print stands on any terminal and in any file: every encoding, one message a line, `~` in paths."""

import gzip
import io
import json
import re
import sys
from pathlib import Path

import pytest

from summarizing_context import Settings, SettingsError
from summarizing_context.cli import main
from summarizing_context.evaluation.demo import demo_session
from tests.cli.commands import fill_store, says, write_transcript

STRANGE = "Café — 部署 🚀 \u2713 é\u0301 \udcff"
OF_A_STORE = "sessions list", "status s1", "search s1 café", "recall s1 café", "ledger s1", "memory s1 café", "pins s1"
COMMANDS = [
    *("--help", "prompts list", "prompts show segment", "replay run.jsonl --budget 3k"),
    *(f"{words} --store run.db" for words in ("view s1", *OF_A_STORE)),
    "eval run run.jsonl --budget 3k --arms tail",
    "view nothing-of-é-部署 --store run.db",
]


def test_no_encoding_of_the_output_fails_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    said = [f"{STRANGE} {message['content']}" for message in demo_session(turns=6) if message["content"]]
    fill_store(tmp_path / "run.db", "s1", [says("user", text.replace("\udcff", "")) for text in said[:12]])
    write_transcript(tmp_path / "run.jsonl", [says("user", STRANGE), *demo_session(turns=3)])
    # ASCII has least of all; what it has not, an interpreter refuses on the one, and escapes on the other
    out = io.TextIOWrapper(io.BytesIO(), "ascii", "strict", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), "ascii", "backslashreplace", write_through=True)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    statuses = [main(command.split()) for command in COMMANDS]
    shown, told = (stream.buffer.getvalue() for stream in (out, err))
    assert statuses == [0] * (len(COMMANDS) - 1) + [2], told
    assert b"Caf" in shown
    assert b"unexpected" not in told


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "mine" / "segment").mkdir(parents=True)
    elsewhere.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.chdir(elsewhere)
    return home


PLACES = {"store": "~/agent.db", "prompts": "~/mine", "prices": "~/prices.toml"}


def test_a_tilde_in_a_path_of_any_source_of_settings_is_the_home_folder(home: Path):
    rows = "".join(f'{name} = "{value}"\n' for name, value in PLACES.items())
    (home / "agent.toml").write_text(f"[summarizing_context]\n{rows}")
    (home / "agent.json").write_text(json.dumps(PLACES))
    wanted = {name: str(home / value.removeprefix("~/")) for name, value in PLACES.items()}
    for settings in (
        Settings(**PLACES),
        Settings(**{name: Path(value) for name, value in PLACES.items()}),
        Settings.from_mapping({"context_management": PLACES}),
        Settings.from_toml("~/agent.toml"),
        Settings.load("~/agent.toml", environ={}),
        Settings.load("~/agent.json", environ={}),
        Settings.from_env(environ={f"SUMMARIZING_CONTEXT_{name.upper()}": value for name, value in PLACES.items()}),
    ):
        assert {name: str(getattr(settings, name)) for name in PLACES} == wanted
    with pytest.raises(SettingsError, match="no home folder"):
        Settings(store="~nobody-of-this-name/agent.db")
    assert Settings(store="./~/agent.db").store == "./~/agent.db"


def test_a_tilde_in_a_path_of_a_command_is_the_home_folder(home: Path):
    write_transcript(home / "run.jsonl", demo_session(turns=2))
    (home / "agent.toml").write_text("[summarizing_context]\nmax_tokens = 3000\n")
    assert main(["import", "~/run.jsonl", "--store=~/agent.db", "--json=~/told.json"]) == 0
    assert main(["view", "run", "--store", "~/agent.db", "--config", "~/agent.toml"]) == 0
    assert {path.name for path in home.iterdir()} >= {"agent.db", "told.json"}
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(("data", "times"), [(b" " * 2**24, 20), (b"\n" * 2**20, 9)])  # 320 MB, 9 million lines
def test_a_compressed_transcript_that_would_fill_the_memory_is_refused(tmp_path, capsys, data, times):
    (tmp_path / "spaces.jsonl.gz").write_bytes(gzip.compress(data) * times)
    assert main(["replay", str(tmp_path / "spaces.jsonl.gz")]) == 2
    assert re.search(r"spaces.jsonl.gz:\d+: unpacks to more than 256 MB.*gunzip", capsys.readouterr().err)
