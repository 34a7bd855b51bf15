"""Commands with a model: calls go to the host that is named, `check` says what is wrong, `eval ask` mends itself."""

import gzip
import json
import re
import socket
from collections import Counter
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
from tests.privacy import open_to_others
from tests.providers import test_ask_command
from tests.providers.protocols import completion
from tests.providers.serve import kept_prompt, serving_apart
from tests.providers.server import Answer, ProviderServer, Request
from tests.providers.test_ask_command import JUDGE, WRITER, answering, kind_of


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv("SUMMARIZING_CONTEXT_TOKEN_COUNTER", "estimate")
    write_transcript(tmp_path / "run.jsonl", demo_session()[:14])


@pytest.fixture
def strayed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
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
    yield
    assert beside == []


def asked(server: ProviderServer) -> set[str]:
    """The models that got requests."""
    return {request.body["model"] for request in server.requests}


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ("openai", "replay run.jsonl"),
        ("anthropic", "eval run run.jsonl --cassette c.jsonl --yes"),
        ("openai", f"eval ask run.jsonl --judge-model {JUDGE} --questions 2 --arms ours,tail --yes"),
        ("openai", "tune run.jsonl other.jsonl --cassette c.jsonl --yes --prompt mine"),
    ],
)
def test_a_command_with_a_model_asks_only_the_base_url(provider, words, strayed, capsys):
    write_transcript(Path("other.jsonl"), demo_session()[2:14])
    kept_prompt(test_ask_command.MINE, Path("mine"))
    with serving_apart(answering) as server:
        url = f"{server.root}/v1" if provider == "openai" else server.root
        given = [*words.split(), "--summarizer", provider, "--model", WRITER, "--base-url", url, "--budget", "3k"]
        assert main([*given, "--dry-run"]) == 0
        assert f"{WRITER} would be asked at {url}" in (out := capsys.readouterr().out) or f"{WRITER} at {url}" in out
        assert server.requests == []
        assert main(given) in (0, 1)  # whatever the views are worth
    assert asked(server) == ({WRITER, JUDGE} if JUDGE in words else {WRITER})


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


KEY, MODEL = "sk-secret-0123456789", "model-of-the-test"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(), None),
        (None, "(OPENAI|ANTHROPIC)_API_KEY"),  # which is missing
        (Answer(401), "refuses the key"),
        (Answer(404), "does not know the model, or the address is wrong"),
        (Answer(headers=(("content-type", "text/html"),), body=b"<html>Sign in</html>"), "not a JSON object"),
        (Answer(model=lambda _: ""), "empty"),
        (Answer(ending="stall"), "time|0.3 seconds"),
    ],
)
def test_one_call_tells_whether_a_summarizer_answers_and_if_not_why(provider, answer, problem, capsys, monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, KEY) if answer else monkeypatch.delenv(name, raising=False)
    if answer and answer.ending == "stall":
        monkeypatch.setenv("SUMMARIZING_CONTEXT_CALL_TIMEOUT", "0.3")
    with serving_apart(lambda _: answer) as server:
        base = f"{server.root}/v1" if provider == "openai" else server.root
        given = ["--summarizer", provider, "--model", MODEL, "--base-url", base, "--json", "-"]
        assert main(["check", *given]) == (problem is not None)
    shown = capsys.readouterr().out
    assert KEY not in shown
    said = json.loads(shown)["summarizer"]
    assert (json.loads(shown)["ok"], said["model"]) == (problem is None, MODEL)
    assert said["host"] == (server.root.removeprefix("http://") if server.requests else None)
    assert [request.body["model"] for request in server.requests] == [MODEL] * (answer is not None)
    assert all(len(json.dumps(request.body)) < 400 for request in server.requests), "a handful of tokens"
    assert said["status"] == (answer.status if answer and answer.status >= 400 else None)
    if problem is None:
        assert (said["problem"], said["input_tokens"]) == (None, 900), "as the provider has counted"
    else:
        assert re.search(problem, said["problem"])


# A folder of `eval ask`: bad replies are asked again, and damaged files are named with the way out.

BAD = {  # what can be read, and cannot be used
    "questions": '{"questions": [{"category": "fact", "question": "Who?", "answer": "He.", "evidence": [9999]}]}',
    "reader": '{"question 7": "He."}',
    "judge": '{"q1": {"Z": 2}}',
}


def ask(server: ProviderServer) -> int:
    return test_ask_command.ask(Path("run.jsonl"), server, "--arms", "ours,tail", budget="3k")


def kinds_asked(server: ProviderServer) -> Counter[str]:
    return Counter(kind_of(request.body) for request in server.requests)


def badly(*kinds: str, times: int = 1_000) -> Callable[[Request], Answer]:
    """The first replies of these kinds cannot be used."""
    left = dict.fromkeys(kinds, times)

    def answer(request: Request) -> Answer:
        if not left.get(kind := kind_of(request.body)):
            return answering(request)
        left[kind] -= 1
        refusal = None if kind in BAD else "I cannot help with that."
        return Answer(body=json.dumps(completion(BAD.get(kind), refusal=refusal)).encode())

    return answer


@pytest.mark.parametrize(
    ("answer", "kinds", "said"),
    [
        (badly("judge"), ["questions", "summary", "reader", "judge"], "no usable judge reply in 3"),
        (badly("summary"), ["questions", "summary"], f"{WRITER} at http"),
    ],
)
def test_a_folder_with_bad_replies_is_asked_again_by_the_same_command(answer, kinds, said, capsys):
    with serving_apart(answer) as server:
        assert ask(server) == 2
        assert kinds_asked(server).keys() == {*kinds}
        assert kinds_asked(server)[kinds[-1]] < 5
    told = capsys.readouterr().err
    assert said in told
    assert "asks again" in told
    with serving_apart(answering) as server:
        assert ask(server) == 0
        first = kinds_asked(server)
        assert first[kinds[-1]] >= 1
        assert ask(server) == 0
        assert kinds_asked(server) == first, "what could be used is not asked again"


def damaged(path: Path) -> list[bytes]:
    """What a process that was killed while it wrote the file could have left."""
    whole = path.read_bytes()
    return [b"", whole[: len(whole) // 2], gzip.compress(b'{"a": 1}\n')]


def test_a_damaged_file_of_the_folder_is_redone_or_named_with_its_line_and_the_way_out(capsys, caplog):
    with serving_apart(badly(*BAD, times=1)) as server:
        assert ask(server) == 0
        assert caplog.text.count("cannot be used") == len(BAD), "each is asked again in the same run"
        assert open_to_others(Path("eval-ask")) == []
        folder, first = Path("eval-ask"), len(server.requests)
        files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("report")]
        (questions,) = (folder / "questions").glob("run-*.json")
        names = {"cases.toml", "cassette.jsonl", questions.name, f"{questions.stem}.jsonl.gz"}
        assert {path.name for path in files} >= names
        for number, path in enumerate(files):
            whole = path.read_bytes()
            half = path.name == "cassette.jsonl"  # an empty one is one without replies
            path.write_bytes(left := damaged(path)[1 if half else number % 3])
            capsys.readouterr()
            if ask(server) != 0:
                told = capsys.readouterr().err
                assert f"error: {path}:" in told, left
                assert any(way in told for way in ("take it out", "delete it", "new folder", "fetch the file again")), (
                    told
                )
            path.write_bytes(whole)
        questions.unlink()
        assert ask(server) == 0
        assert questions.exists()
        assert len(server.requests) == first, "the cassette has all replies"
