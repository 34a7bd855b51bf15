"""`summarizing-context check`: one call says whether the summarizer answers, and if not, why."""

import json
import re
from typing import Any

import pytest

from summarizing_context.cli import main
from tests.providers.serve import serving_apart
from tests.providers.server import Answer

KEY, MODEL = "sk-secret-0123456789", "model-of-the-test"


@pytest.fixture(params=["openai", "anthropic"])
def check(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command for a server that answers so: the exit status, what it says as JSON, the server, its requests."""
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)

    def run(answer: Answer) -> tuple[int, dict[str, Any], str, list[Any]]:
        with serving_apart(lambda _: answer) as one:
            base = f"{one.root}/v1" if request.param == "openai" else one.root
            given = ["--summarizer", request.param, "--model", MODEL, "--base-url", base, "--json", "-"]
            status = main(["check", *given])
        shown = capsys.readouterr().out
        assert KEY not in shown
        return status, json.loads(shown)["summarizer"] | {"ok": json.loads(shown)["ok"]}, one.root, one.requests

    return run


def test_a_summarizer_that_answers_passes_with_one_call(check):
    status, said, root, requests = check(Answer())
    assert (status, said["ok"], said["problem"]) == (0, True, None)
    assert (said["host"], said["model"]) == (root.removeprefix("http://"), MODEL)
    assert [request.body["model"] for request in requests] == [MODEL]
    assert len(json.dumps(requests[0].body)) < 400, "a handful of tokens"
    assert said["input_tokens"] == 900, "as the provider has counted"


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
        (Answer(ending="stall"), "time|0.3 seconds"),
    ],
)
def test_what_is_wrong_is_said(check, monkeypatch, answer, problem):
    if answer.ending == "stall":
        monkeypatch.setenv("SUMMARIZING_CONTEXT_CALL_TIMEOUT", "0.3")
    status, said, root, requests = check(answer)
    assert (status, said["ok"], len(requests)) == (1, False, 1)
    assert re.search(problem, said["problem"])
    assert said["host"] == root.removeprefix("http://")
    assert said["status"] == (answer.status if answer.status >= 400 else None)


@pytest.mark.parametrize("check", ["openai"], indirect=True)
def test_a_missing_key_is_said_without_a_call(check, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    status, said, _, requests = check(Answer())
    assert (status, requests) == (1, [])
    assert "OPENAI_API_KEY" in said["problem"]
