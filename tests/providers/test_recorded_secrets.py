"""`eval run` with a model on a transcript with secrets: no part of one is sent, or stands in a file that is written."""

import json
from pathlib import Path
from typing import Any

from tests.cli.commands import write_transcript
from tests.laws.builders import assistant, call, result, user

from .protocols import KEY, MODEL, OPENAI
from .serve import answering, command, serving_apart

TOKEN = "hf_" + "Qx7ZpLm4Rt" * 4
LINES = [f"MATERIAL{at:02}{'kQ7zW3' * 8}" for at in range(5)]
BLOCK = "\n".join(["-----BEGIN PRIVATE KEY-----", *LINES, "-----END PRIVATE KEY-----"])
PART = 12  # characters
PARTS = {text[at : at + PART] for text in (TOKEN, *LINES) for at in range(len(text) - PART + 1)}


def used(id: str, said: str, **arguments: str) -> list[dict[str, Any]]:
    """A call and its result."""
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


def test_no_part_of_a_secret_is_sent_or_written(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    cases, written = transcript(tmp_path), tmp_path / "written"
    asked = ["eval", "run", cases, "--budget", "2k", "--model", MODEL]
    asked += ["--cassette", written / "c.jsonl", "--json", written / "told.json"]
    with serving_apart(answering) as server:
        assert command(*asked, "--base-url", OPENAI.base_url(server.root), "--yes", "--out", written / "record") == 0
        sent = [json.dumps(request.body) for request in server.requests]
    assert command(*asked, "--jobs", 1, "--out", written / "run") == 0
    files = [path for path in written.rglob("*") if path.is_file()]
    assert {"c.jsonl", "told.json", "report.html"} <= {path.name for path in files}
    found = [held(text) for text in (*sent, *(path.read_text("utf8") for path in files))]
    assert sent
    assert not any(found)
    assert held(cases.read_text("utf8"))  # what is looked for can be found
    assert any("src/vault.py" in text for text in sent)
