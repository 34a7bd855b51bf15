"""Prompts tuned with a model: recorded against the provider on the loopback, replayed without it, written by gepa."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from summarizing_context.summarizers.prompts import latest, names
from tests.evaluation.sessions import write

from .protocols import KEY, MODEL, OPENAI, Json, system_text, user_text
from .serve import command, honest, kept_prompt, same_reports, serving_apart
from .server import Answer, ProviderServer, Request

BETTER = "- Keep every id that a call used."
OPTIONS = ("--model", MODEL, "--budget", "1000", "--cassette", "c.jsonl", "--config", "small.toml")
SMALL = """
[summarizing_context]
segment_min = 200
segment_target = 540
segment_max = 900
summary_max_tokens = 60
"""


SHIPPED = latest("segment")
MINE = replace(SHIPPED, version=7, text=f"{SHIPPED.text}\n{BETTER}")
TRIED = ("--prompt", "mine/segment/v7.md")
SOME = [f"logs/session-{number}.jsonl" for number in (1, 2, 3)]


def says(body: Json) -> str:
    """A summarizer that keeps more when it is told to; asked to improve a prompt, it adds a line."""
    if user_text(body).startswith("You improve a prompt."):
        return f"```\n{MINE.text}\n```"
    return honest(body, 60 if BETTER in system_text(body) or "### summary 1 of " in user_text(body) else 16)


def answering(request: Request) -> Answer:
    return Answer(model=says)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path / "logs", *range(1, 6), turns=7, later=5)  # five, from which on a verdict is given
    (tmp_path / "small.toml").write_text(SMALL, encoding="utf8")
    kept_prompt(MINE, tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("sys.stdin", StringIO())  # no answer to a question
    return tmp_path


def tune(*arguments: object, at: ProviderServer | None = None, logs: Sequence[str] = ("logs",)) -> int:
    where = ("--base-url", OPENAI.base_url(at.root)) if at else ()
    return command("tune", *logs, *OPTIONS, *where, *arguments)


def test_a_better_prompt_wins_and_is_the_next_version_and_a_replay_says_the_same(checkout, monkeypatch, capsys):
    with serving_apart(answering) as server:
        assert tune("--dry-run", *TRIED, "--json", "-", at=server) == 0
        planned = json.loads(capsys.readouterr().out)
        assert server.requests == []
        assert sorted(path.name for path in checkout.iterdir()) == ["logs", "mine", "small.toml"]
        assert tune(*TRIED, at=server) == 2  # the price comes first, and is not accepted
        assert server.requests == []
        assert "requests (" in capsys.readouterr().err
        assert tune("--yes", *TRIED, "--max-calls", 3, at=server) == 4
        assert len(server.requests) == 3
        assert "the cap max_calls is reached" in capsys.readouterr().err
        assert tune("--yes", *TRIED, "--out", "one", "--write", "new", "--json", "one.json", at=server) == 0
        assert planned["calls"] == pytest.approx(len(server.requests), rel=0.15)  # views follow the replies
        assert "segment" in planned["by_kind"]
    run = json.loads((checkout / "one.json").read_text("utf8"))
    tuning = run["tuning"]
    assert tuning["winner"] == "segment/v7"
    assert f"+{BETTER}" in tuning["diff"]
    assert all(pair["old"] != pair["new"] and pair["source"] for pair in tuning["pairs"])
    assert tuning["pairs"][0]["needed"]  # they begin with those that differ in most
    assert any({*pair["new_keeps"]} - {*pair["old_keeps"]} for pair in tuning["pairs"])
    assert all(arm["cost"] > 0 for arm in run["arms"].values())
    assert run["verdict"].startswith("segment/v7: better by ")
    assert "more tokens in a view" in run["verdict"]
    told = " ".join(capsys.readouterr().out.split())
    order = [f"+{BETTER}", "new: keeps", "ahead of start", "segment/v7: better by", "Written: new/segment/"]
    places = [told.find(words) for words in order]
    assert [-1, *places] == sorted({-1, *places})
    assert names(checkout / "new") == [f"segment/v{SHIPPED.version + 1}"]
    monkeypatch.delenv("OPENAI_API_KEY")
    assert tune(*TRIED, "--out", "two") == 0
    assert same_reports("one", "two")


def test_a_prompt_that_is_no_better_changes_nothing_and_one_that_cannot_serve_is_refused(checkout, capsys):
    with serving_apart(answering) as server:
        own = ("--prompts", "mine", "--prompt", "mine", "--json", "told.json")
        assert tune("--yes", *own, at=server, logs=SOME[:2]) == 0
    told = json.loads((checkout / "told.json").read_text("utf8"))
    assert told["tuning"]["winner"] == "start"
    assert "equal on every question" in told["verdict"]
    assert told["tuning"]["diff"] == told["written"] == []
    sections, lacks = "its sections must be the fixed ones", "it lacks the placeholder {{max_tokens}}"
    for right, wrong, words in (("## Done", "## Work", sections), ("{{max_tokens}}", "900", lacks)):
        (checkout / "mine.md").write_text(SHIPPED.text.replace(right, wrong), encoding="utf8")
        assert tune("--prompt", "mine.md") == 2
        assert f"mine.md: {words}" in capsys.readouterr().err
    assert command("tune", "logs", "--cassette", "c.jsonl", "--prompts", "mine") == 2
    assert "name the model that they are for" in capsys.readouterr().err


def test_a_process_that_is_ended_keeps_every_reply_that_it_has(checkout):
    def four(request: Request) -> Answer:
        return answering(request) if request.number < 4 else Answer(ending="stall")

    kept = checkout / "c.jsonl"
    with serving_apart(four) as server:
        words = ["tune", *SOME[:2], *OPTIONS, "--base-url", OPENAI.base_url(server.root), "--yes", *TRIED]
        with subprocess.Popen([sys.executable, "-m", "summarizing_context", *words], stderr=subprocess.PIPE) as process:
            for _ in range(600):
                if len(server.requests) > 4 and kept.exists() and kept.read_bytes().count(b"\n") == 4:
                    break
                time.sleep(0.1)
            process.terminate()
    assert process.returncode == -signal.SIGTERM
    assert kept.read_bytes().count(b"\n") == 4
    with serving_apart(answering) as server:
        assert tune("--yes", *TRIED, at=server, logs=SOME[:2]) == 0
        assert len(server.requests) == kept.read_bytes().count(b"\n") - 4, "no reply is paid for twice"
    assert kept.read_bytes().splitlines() == sorted(kept.read_bytes().splitlines())


@pytest.mark.parametrize("optimizer", ["model", "gepa"])
def test_the_model_writes_a_better_prompt_from_hindsight(checkout, monkeypatch, capsys, optimizer):
    asked = ("--propose", 2, "--optimizer", optimizer)
    with serving_apart(answering) as server:
        assert tune("--dry-run", *asked, "--json", "-", at=server, logs=SOME) == 0
        told = capsys.readouterr()
        assert json.loads(told.out)["proposals"] == 2
        assert "judged by 2 sessions: fewer than 5 tell no sure difference" in told.err
        assert server.requests == []
        assert tune("--yes", *asked, "--out", "one", "--write", "new", at=server, logs=SOME) == 0
        told = next(text for one in server.requests if (text := user_text(one.body)).startswith("You improve a"))
    assert "was dropped (what message" in told
    assert BETTER in (checkout / "new" / "segment" / f"v{SHIPPED.version + 1}.md").read_text("utf8")
    monkeypatch.delenv("OPENAI_API_KEY")
    assert tune(*asked, "--out", "two", logs=SOME) == 0
    assert same_reports("one", "two")
