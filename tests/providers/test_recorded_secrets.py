"""`eval run` with a model on a transcript with secrets: no part of one is sent, or stands in a file that is written."""

import json
from pathlib import Path
from typing import Any

from .protocols import KEY, MODEL, OPENAI
from .serve import answering, command, serving_apart

TOKEN = "hf_" + "Qx7ZpLm4Rt" * 4
LINES = [f"MATERIAL{at:02}{'kQ7zW3' * 8}" for at in range(5)]
BLOCK = "\n".join(["-----BEGIN PRIVATE KEY-----", *LINES, "-----END PRIVATE KEY-----"])
PART = 12  # characters
PARTS = {text[at : at + PART] for text in (TOKEN, *LINES) for at in range(len(text) - PART + 1)}


def call(id: str, arguments: Any) -> dict[str, Any]:
    function = {"name": "run", "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": id, "type": "function", "function": function}]}


def secret_rows() -> list[dict[str, Any]]:
    """Both secrets in words, in blocks that cut them, in JSON, and as values that later calls use."""
    said = f"The token is {TOKEN}, and the key:\n{BLOCK}\nKeep both in src/vault.py, port 8417."
    parts = (TOKEN[:20], f"{TOKEN[20:]} and", BLOCK[:90], f"{BLOCK[90:]} so")
    return [
        {"role": "user", "content": said},
        {"role": "user", "content": [{"type": "text", "text": text} for text in parts]},
        call("a", {"command": "cat src/vault.py", "path": "src/vault.py"}),
        {"role": "tool", "tool_call_id": "a", "content": json.dumps({"out": BLOCK, "token": TOKEN})},
    ]


def transcript(folder: Path) -> Path:
    told = [
        {"role": ("user", "assistant")[at % 2], "content": f"Row {at} tells of the harbour and its boats. " * 20}
        for at in range(36)
    ]
    uses: list[dict[str, Any]] = []
    for at in range(4):
        uses.append(call(f"u{at}", {"path": "src/vault.py", "token": TOKEN, "key": BLOCK}))
        uses.append({"role": "tool", "tool_call_id": f"u{at}", "content": "done"})
    rows = [*secret_rows(), *told[:24], *uses, *told[24:], *uses]
    path = folder / "vault.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf8")
    return path


def held(text: str) -> list[str]:
    return sorted(part for part in PARTS if part in text)


def test_no_part_of_a_secret_is_sent_or_written(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "logs").mkdir()
    cases, written = transcript(tmp_path / "logs"), tmp_path / "written"
    asked = [cases, "--budget", "2k", "--model", MODEL]
    place = ["--cassette", written / "c.jsonl", "--json", written / "told.json"]
    with serving_apart(answering) as server:
        url = ["--base-url", OPENAI.base_url(server.root)]
        assert command("eval", "run", *asked, *place, *url, "--yes", "--out", written / "record") == 0
        sent = [json.dumps(request.body) for request in server.requests]
    assert command("eval", "run", *asked, *place, "--jobs", 1, "--out", written / "run") == 0
    files = [path for path in written.rglob("*") if path.is_file()]
    assert {"c.jsonl", "told.json", "report.html"} <= {path.name for path in files}
    found = [held(text) for text in (*sent, *(path.read_text("utf8") for path in files))]
    assert sent
    assert not any(found)
    assert held(cases.read_text("utf8"))  # what is looked for can be found
    assert any("src/vault.py" in text for text in sent)
