"""`eval run` with a model: recorded against the provider on the loopback, replayed without it."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.sessions import write

from .protocols import KEY, MODEL, PROTOCOLS
from .serve import answering, command, same_reports, serving_apart
from .server import Answer


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("case"), 1, turns=9, later=7)


def run(name: str, case: Path, folder: Path, *more: object, provider: str = "openai", model: str = MODEL) -> int:
    asked = ("--budget", 1_500, "--summarizer", provider, "--model", model)
    return command("eval", "run", case, *asked, "--cassette", folder / "c.jsonl", "--out", folder / name, *more)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
def test_a_recorded_run_is_replayed_to_the_byte(protocol, case, tmp_path, monkeypatch, capsys):
    key = f"{protocol.name.upper()}_API_KEY"
    monkeypatch.setenv(key, KEY)
    monkeypatch.setattr("sys.stdin", StringIO())  # no answer to a question

    def play(name: str, *more: object, model: str = MODEL) -> int:
        return run(name, case, tmp_path, *more, provider=protocol.name, model=model)

    with serving_apart(answering) as server:
        url = ("--base-url", protocol.base_url(server.root))
        assert play("record", *url) == 2  # the price is not accepted
        told = capsys.readouterr().err
        assert "requests (" in told
        assert "give --yes" in told
        assert len(server.requests) == 0
        url = (*url, "--yes")
        assert play("record", *url, "--max-calls", 2) == 4
        assert "max_calls" in capsys.readouterr().err
        assert play("record", *url) == 0
        assert f"{len(server.requests) - 2:,} calls" in capsys.readouterr().err
        asked = len(server.requests)
    monkeypatch.delenv(key)
    assert play("run") == 0
    assert len(server.requests) == asked
    assert same_reports(tmp_path / "run", tmp_path / "record")
    assert MODEL in (tmp_path / "run" / "report.json").read_text("utf8")
    assert "127.0.0.1" not in (tmp_path / "run" / "report.html").read_text("utf8")

    capsys.readouterr()
    assert play("run", model="another-model") == 2
    assert "another-model at" in capsys.readouterr().err


def test_a_dry_run_tells_the_price_and_sends_nothing(case, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving_apart(lambda _: Answer()) as server:
        url = ("--base-url", f"{server.root}/v1", "--dry-run", "--json", "-")
        assert run("record", case, tmp_path, *url, model="gpt-5.4-mini") == 0
        assert server.requests == []
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["by_kind"]["segment"] > 1
    assert told["input_tokens"] * 0.75e-6 < told["estimated_cost"] < told["input_tokens"] * 4e-6
    assert list(tmp_path.iterdir()) == []
