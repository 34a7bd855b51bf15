"""`summarizing-context check`: one call says whether the summarizer answers, and if not, why."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from summarizing_context.cli import main
from tests.behaviour.loopback import completion, provider

KEY = "sk-secret-0123456789"
MODEL = "model-of-the-test"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)


def checked(
    capsys: pytest.CaptureFixture[str], summarizer: str, address: str, *more: str
) -> tuple[int, dict[str, Any]]:
    """The exit status, and what the command says as JSON."""
    base = f"{address}/v1" if summarizer == "openai" else address
    given = ["--summarizer", summarizer, "--model", MODEL, "--base-url", base, "--json", "-", *more]
    status = main(["check", *given])
    said = capsys.readouterr().out
    assert KEY not in said
    return status, json.loads(said)


both = pytest.mark.parametrize("summarizer", ["openai", "anthropic"])


@both
def test_a_summarizer_that_answers_passes_with_one_call(capsys: pytest.CaptureFixture[str], summarizer: str) -> None:
    with provider() as one:
        status, said = checked(capsys, summarizer, one.address)
    assert (status, said["ok"], said["summarizer"]["problem"]) == (0, True, None)
    assert (said["summarizer"]["host"], said["summarizer"]["model"]) == (one.host, MODEL)
    assert (len(one.asked), one.asked[0]["model"]) == (1, MODEL)
    assert len(json.dumps(one.asked[0])) < 400, "a handful of tokens"
    assert said["summarizer"]["input_tokens"] < 50


@both
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"status": 401}, "refuses the key"),
        ({"status": 403}, "refuses the key"),
        ({"status": 404}, "does not know the model, or the address is wrong"),
        ({"status": 429}, "asks for fewer calls"),
        ({"status": 500}, "the provider failed"),
        ({"body": b"<html>Sign in</html>", "content_type": "text/html"}, "not a JSON object"),
        ({"body": completion("")}, "empty"),
    ],
)
def test_what_is_wrong_is_said(
    capsys: pytest.CaptureFixture[str], summarizer: str, answer: dict[str, Any], problem: str
) -> None:
    with provider(**answer) as one:
        status, said = checked(capsys, summarizer, one.address)
    assert (status, said["ok"], len(one.asked)) == (1, False, 1)
    assert problem in said["summarizer"]["problem"]
    assert said["summarizer"]["host"] == one.host
    assert said["summarizer"]["status"] == (answer.get("status") if answer.get("status", 200) >= 400 else None)


@both
def test_a_silent_server_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, summarizer: str
) -> None:
    monkeypatch.setenv("SUMMARIZING_CONTEXT_CALL_TIMEOUT", "0.3")
    with provider(silent=threading.Event()) as one:
        status, said = checked(capsys, summarizer, one.address)
    assert status == 1
    assert "time" in said["summarizer"]["problem"] or "0.3 seconds" in said["summarizer"]["problem"]


def test_a_missing_key_is_said_without_a_call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with provider() as one:
        status, said = checked(capsys, "openai", one.address)
    assert (status, one.asked) == (1, [])
    assert "OPENAI_API_KEY" in said["summarizer"]["problem"]
