"""`eval run` with a model: recorded against the provider on the loopback, replayed without it."""

from io import StringIO

import pytest

from tests.evaluation.sessions import write

from .protocols import KEY, MODEL, PROTOCOLS
from .serve import answering, command, same_reports, serving_apart


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
def test_a_recorded_run_is_replayed_to_the_byte(protocol, tmp_path, monkeypatch, capsys):
    key = f"{protocol.name.upper()}_API_KEY"
    monkeypatch.setenv(key, KEY)
    monkeypatch.setattr("sys.stdin", StringIO())  # no answer to a question
    asked = ("--budget", 1_500, "--summarizer", protocol.name, "--cassette", tmp_path / "c.jsonl")
    case = write(tmp_path / "case", 1, turns=9, later=7)

    def play(name: str, *more: object, model: str = MODEL) -> int:
        return command("eval", "run", case, *asked, "--model", model, "--out", tmp_path / name, *more)

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
    monkeypatch.delenv(key)
    assert play("run") == 0, "without a server"
    assert same_reports(tmp_path / "run", tmp_path / "record")
    assert MODEL in (tmp_path / "run" / "report.json").read_text("utf8")
    assert "127.0.0.1" not in (tmp_path / "run" / "report.html").read_text("utf8")
    capsys.readouterr()
    assert play("run", model="another-model") == 2
    assert "another-model at" in capsys.readouterr().err
