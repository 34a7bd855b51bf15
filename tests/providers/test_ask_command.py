"""`eval ask`: one model asks about a log, another answers and marks, on the loopback; replayed without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from summarizing_context.cli import main
from summarizing_context.evaluation.demo_session import demo_session
from tests.cli.commands import write_transcript
from tests.privacy import open_to_others

from .protocols import KEY, OPENAI, Json, completion, system_text, user_text
from .serve import honest, serving_apart
from .server import Answer, ProviderServer, Request

SDKS = (anthropic, openai)  # imported before the clock of a call runs
WRITER, JUDGE = "gpt-5.4-mini", "gpt-5.4"
QUESTIONS = [
    {"category": "rule", "question": "What is forbidden?", "answer": "Restarts by day.", "evidence": [0, 2]},
    {"category": "fact", "question": "Which port is used?", "answer": "8080", "evidence": [3]},
    {"category": "absent", "question": "Who pays?", "answer": "not in the record", "evidence": []},
]
SECRET = "sk-abcdefghijklmnop1234"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("COLUMNS", "80")
    messages = [{"role": "user", "content": f"The key is {SECRET}."}, *demo_session(turns=6)]
    return write_transcript(tmp_path / "run.jsonl", messages)


def kind_of(body: Json) -> str:
    beginnings = {"You write a memory": "questions", "You take a memory": "reader", "You grade": "judge"}
    return next((kind for words, kind in beginnings.items() if system_text(body).startswith(words)), "summary")


def says(body: Json, questions: object = None) -> str:
    """Three questions; the first one answered from every view; every answer right, an abstention that."""
    content = user_text(body)
    match kind_of(body):
        case "questions":
            return f"Here they are:\n{json.dumps({'questions': questions or QUESTIONS})}"
        case "reader":
            listed = json.loads(content[content.rindex("Questions: ") + len("Questions: ") :])
            return json.dumps({listed[0]["id"]: "Restarts by day."})
        case "judge":
            asked = json.loads(content[content.index("{") : content.rindex("}") + 1])["questions"]
            assert all(set(one["answers"]) == {"A", "B", "C", "D"} for one in asked)
            marks = {"rule": 2, "fact": 0, "absent": 2}
            return json.dumps({one["id"]: dict.fromkeys(one["answers"], marks[one["category"]]) for one in asked})
    return honest(body)


def answering(request: Request) -> Answer:
    return Answer(body=json.dumps(completion(says(request.body))).encode())


def ask(log: Path, server: ProviderServer | None, *more: object, budget: object = "3k") -> int:
    url = OPENAI.base_url(server.root if server else "http://127.0.0.1:1")
    models = ("--model", WRITER, "--judge", JUDGE, "--base-url", url, "--judge-base-url", url, "--questions", 3)
    return main([str(word) for word in ("eval", "ask", log, "--budget", budget, *models, *more)])


def models_of(server: ProviderServer) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for request in server.requests:
        found.setdefault(request.body["model"], set()).add(kind_of(request.body))
    return found


def test_two_models_ask_and_answer_and_the_folder_shows_it_again(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with serving_apart(answering) as server:
        assert ask(log, server, "--dry-run", "--json", "-") == 0
        told: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert (server.requests, Path("eval-ask").exists()) == ([], False)
        assert ask(log, server) == 0
        asked = len(server.requests)
        assert models_of(server) == {WRITER: {"questions", "summary"}, JUDGE: {"reader", "judge"}}
        assert SECRET not in "".join(json.dumps(request.body) for request in server.requests)
        assert ask(log, server) == 0
        assert len(server.requests) == asked
    writer, judge = told["models"]
    assert writer["calls"] + judge["calls"] == pytest.approx(asked, abs=2)  # rollups follow the replies
    assert judge["by_kind"] == {"judge": 1, "reader": 4}
    assert told["estimated_cost"] == pytest.approx(writer["cost"] + judge["cost"])
    shown = capsys.readouterr()
    assert max(map(len, shown.out.splitlines()[:-1])) <= 80
    assert f"Recorded with {JUDGE}: 5 calls" in shown.err
    folder = Path("eval-ask")
    assert SECRET not in "".join(path.read_text("utf8") for path in folder.rglob("*.json*") if path.suffix != ".gz")
    assert folder.stat().st_mode & 0o077 == 0
    report = json.loads((folder / "report.json").read_text("utf8"))
    assert list(report["arms"]) == ["ours", "extractive", "compact", "tail"]
    assert report["arms"]["ours"]["score"]["points"] == 1
    assert {view["reading"] for view in report["views"]} == {"this view"}
    tokens = [view["tokens"] for view in report["views"]]
    assert max(tokens) <= 1.1 * min(tokens)
    monkeypatch.delenv("OPENAI_API_KEY")
    assert main(["eval", "run", str(folder), "--out", "again"]) == 0
    for name in ("report.json", "report.html"):
        assert (folder / name).read_bytes() == (Path("again") / name).read_bytes()
    assert open_to_others(Path("again")) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"evidence": [9_999]}, "names message 9999, but there are 0 to"),
        ({"evidence": []}, "names no message"),
        ({"answer": " "}, "lacks its words or its answer"),
        ({"category": "gossip"}, "no JSON object with questions"),
    ],
)
def test_questions_that_cannot_be_used_are_asked_three_times_and_told(
    log: Path, changed: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
):
    def badly(request: Request) -> Answer:
        words = says(request.body, [{**QUESTIONS[0], **changed}])
        return Answer(body=json.dumps(completion(words)).encode())

    with serving_apart(badly) as server:
        assert ask(log, server) == 2
        assert [kind_of(request.body) for request in server.requests] == ["questions"] * 3
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "budget", "said"),
    [
        (("--cut", 9, "--share", 0.5), "3k", "take one of them"),
        (("--judge", WRITER), "3k", "name another model"),
        (("--provider", "oracle"), "3k", "--provider"),
        (("--arms", "hierarchical"), "3k", "there is no arm"),
        ((), "900k", "take a budget below"),
    ],
)
def test_wrong_arguments_are_explained(
    log: Path, more: tuple[object, ...], budget: str, said: str, capsys: pytest.CaptureFixture[str]
):
    assert ask(log, None, *more, "--dry-run", budget=budget) == 2
    assert said in capsys.readouterr().err


def test_another_budget_needs_another_folder_and_a_folder_is_only_shown(log: Path, capsys: pytest.CaptureFixture[str]):
    with serving_apart(answering) as server:
        assert ask(log, server, "--arms", "ours,extractive,compact,tail", "--share", 0.9) == 0
    assert ask(log, None, "--share", 0.9, "--dry-run", budget="2k") == 2
    assert "another budget (3000)" in capsys.readouterr().err
    assert main(["eval", "record", "eval-ask", "--reader", "openai", "--model", "m"]) == 2
    assert "only shown again" in capsys.readouterr().err
