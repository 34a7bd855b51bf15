"""A host that the user names gets all calls of a command, no other is even looked up; `check` says what is wrong."""

import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.cli import main
from summarizing_context.evaluation.replay import demo_session
from tests.behaviour.contexts import fill
from tests.cli.commands import write_transcript
from tests.providers.asking import JUDGE, WRITER, answering
from tests.providers.serve import kept_prompt, serving_apart
from tests.providers.server import Answer, ProviderServer, Request
from tests.providers.test_ask_command import MINE


@pytest.fixture
def strayed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Whatever is looked up or connected to beside the loopback fails at once, and fails the test."""
    beside: list[object] = []

    def guarded(real: Any, host_of: Callable[..., object]) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if (host := host_of(*given)) not in ("127.0.0.1", b"127.0.0.1", "localhost", b"localhost", None):
                beside.append(host)
                raise OSError("the test has no network")
            return real(*given, **named)

        return call

    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", "sk-key-of-the-environment")
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    connect, look_up = socket.socket.connect, socket.getaddrinfo
    of_address = lambda _, address: address[0] if isinstance(address, tuple) else None  # noqa: E731
    monkeypatch.setattr(socket.socket, "connect", guarded(connect, of_address))
    monkeypatch.setattr(socket, "getaddrinfo", guarded(look_up, lambda host, *_: host))
    monkeypatch.chdir(tmp_path)
    yield
    assert beside == []


def asked(server: ProviderServer) -> set[str]:
    """The models that got requests."""
    return {request.body["model"] for request in server.requests}


@pytest.mark.parametrize(
    ("command", "provider"),
    [("replay", "openai"), ("eval run", "anthropic"), ("eval ask", "openai"), ("tune", "openai")],
)
def test_a_command_with_a_model_asks_only_the_base_url(command, provider, strayed, capsys):
    log = write_transcript(Path("run.jsonl"), demo_session()[:24])
    other = write_transcript(Path("other.jsonl"), demo_session()[2:20])
    kept_prompt(MINE, Path("mine"))
    with serving_apart(answering) as server:
        url = f"{server.root}/v1" if provider == "openai" else server.root
        model = ("--summarizer", provider, "--model", WRITER, "--base-url", url, "--budget", "3k")
        judged = ("--judge-model", JUDGE, "--questions", 2, "--arms", "ours,tail", "--yes")
        arguments = {
            "replay": ("replay", log, *model),
            "eval run": ("eval", "run", log, "--cassette", "c.jsonl", "--yes", *model),
            "eval ask": ("eval", "ask", log, *judged, *model),
            "tune": ("tune", log, other, "--cassette", "c.jsonl", "--yes", "--prompt", "mine", *model),
        }[command]  # fmt: skip
        words = [str(word) for word in arguments]
        assert main([*words, "--dry-run"]) == 0
        assert f"{WRITER} would be asked at {url}" in (out := capsys.readouterr().out) or f"{WRITER} at {url}" in out
        assert server.requests == []
        assert main(words) in (0, 1)  # whatever the views are worth
    assert asked(server) == ({WRITER, JUDGE} if command == "eval ask" else {WRITER})


def embedding(request: Request) -> Answer:
    if request.path.endswith("/embeddings"):
        rows = [{"index": at, "embedding": [1.0, 0.0]} for at in range(len(request.body["input"]))]
        return Answer(body=json.dumps({"data": rows}).encode())
    return answering(request)


@pytest.mark.usefixtures("strayed")
def test_a_session_asks_only_its_base_url_for_summaries_memories_rules_and_vectors():
    with serving_apart(embedding) as server:
        memory = {"memory_extract": True, "memory_include": "auto", "embedding": "openai", "embedding_model": "vectors"}
        model = {"summarizer": "openai", "model": WRITER, "base_url": f"{server.root}/v1"}

        async def live() -> None:
            async with open_context(Settings(store="run.db", max_tokens=4_000, **model, **memory)) as context:
                await fill(context, demo_session(turns=6), every=2)
                await context.wait_idle()
                await context.memory.store("The port is 6543.")
                await context.search("port")

        anyio.run(live)
    assert asked(server) >= {WRITER, "vectors"}


# `check`: one call says whether the summarizer answers, and if not, why.
KEY, MODEL = "sk-secret-0123456789", "model-of-the-test"


@pytest.fixture(params=["openai", "anthropic"])
def check(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command for a server that answers so: the exit status, what it says as JSON, the server, its requests.
    Without an answer, the command has no key."""

    def run(answer: Answer | None) -> tuple[int, dict[str, Any], list[Any]]:
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(name, KEY) if answer else monkeypatch.delenv(name, raising=False)
        with serving_apart(lambda _: answer) as one:
            base = f"{one.root}/v1" if request.param == "openai" else one.root
            given = ["--summarizer", request.param, "--model", MODEL, "--base-url", base, "--json", "-"]
            status = main(["check", *given])
        shown = capsys.readouterr().out
        assert KEY not in shown
        assert json.loads(shown)["ok"] == (status == 0)
        said = json.loads(shown)["summarizer"]
        assert said["host"] == (one.root.removeprefix("http://") if one.requests else None)
        return status, said, one.requests

    return run


def test_a_summarizer_that_answers_passes_with_one_call(check):
    status, said, (request,) = check(Answer())
    assert (status, said["problem"], said["model"], request.body["model"]) == (0, None, MODEL, MODEL)
    assert len(json.dumps(request.body)) < 400, "a handful of tokens"
    assert said["input_tokens"] == 900, "as the provider has counted"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "(OPENAI|ANTHROPIC)_API_KEY"),  # which is missing
        (Answer(401), "refuses the key"),
        (Answer(404), "does not know the model, or the address is wrong"),
        (Answer(headers=(("content-type", "text/html"),), body=b"<html>Sign in</html>"), "not a JSON object"),
        (Answer(model=lambda _: ""), "empty"),
        (Answer(ending="stall"), "time|0.3 seconds"),
    ],
)
def test_what_is_wrong_is_said(check, monkeypatch, answer, problem):
    if problem.startswith("time"):
        monkeypatch.setenv("SUMMARIZING_CONTEXT_CALL_TIMEOUT", "0.3")
    status, said, requests = check(answer)
    assert (status, len(requests)) == (1, answer is not None)
    assert re.search(problem, said["problem"])
    assert said["status"] == (answer.status if answer and answer.status >= 400 else None)
