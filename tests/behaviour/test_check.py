"""`summarizing-context check`: one call says whether the summarizer answers, and if not, why."""

import json
from typing import Any

import pytest

from summarizing_context.cli import main
from tests.providers.serve import serving_apart
from tests.providers.server import Answer

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
def test_a_summarizer_that_answers_passes_with_one_call(capsys: pytest.CaptureFixture[str], summarizer: str):
    with serving_apart(lambda _: Answer()) as one:
        status, said = checked(capsys, summarizer, one.root)
    assert (status, said["ok"], said["summarizer"]["problem"]) == (0, True, None)
    assert (said["summarizer"]["host"], said["summarizer"]["model"]) == (one.root.removeprefix("http://"), MODEL)
    assert [request.body["model"] for request in one.requests] == [MODEL]
    assert len(json.dumps(one.requests[0].body)) < 400, "a handful of tokens"
    assert said["summarizer"]["input_tokens"] == 900, "as the provider has counted"


@both
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(401), "refuses the key"),
        (Answer(403), "refuses the key"),
        (Answer(404), "does not know the model, or the address is wrong"),
        (Answer(429), "asks for fewer calls"),
        (Answer(500), "the provider failed"),
        (Answer(headers=(("content-type", "text/html"),), body=b"<html>Sign in</html>"), "not a JSON object"),
        (Answer(model=lambda _: ""), "empty"),
    ],
)
def test_what_is_wrong_is_said(capsys, summarizer, answer, problem):
    with serving_apart(lambda _: answer) as one:
        status, said = checked(capsys, summarizer, one.root)
    assert (status, said["ok"], len(one.requests)) == (1, False, 1)
    assert problem in said["summarizer"]["problem"]
    assert said["summarizer"]["host"] == one.root.removeprefix("http://")
    assert said["summarizer"]["status"] == (answer.status if answer.status >= 400 else None)


@both
def test_a_silent_server_is_said(capsys, monkeypatch, summarizer):
    monkeypatch.setenv("SUMMARIZING_CONTEXT_CALL_TIMEOUT", "0.3")
    with serving_apart(lambda _: Answer(ending="stall")) as one:
        status, said = checked(capsys, summarizer, one.root)
    assert status == 1
    assert "time" in said["summarizer"]["problem"] or "0.3 seconds" in said["summarizer"]["problem"]


def test_a_missing_key_is_said_without_a_call(capsys, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with serving_apart(lambda _: Answer()) as one:
        status, said = checked(capsys, "openai", one.root)
    assert (status, one.requests) == (1, [])
    assert "OPENAI_API_KEY" in said["summarizer"]["problem"]
