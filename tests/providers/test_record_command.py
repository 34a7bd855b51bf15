"""`eval run` with a model: priced ahead, recorded against the provider on the loopback, and replayed without it."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import Settings
from summarizing_context.evaluation.replay import replay_log
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.transcripts import Transcript
from tests.cli.commands import write_transcript
from tests.laws.builders import assistant, call, result, session, user
from tests.laws.judge import SMALL

from .protocols import KEY, MODEL, PROTOCOLS, spoken_at, system_text, user_text
from .serve import answering, command, same_reports, serving_apart
from .server import Answer, Request, serving

for_all = pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)


TOKEN = "hf_" + "Qx7ZpLm4Rt" * 4
LINES = [f"MATERIAL{at:02}{'kQ7zW3' * 8}" for at in range(5)]
BLOCK = "\n".join(["-----BEGIN PRIVATE KEY-----", *LINES, "-----END PRIVATE KEY-----"])
PART = 12  # characters
PARTS = {text[at : at + PART] for text in (TOKEN, *LINES) for at in range(len(text) - PART + 1)}


def used(id: str, said: str, **arguments: str) -> list[dict[str, Any]]:
    return [call("openai", (id, "run", arguments)), result("openai", id, said)]


def transcript(folder: Path) -> Path:
    """Both secrets in words, in blocks that cut them, in JSON, and as values that later calls use."""
    said = f"The token is {TOKEN}, and the key:\n{BLOCK}\nKeep both in src/vault.py, port 8417."
    parts = (TOKEN[:20], f"{TOKEN[20:]} and", BLOCK[:90], f"{BLOCK[90:]} so")
    told = [(user, assistant)[at % 2](f"Row {at} tells of the harbour and its boats. " * 20) for at in range(36)]
    uses = [row for at in range(4) for row in used(f"u{at}", "done", path="src/vault.py", token=TOKEN, key=BLOCK)]
    given = json.dumps({"out": BLOCK, "token": TOKEN})
    rows = [user(said), user([{"type": "text", "text": text} for text in parts])]
    rows += [*used("a", given, command="cat src/vault.py", path="src/vault.py"), *told[:24], *uses, *told[24:], *uses]
    return write_transcript(folder / "vault.jsonl", rows)


def held(text: str) -> list[str]:
    return sorted(part for part in PARTS if part in text)


@for_all
def test_a_recorded_run_is_replayed_to_the_byte(protocol, tmp_path, monkeypatch, capsys):
    """And no part of a secret of its transcript is sent, or stands in a file that is written."""
    key = f"{protocol.name.upper()}_API_KEY"
    monkeypatch.setenv(key, KEY)
    monkeypatch.setattr("sys.stdin", StringIO())  # no answer to a question
    case, written = transcript(tmp_path), tmp_path / "written"
    asked = ("--budget", "2k", "--summarizer", protocol.name, "--cassette", written / "c.jsonl", "--jobs", 1)

    def play(name: str, *more: object, model: str = MODEL) -> int:
        return command("eval", "run", case, *asked, "--model", model, "--out", written / name, *more)

    with serving_apart(answering) as server:
        url = ("--base-url", protocol.base_url(server.root))
        assert play("record", *url) == 2  # the price is not accepted
        told = capsys.readouterr().err
        assert "requests (" in told
        assert "give --yes" in told
        assert len(server.requests) == 0
        assert play("record", *url, "--yes", "--max-calls", 2) == 4
        assert "max_calls" in capsys.readouterr().err
        assert play("record", *url, "--yes", "--json", written / "told.json") == 0
        sent = [json.dumps(request.body) for request in server.requests]
        assert f"{len(sent) - 2:,} calls" in capsys.readouterr().err
    monkeypatch.delenv(key)
    assert play("run") == 0, "without a server"
    assert same_reports(written / "run", written / "record")
    assert MODEL in (written / "run" / "report.json").read_text("utf8")
    assert "127.0.0.1" not in (written / "run" / "report.html").read_text("utf8")
    capsys.readouterr()
    assert play("run", model="another-model") == 2
    assert "another-model at" in capsys.readouterr().err
    files = [path for path in written.rglob("*") if path.is_file()]
    assert {"c.jsonl", "told.json", "report.html"} <= {path.name for path in files}
    assert not any(held(text) for text in (*sent, *(path.read_text("utf8") for path in files)))
    assert held(case.read_text("utf8"))  # what is looked for can be found
    assert any("src/vault.py" in text for text in sent)


# A dry run tells what a real one then asks for, and asks for nothing itself.

LOG = Transcript("log", "messages", tuple(session(63, 150)), {})


def metered(request: Request) -> Answer:
    """A summary near the cap, or no rules, billed for what was really sent."""
    read, cap = system_text(request.body), SMALL["summary_max_tokens"]
    text = "## Done\n" + "\n".join(f"- item {request.number} {n} was made" for n in range(cap // 10))
    if "standing rules" in read:
        text = "none"
    spoken = spoken_at(request.path)
    usage = spoken.usage(estimate_text(read) + estimate_text(user_text(request.body)), estimate_text(text))
    return Answer(body=json.dumps(spoken.reply(text, usage=usage)).encode())


@for_all
async def test_a_dry_run_tells_the_calls_and_the_tokens_of_the_real_one(protocol, monkeypatch):
    monkeypatch.delenv(f"{protocol.name.upper()}_API_KEY", raising=False)
    settings = Settings(summarizer=protocol.name, model=MODEL, max_tokens=2_000, **SMALL)
    (told,) = await replay_log("log", LOG, [settings], dry_run=True)
    async with serving(metered) as server:
        place = {"base_url": protocol.base_url(server.root), "api_key": KEY}
        (real,) = await replay_log("log", LOG, [replace(settings, **place)])
    assert told.counts["model_calls"] == real.counts["model_calls"] == len(server.requests) > 10
    assert sum("consecutive parts" in system_text(one.body) for one in server.requests) > 0
    assert told.counts["model_input_tokens"] == pytest.approx(real.counts["model_input_tokens"], rel=0.03)
    assert all(told.counts[name] == real.counts[name] > 0 for name in ("messages", "history_tokens"))
