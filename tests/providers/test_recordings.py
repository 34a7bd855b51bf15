"""`eval run` and `tune` with a model: priced ahead, recorded against the provider on the loopback, and replayed."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress

from summarizing_context import Settings
from summarizing_context.evaluation.cassettes import Spent
from summarizing_context.evaluation.replay import replay_log
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.prompts import latest, names
from summarizing_context.transcripts import Transcript
from tests.cli.commands import write_transcript
from tests.evaluation.sessions import write
from tests.laws.builders import assistant, call, result, session, user
from tests.laws.judge import SMALL

from .protocols import KEY, MODEL, OPENAI, PROTOCOLS, Json, spoken_at, system_text, user_text
from .serve import answering, command, honest, kept_prompt, same_reports, serving_apart
from .server import Answer, ProviderServer, Request, serving

for_all = pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one.name)
TOKEN = "hf_" + "Qx7ZpLm4Rt" * 4
LINES = [f"MATERIAL{at:02}{'kQ7zW3' * 8}" for at in range(5)]
BLOCK = "\n".join(["-----BEGIN PRIVATE KEY-----", *LINES, "-----END PRIVATE KEY-----"])
PART = 12  # characters
PARTS = {text[at : at + PART] for text in (TOKEN, *LINES) for at in range(len(text) - PART + 1)}


def used(id: str, said: str, **arguments: str) -> list[dict[str, Any]]:
    return [call("openai", (id, "run", arguments)), result("openai", id, said)]


def transcript(folder: Path) -> Path:
    """Both secrets in words, in blocks that cut them, in JSON, and as values that later calls use."""
    said = f"The token is {TOKEN}, and the key:\n{BLOCK}\nKeep both in src/vault.py, port 8417."
    parts = (TOKEN[:20], f"{TOKEN[20:]} and", BLOCK[:90], f"{BLOCK[90:]} so")
    told = [(user, assistant)[at % 2](f"Row {at} tells of the harbour and its boats. " * 20) for at in range(20)]
    uses = [row for at in range(4) for row in used(f"u{at}", "done", path="src/vault.py", token=TOKEN, key=BLOCK)]
    given = json.dumps({"out": BLOCK, "token": TOKEN})
    rows = [user(said), user([{"type": "text", "text": text} for text in parts])]
    rows += [*used("a", given, command="cat src/vault.py", path="src/vault.py"), *told[:14], *uses, *told[14:], *uses]
    return write_transcript(folder / "vault.jsonl", rows)


def held(text: str) -> list[str]:
    return sorted(part for part in PARTS if part in text)


@pytest.fixture(autouse=True)
def unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No question gets an answer."""
    monkeypatch.setattr("sys.stdin", StringIO())


@for_all
def test_a_recorded_run_is_replayed_to_the_byte(protocol, tmp_path, monkeypatch, capsys):
    """And no part of a secret of its transcript is sent, or stands in a file that is written."""
    key = f"{protocol.name.upper()}_API_KEY"
    monkeypatch.setenv(key, KEY)
    case, written = transcript(tmp_path), tmp_path / "written"
    asked = ("--budget", "2k", "--summarizer", protocol.name, "--cassette", written / "c.jsonl", "--jobs", 1)

    def play(name: str, *more: object, model: str = MODEL) -> int:
        return command("eval", "run", case, *asked, "--model", model, "--out", written / name, *more)

    with serving_apart(answering) as server:
        url = ("--base-url", protocol.base_url(server.root))
        assert (play("record", *url), len(server.requests)) == (2, 0)  # the price is not accepted
        assert re.search(r"requests \(.*give --yes", capsys.readouterr().err, re.DOTALL)
        assert play("record", *url, "--yes", "--max-calls", 2) == 4
        assert "max_calls" in capsys.readouterr().err
        assert play("record", *url, "--yes", "--json", written / "told.json") == 0
        sent = [json.dumps(request.body) for request in server.requests]
        assert f"{len(sent) - 2:,} calls" in capsys.readouterr().err
    monkeypatch.delenv(key)
    assert play("run") == 0, "without a server"
    assert same_reports(written / "run", written / "record")
    assert MODEL in (written / "run" / "report.json").read_text("utf8")
    assert "127.0.0.1" not in (written / "run" / "report.html").read_text("utf8")
    assert play("run", model="another-model") == 2
    assert "another-model at" in capsys.readouterr().err
    files = [path for path in written.rglob("*") if path.is_file()]
    assert {"c.jsonl", "told.json", "report.html"} <= {path.name for path in files}
    assert not any(held(text) for text in (*sent, *(path.read_text("utf8") for path in files)))
    assert held(case.read_text("utf8"))  # what is looked for can be found
    assert any("src/vault.py" in text for text in sent)


# A dry run tells what a real one then asks for, and asks for nothing itself.

LOG = Transcript("log", "messages", tuple(session(63, 150)), {})


def metered(request: Request) -> Answer:
    """A summary near the cap, or no rules, billed for what was really sent."""
    read, cap = system_text(request.body), SMALL["summary_max_tokens"]
    text = "## Done\n" + "\n".join(f"- item {request.number} {n} was made" for n in range(cap // 10))
    if "standing rules" in read:
        text = "none"
    spoken = spoken_at(request.path)
    usage = spoken.usage(estimate_text(read) + estimate_text(user_text(request.body)), estimate_text(text))
    return Answer(body=json.dumps(spoken.reply(text, usage=usage)).encode())


@for_all
async def test_a_dry_run_tells_the_calls_and_the_tokens_of_the_real_one(protocol, monkeypatch):
    monkeypatch.delenv(f"{protocol.name.upper()}_API_KEY", raising=False)
    settings = Settings(summarizer=protocol.name, model=MODEL, max_tokens=2_000, **SMALL)
    (told,) = await replay_log("log", LOG, [settings], dry_run=True)
    async with serving(metered) as server:
        place = {"base_url": protocol.base_url(server.root), "api_key": KEY}
        (real,) = await replay_log("log", LOG, [replace(settings, **place)])
    assert told.counts["model_calls"] == real.counts["model_calls"] == len(server.requests) > 10
    assert any("consecutive parts" in system_text(one.body) for one in server.requests)
    assert told.counts["model_input_tokens"] == pytest.approx(real.counts["model_input_tokens"], rel=0.03)
    assert all(told.counts[name] == real.counts[name] > 0 for name in ("messages", "history_tokens"))


# Prompts tuned: written by gepa or by the model itself

BETTER = "- Keep every id that a call used."
OPTIONS = ("--model", MODEL, "--budget", "1000", "--cassette", "c.jsonl", "--config", "small.toml")
SIZES = """
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


def keeping(request: Request) -> Answer:
    return Answer(model=says)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write(tmp_path / "logs", *range(1, 6), turns=5, later=3)  # five, from which on a verdict is given
    (tmp_path / "small.toml").write_text(SIZES, encoding="utf8")
    kept_prompt(MINE, tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return tmp_path


def tune(*arguments: object, at: ProviderServer | None = None, logs: Sequence[str] = ("logs",)) -> int:
    where = ("--base-url", OPENAI.base_url(at.root)) if at else ()
    return command("tune", *logs, *OPTIONS, *where, *arguments)


def test_a_better_prompt_wins_and_is_the_next_version_and_a_replay_says_the_same(checkout, monkeypatch, capsys):
    """The bar of its recording has all calls from its start, so that what is left only falls."""
    bar, update = list[tuple[float | None, float]](), Progress.update

    def watched(self: Progress, task: Any, **given: Any) -> None:
        update(self, task, **given)
        if self.tasks[task].description == "calls":
            bar.append((self.tasks[task].total, self.tasks[task].completed))

    monkeypatch.setattr(Progress, "update", watched)
    with serving_apart(keeping) as server:
        assert tune("--dry-run", *TRIED, "--json", "-", at=server) == 0
        planned = json.loads(capsys.readouterr().out)
        assert server.requests == []
        assert sorted(path.name for path in checkout.iterdir()) == ["logs", "mine", "small.toml"]
        assert tune(*TRIED, at=server, logs=SOME[:1]) == 2  # the price comes first, and is not accepted
        assert server.requests == []
        assert "requests (" in capsys.readouterr().err
        assert tune("--yes", *TRIED, "--max-calls", 3, at=server, logs=SOME[:1]) == 4
        assert len(server.requests) == 3
        assert "the cap max_calls is reached" in capsys.readouterr().err
        with monkeypatch.context() as patch:  # without a cap it stops a quarter, and five, above what was told
            patch.setattr(Spent, "with_proposals", lambda *_: 0)
            assert tune("--yes", *TRIED, at=server) == 4
        assert len(server.requests) == 3 + 5
        assert "5 calls at most" in capsys.readouterr().err
        bar.clear()
        assert tune("--yes", *TRIED, "--out", "one", "--write", "new", "--json", "one.json", at=server) == 0
        assert planned["calls"] == pytest.approx(len(server.requests), rel=0.15)  # views follow the replies
        assert "segment" in planned["by_kind"]
        calls = len(server.requests) - 8
        assert {done for _, done in bar} == {*range(1, calls + 1)}
        assert bar[0][0] >= calls - 2  # what is asked follows the replies a little
    run = json.loads((checkout / "one.json").read_text("utf8"))
    tuning, files = run["tuning"], [f"--- shipped segment/v{SHIPPED.version}", "+++ segment/v7.md"]
    assert (tuning["winner"], tuning["diff"][:2]) == ("segment/v7", files)
    assert f"+{BETTER}" in tuning["diff"]
    assert all(pair["old"] != pair["new"] and pair["source"] for pair in tuning["pairs"])
    assert tuning["pairs"][0]["needed"]  # they begin with those that differ in most
    assert any({*pair["new_keeps"]} - {*pair["old_keeps"]} for pair in tuning["pairs"])
    assert all(arm["cost"] > 0 for arm in run["arms"].values())
    report = json.loads((checkout / "one" / "report.json").read_text("utf8"))
    assert {one["ledger_share"] for one in report["settings"].values()} == {0}, "which would hide what a summary lost"
    assert report["figures"]["verdict"] == run["verdict"]
    assert run["verdict"].startswith("segment/v7: better by ")
    assert "more tokens in a view" in run["verdict"]
    told, source = " ".join(capsys.readouterr().out.split()), " ".join(tuning["pairs"][1]["source"].split()[:3])
    order = [f"+{BETTER}", "new: keeps", source, "ahead of start", "segment/v7: better by", "Written: new/segment/"]
    places = [told.find(words) for words in order]
    assert [-1, *places] == sorted({-1, *places})
    assert names(checkout / "new") == [f"segment/v{SHIPPED.version + 1}"]
    monkeypatch.delenv("OPENAI_API_KEY")
    assert tune(*TRIED, "--out", "two") == 0
    assert same_reports("one", "two")


def test_a_prompt_that_is_no_better_changes_nothing_and_one_that_cannot_serve_is_refused(checkout, capsys):
    with serving_apart(keeping) as server:
        own = ("--prompts", "mine", "--prompt", "mine", "--json", "told.json")
        assert tune("--yes", *own, at=server, logs=SOME[:2]) == 0
        at = server
    assert tune("--yes", *own[:4], "--cassette", "down.jsonl", at=at, logs=SOME[:2]) == 4  # the server is down
    told = json.loads((checkout / "told.json").read_text("utf8"))
    assert (told["tuning"]["winner"], told["tuning"]["diff"], told["written"]) == ("start", [], [])
    assert "equal on every question" in told["verdict"]
    assert "Not written: too few sessions to tell." in capsys.readouterr().out
    sections, lacks = "its sections must be the fixed ones", "it lacks the placeholder {{max_tokens}}"
    bare, none = f"{sections}, in their order: ## ", "; it has none"
    for right, wrong, words in (("## Done", "## Work", sections), ("{{max_tokens}}", "900", lacks), ("## ", "", bare)):
        (checkout / "mine.md").write_text(SHIPPED.text.replace(right, wrong), encoding="utf8")
        assert tune("--prompt", "mine.md") == 2
        told = capsys.readouterr().err
        assert (f"mine.md: {words}" in told, none in told) == (True, words == bare)


def test_a_prompt_whose_replies_cannot_serve_does_not_win_by_the_extracts_in_their_place(checkout, capsys):
    def refusing(request: Request) -> Answer:
        return Answer(model=lambda body: "I am sorry. " * 500 if BETTER in system_text(body) else says(body))

    with serving_apart(refusing) as server:
        assert tune("--yes", *TRIED, "--max-calls", 100, "--json", "told.json", at=server) == 0
    told = json.loads((checkout / "told.json").read_text("utf8"))
    assert (told["tuning"]["winner"], told["written"]) == ("start", [])
    assert "of 100% of its segments no reply can serve, and extracts stand for them" in told["verdict"]
    assert "Not written: no reply can serve of 100% of its segments." in capsys.readouterr().out


def test_a_process_that_is_ended_keeps_every_reply_that_it_has(checkout):
    def three(request: Request) -> Answer:
        return keeping(request) if request.number < 3 else Answer(ending="stall")

    (kept := checkout / "c.jsonl").touch()
    stopped = "\nerror: stopped; replies are kept, run it again to go on\n"
    for replies, sign, status, told in ((3, signal.SIGTERM, -signal.SIGTERM, ""), (6, signal.SIGINT, 130, stopped)):
        with serving_apart(three) as server:
            words = ["tune", *SOME[:2], *OPTIONS, "--base-url", OPENAI.base_url(server.root), "--yes", *TRIED]
            line = [sys.executable, "-m", "summarizing_context", *words]
            with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
                for _ in range(600):
                    if len(server.requests) > 3 and kept.read_bytes().count(b"\n") == replies:
                        break
                    time.sleep(0.1)
                process.send_signal(sign)
                assert process.stderr.read().endswith(told)
        assert (process.returncode, kept.read_bytes().count(b"\n")) == (status, replies)
    with serving_apart(keeping) as server:
        assert tune("--yes", *TRIED, at=server, logs=SOME[:2]) == 0
        assert len(server.requests) == kept.read_bytes().count(b"\n") - 6, "no reply is paid for twice"
    assert kept.read_bytes().splitlines() == sorted(kept.read_bytes().splitlines())


@pytest.mark.parametrize("optimizer", ["model", "gepa"])
def test_the_model_writes_a_better_prompt_from_hindsight(checkout, monkeypatch, capsys, optimizer):
    asked = ("--propose", 2, "--optimizer", optimizer)
    with serving_apart(keeping) as server:
        assert tune("--dry-run", *asked, "--json", "-", at=server, logs=SOME) == 0
        told = capsys.readouterr()
        assert json.loads(told.out)["proposals"] == 2
        assert "judged by 2 of 3 sessions: fewer than 5 tell no sure difference" in told.err
        assert server.requests == []
        assert tune("--yes", *asked, "--out", "one", "--write", "new", at=server, logs=SOME) == 0
        assert "Written, although too few sessions to be sure: new/segment/" in capsys.readouterr().out
        told = [text for one in server.requests if (text := user_text(one.body)).startswith("You improve a")]
        assert tune("--dry-run", *asked, "--json", "-", at=server, logs=SOME) == 0
    assert json.loads(capsys.readouterr().out)["calls_at_most"] > 2  # each is tried, though all else is recorded
    assert len(told) <= 2
    assert "was dropped (what message" in told[0]
    for place in ("new", "one/proposals/*"):  # what was proposed is there, whether or not it won
        (prompt,) = checkout.glob(f"{place}/segment/v{SHIPPED.version + 1}.md")
        assert BETTER in prompt.read_text("utf8")
    monkeypatch.delenv("OPENAI_API_KEY")
    assert tune(*asked, "--out", "two", logs=SOME) == 0
    assert same_reports("one", "two")
