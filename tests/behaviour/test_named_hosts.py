"""A host that the user names gets all calls of a command, and no other place is even looked up."""

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from summarizing_context import Settings, open_context
from summarizing_context.cli import main
from summarizing_context.evaluation.demo import demo_session
from summarizing_context.summarizers.prompts import latest, write_prompt
from tests.cli.commands import write_transcript
from tests.providers.asking import JUDGE, WRITER, answering
from tests.providers.serve import serving_apart
from tests.providers.server import Answer, ProviderServer, Request

PROVIDERS = ("openai", "anthropic")


@pytest.fixture
def strayed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Whatever was looked up or connected to beside the loopback; it fails at once."""
    beside: list[str] = []
    really_connect, really_look_up = socket.socket.connect, socket.getaddrinfo

    def check(host: object) -> None:
        if host not in ("127.0.0.1", "localhost", None):
            beside.append(str(host))
            raise OSError("the test has no network")

    def connect(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple):
            check(address[0])
        really_connect(self, address)

    def look_up(host: Any, *more: Any, **named: Any) -> Any:
        check(host.decode() if isinstance(host, bytes) else host)
        return really_look_up(host, *more, **named)

    for name in PROVIDERS:
        monkeypatch.setenv(f"{name.upper()}_API_KEY", "sk-key-of-the-environment")
        monkeypatch.delenv(f"{name.upper()}_BASE_URL", raising=False)
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.chdir(tmp_path)
    yield beside
    assert beside == []


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_transcript(tmp_path / "run.jsonl", demo_session()[:24])


def asked(server: ProviderServer) -> set[str]:
    """The models that got requests."""
    return {request.body["model"] for request in server.requests}


@pytest.mark.parametrize(
    ("command", "provider"),
    [("replay", "openai"), ("eval run", "anthropic"), ("eval ask", "openai"), ("tune", "openai")],
)
def test_a_command_with_a_model_asks_only_the_base_url(command, provider, log, strayed, capsys):
    prompt = replace(latest("segment"), version=9, text=f"{latest('segment').text}\nKeep every port.")
    Path("mine/segment").mkdir(parents=True)
    Path("mine/segment/v9.md").write_text(write_prompt(prompt), encoding="utf8")
    other = write_transcript(log.with_name("other.jsonl"), demo_session()[2:20])
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


def test_a_session_asks_only_its_base_url_for_summaries_memories_rules_and_vectors(log: Path, strayed: list[str]):
    with serving_apart(embedding) as server:
        memory = {"memory_extract": True, "memory_include": "auto", "embedding": "openai", "embedding_model": "vectors"}
        model = {"summarizer": "openai", "model": WRITER, "base_url": f"{server.root}/v1"}

        async def live() -> None:
            async with open_context(Settings(store="run.db", max_tokens=4_000, **model, **memory)) as context:
                for message in demo_session(turns=6):
                    await context.add_message(message)
                    if message["role"] == "user":
                        await context.get_messages_for_request()
                await context.wait_idle()
                await context.memory.store("The port is 6543.")
                await context.search("port")

        anyio.run(live)
    assert asked(server) >= {WRITER, "vectors"}
