"""Commands answer on any terminal and in any file, in every encoding; `~` in paths; `/context ...` of a host."""

import gzip
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import CommandResult, Settings, SettingsError, SummarizingContext
from summarizing_context.cli import main
from summarizing_context.evaluation.replay import demo_session
from tests.behaviour.contexts import opened
from tests.cli.commands import fill_store, says, write_transcript
from tests.laws.builders import session, user

STRANGE = "Café — 部署 🚀 \u2713 e\u0301 \udcff"
OF_A_STORE = "view", "sessions list", "status", "search", "recall", "ledger", "memory", "pins"
WORDS = {"sessions list": "", "search": "s1 café", "recall": "s1 café", "memory": "s1 café"}
COMMANDS = [
    *("--help", "prompts list", "prompts show segment", "replay run.jsonl --budget 3k"),
    *(f"{command} {WORDS.get(command, 's1')} --store run.db" for command in OF_A_STORE),
    "eval run run.jsonl --budget 3k --arms tail",
    "view nothing-of-é-部署 --store run.db",
]


def test_no_encoding_of_the_output_fails_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    said = [f"{STRANGE} {message['content']}" for message in demo_session(turns=6) if message["content"]]
    fill_store(tmp_path / "run.db", "s1", [says("user", text.replace("\udcff", "")) for text in said[:12]])
    write_transcript(tmp_path / "run.jsonl", [says("user", STRANGE), *demo_session(turns=3)])
    # ASCII has least of all; what it has not, an interpreter refuses on the one, and escapes on the other
    streams = {"stdout": "strict", "stderr": "backslashreplace"}
    for name, errors in streams.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), "ascii", errors, write_through=True))
    statuses = [main(command.split()) for command in COMMANDS]
    shown, told = (getattr(sys, name).buffer.getvalue() for name in streams)
    assert statuses == [0] * (len(COMMANDS) - 1) + [2], told
    assert b"Caf" in shown
    assert b"unexpected" not in told


def test_a_tilde_in_a_path_of_a_command_or_of_any_source_of_settings_is_the_home_folder(tmp_path, monkeypatch):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "mine/segment").mkdir(parents=True)
    elsewhere.mkdir()
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.chdir(elsewhere)
    write_transcript(home / "run.jsonl", demo_session(turns=2))
    (home / "run.toml").write_text("[summarizing_context]\nmax_tokens = 3000\n")
    assert main(["import", "~/run.jsonl", "--store=~/agent.db", "--json=~/told.json"]) == 0
    assert main(["view", "run", "--store", "~/agent.db", "--config", "~/run.toml"]) == 0
    assert {path.name for path in home.iterdir()} >= {"agent.db", "told.json"}
    assert list(elsewhere.iterdir()) == []
    places = {"store": "~/agent.db", "prompts": "~/mine", "prices": "~/prices.toml"}
    rows = "".join(f'{name} = "{value}"\n' for name, value in places.items())
    (home / "agent.toml").write_text(f"[summarizing_context]\n{rows}")
    (home / "agent.json").write_text(json.dumps(places))
    for settings in (
        *(Settings(**places), Settings(**{name: Path(value) for name, value in places.items()})),
        *(Settings.from_mapping({"context_management": places}), Settings.from_toml("~/agent.toml")),
        *(Settings.load(f"~/agent.{form}", environ={}) for form in ("toml", "json")),
        Settings.from_env(environ={f"SUMMARIZING_CONTEXT_{name.upper()}": value for name, value in places.items()}),
    ):
        found = {name: str(getattr(settings, name)) for name in places}
        assert found == {name: str(home / value.removeprefix("~/")) for name, value in places.items()}
    with pytest.raises(SettingsError, match="no home folder"):
        Settings(store="~nobody-of-this-name/agent.db")
    assert Settings(store="./~/agent.db").store == "./~/agent.db"


@pytest.mark.parametrize(("data", "times"), [(b" " * 2**24, 20), (b"\n" * 2**20, 9)])  # 320 MB, 9 million lines
def test_a_compressed_transcript_that_would_fill_the_memory_is_refused(tmp_path, capsys, data, times):
    (tmp_path / "spaces.jsonl.gz").write_bytes(gzip.compress(data) * times)
    assert main(["replay", str(tmp_path / "spaces.jsonl.gz")]) == 2
    assert re.search(r"spaces.jsonl.gz:\d+: unpacks to more than 256 MB.*gunzip", capsys.readouterr().err)


# `/context ...` commands, as a host passes them on.


LOG = [user("The walrus is called Ursula."), *session(3, 60, rules="")]
GOOD = [
    *("/context", "/context help", "/context status", "/CONTEXT\tStatus\n"),
    *("/context summarize", "/context summarize the walrus", "/context summarize 4"),
    *("/context compress", "/context compress 0.9"),
    *("/context pins", "/context pin 0", "/context pin Ursula bites", "/context pins", "/context unpin p1"),
    *("/context checkpoint before the move", "/context checkpoints", "/context restore before the move"),
    *("/context search walrus", " search\twalrus ", "/context expand {name} line", "expand 0"),
    *("recall name of the walrus", "Memory walrus", "ledger"),
]


async def run(context: SummarizingContext, text: Any) -> CommandResult:
    result = await context.handle_command(text)
    assert json.loads(json.dumps(result.data)) == result.data
    assert result.text.strip()
    return result


WRONG = {
    "/context statsu": "did you mean 'status'?",
    "/context xyzzy": "'/context help' lists all",
    "/context restore": "checkpoint",
    "/context restore c99": "no checkpoint of this id or name; it has none yet",
    "/context unpin p9": "no pin of this id; it has none",
    "/context search": "Usage: /context search [--project|--all] QUERY",
    "/context expand": "Usage: /context expand",
    "/context expand 900": "messages 0 to",
    "/context expand 1 all of it": "detail",
    "/context recall ?!": "words",
    None: "NoneType",
}


async def test_every_command_answers_with_text_and_data_and_what_is_wrong_with_one_with_its_error():
    async with opened(LOG) as context:
        name = context.explain()[0].name
        for text in GOOD:
            assert (await run(context, text.format(name=name))).ok, text
        helped = await run(context, "help")
        assert all(f"/context {name}" in helped.text for name in helped.data["commands"])
    async with opened(LOG) as context:
        for text, says in WRONG.items():
            result = await run(context, text)
            assert (result.ok, says in result.text, bool(result.data["error"])) == (False, True, True), text
