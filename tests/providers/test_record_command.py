"""`eval run` with a model: recorded against the provider on the loopback, replayed without it."""

import json
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.sessions import write

from .protocols import KEY, MODEL, PROTOCOLS
from .serve import answering, command, same_reports, serving_apart


def run(folder: Path, name: str, *more: object, provider: str = "openai", model: str = MODEL) -> int:
    """Run the one case of the folder, with its cassette and its reports beside it."""
    case = folder / "case"
    if not case.exists():
        write(case, 1, turns=9, later=7)
    asked = ("--budget", 1_500, "--summarizer", provider, "--model", model)
    return command("eval", "run", case, *asked, "--cassette", folder / "c.jsonl", "--out", folder / name, *more)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
def test_a_recorded_run_is_replayed_to_the_byte(protocol, tmp_path, monkeypatch, capsys):
    key = f"{protocol.name.upper()}_API_KEY"
    monkeypatch.setenv(key, KEY)
    monkeypatch.setattr("sys.stdin", StringIO())  # no answer to a question
    play = partial(run, tmp_path, provider=protocol.name)
    with serving_apart(answering) as server:
        url = ("--base-url", protocol.base_url(server.root))
        assert play("record", *url) == 2  # the price is not accepted
        told = capsys.readouterr().err
        assert "requests (" in told
        assert "give --yes" in told
        assert len(server.requests) == 0
        assert play("record", *url, "--yes", "--max-calls", 2) == 4
        assert "max_calls" in capsys.readouterr().err
        assert play("record", *url, "--yes") == 0
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


def test_a_dry_run_tells_the_price_and_sends_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving_apart(answering) as server:
        url = ("--base-url", f"{server.root}/v1", "--dry-run", "--json", "-")
        assert run(tmp_path, "record", *url, model="gpt-5.4-mini") == 0
        assert server.requests == []
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["by_kind"]["segment"] > 1
    assert told["input_tokens"] * 0.75e-6 < told["estimated_cost"] < told["input_tokens"] * 4e-6
    assert [path.name for path in tmp_path.iterdir()] == ["case"]
